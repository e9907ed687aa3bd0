"""A hidden Markov model tagger: the tagger to beat."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from windlass.baseline.text import TooLargeError
from windlass.data.examples import Pairs, Value
from windlass.nn.crf import Chain

RARE = 2
"""Words with at most this count model unknown words."""
MOST_TAGS = 1000
"""A step of Viterbi decoding takes their square."""
SMOOTH = 0.1


def _shape(word: str) -> str:
    """Return the shape of a word: whether it has a digit, a capital or neither, and its last three letters."""
    sign = "1" if any(c.isdigit() for c in word) else "A" if word[:1].isupper() else "a"
    return sign + word[-3:].lower()


@dataclass(frozen=True)
class HiddenMarkov:
    """p(words, tags) = prod_t p(tag_t | tag_{t-1}) p(word_t | tag_t), with Viterbi decoding.

    An unknown word has the tags of rare words of the same shape (Brants 2000).

    >>> train = [(("the", "can"), "DET NOUN"), (("we", "can"), "PRON VERB"), (("we", "go"), "PRON VERB")]
    >>> HiddenMarkov.fit(train).predict([("the", "can"), ("we", "can")])
    ['DET NOUN', 'PRON VERB']
    """

    name: str = "hidden Markov model"
    tags: Sequence[str] = ()
    start: Sequence[float] = ()
    steps: Sequence[Sequence[float]] = ()
    end: Sequence[float] = ()
    counts: Sequence[int] = ()  # per tag
    words: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # counts of tags per word
    looks: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # counts of tags per shape of rare words

    def check(self) -> None:
        """Raise ValueError if the parts, read from a file, do not fit together."""
        rows = (self.start, self.end, self.counts, self.steps, *self.steps)
        if not self.tags or any(len(row) != len(self.tags) for row in rows) or min(self.counts) < 1:
            raise ValueError("its probabilities are not one per tag")

    @classmethod
    def fit(cls, train: Pairs) -> HiddenMarkov:
        """Count transitions and emissions."""
        rows = [(_words(source), tags.split()) for source, tags in train]
        counts = Counter(tag for _, tags in rows for tag in tags)
        tags = sorted(counts)
        if len(tags) > MOST_TAGS:
            raise TooLargeError(f"{len(tags):,} tags are too many for it")
        words: defaultdict[str, Counter[str]] = defaultdict(Counter)
        pairs: Counter[tuple[str, str]] = Counter()
        for sentence, gold in rows:
            for word, tag in zip(sentence, gold, strict=True):
                words[word][tag] += 1
            pairs.update(zip(["", *gold], [*gold, ""], strict=True))
        looks: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for word, found in words.items():
            if found.total() <= RARE:
                for look in (_shape(word), _shape(word)[0]):
                    looks[look].update(found)

        def row(before: str, after: Sequence[str]) -> list[float]:
            total = sum(pairs[before, tag] + SMOOTH for tag in [*tags, ""])
            return [round(math.log((pairs[before, tag] + SMOOTH) / total), 4) for tag in after]

        return cls(
            tags=tags,
            start=row("", tags),
            steps=[row(tag, tags) for tag in tags],
            end=[row(tag, [""])[0] for tag in tags],
            counts=[counts[tag] for tag in tags],
            words={word: dict(found) for word, found in words.items()},
            looks={look: dict(found) for look, found in looks.items()},
        )

    def predict(self, sources: Sequence[Value]) -> list[str]:
        """Return the tags of every source, separated by spaces."""
        chain = Chain(*(torch.tensor(part, dtype=torch.float64) for part in (self.start, self.steps, self.end)))
        known: dict[str, list[float]] = {}
        predicted = []
        for source in sources:
            words = _words(source)
            for word in words:
                if word not in known:
                    known[word] = self._emission(word)
            scores = torch.tensor([[known[word] for word in words]], dtype=torch.float64)
            best, _ = chain.viterbi(scores, torch.ones(1, len(words), dtype=torch.bool))
            predicted.append(" ".join(self.tags[n] for n in best[0].tolist()))
        return predicted

    def _emission(self, word: str) -> list[float]:
        """log p(word | tag), up to a constant per word."""
        seen = self.words.get(word) or self.looks.get(_shape(word)) or self.looks.get(_shape(word)[0]) or {}
        rest = SMOOTH if word not in self.words else 1e-6
        return [math.log((seen.get(tag, 0) + rest) / n) for tag, n in zip(self.tags, self.counts, strict=True)]


def _words(source: Value) -> Sequence[str]:
    return source.split() if isinstance(source, str) else source
