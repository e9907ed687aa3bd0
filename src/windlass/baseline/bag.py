"""Logistic regression on a bag of words: the classifier to beat."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional as F

from windlass.baseline.text import TooLargeError
from windlass.data.examples import Pairs, Value, as_text
from windlass.data.sides.pair import PairOptions, PairSource
from windlass.nn.fast.optimiser import without_compiler

_WORD = re.compile(r"\w+|[^\w\s]")
MAX_FEATURES = 20_000
"""The most frequent features are kept."""
MOST_CELLS = 100_000_000
"""Cells of the weights and of the scores of all examples, together: some GB while it is fitted."""
STEPS, RATE, DECAY = 150, 0.1, 1e-5


def _features(text: str) -> Counter[str]:
    """Count the lowercased unigrams and bigrams of a text."""
    words = _WORD.findall(text.lower())
    return Counter([*words, *(" ".join(pair) for pair in pairwise(words))])


def _pair_features(first: str, second: str) -> Counter[str]:
    """Return the words of two texts, marked as shared (=), first only (-) or second only (+), and how many are new."""
    one, other = (set(_WORD.findall(text.lower())) for text in (first, second))
    marked = [f"={w}" for w in one & other] + [f"-{w}" for w in one - other] + [f"+{w}" for w in other - one]
    return Counter([*marked, f"new {len(other - one)}"])


@dataclass(frozen=True)
class BagOfWords:
    """Logistic regression on L2-normalised tf-idf: score(label) = b + sum over features of tf * idf * w.

    >>> bag = BagOfWords.fit([("good film", "yes"), ("bad film", "no"), ("a good one", "yes"), ("a bad one", "no")])
    >>> bag.predict(["so good", "so bad"])
    ['yes', 'no']
    """

    name: str = "bag of words"
    labels: Sequence[str] = ()
    idf: Mapping[str, float] = field(default_factory=dict)
    weights: Mapping[str, Sequence[float]] = field(default_factory=dict)
    bias: Sequence[float] = ()
    pair: bool = False  # whether a source is a pair of texts
    question: bool = False  # whether a source is a picture and a question, of which the question is read

    def check(self) -> None:
        """Raise ValueError if the parts, read from a file, do not fit together."""
        rows = (self.bias, *self.weights.values())
        if not self.labels or self.idf.keys() != self.weights.keys() or any(len(r) != len(self.labels) for r in rows):
            raise ValueError("its weights are not one per feature and label")

    @classmethod
    def fit(cls, train: Pairs, pair: bool = False, question: bool = False) -> BagOfWords:
        """Train by full-batch gradient descent from zero, which is deterministic."""
        blank = cls(f"{cls.name} of the question" if question else cls.name, pair=pair, question=question)
        bags = [blank._bag(source) for source, _ in train]
        seen = Counter(feature for bag in bags for feature in bag)
        kept = sorted(seen, key=lambda feature: (-seen[feature], feature))[:MAX_FEATURES]
        idf = {feature: round(1 + math.log((1 + len(bags)) / (1 + seen[feature])), 4) for feature in kept}
        labels = sorted({label for _, label in train})
        if len(labels) * (5 * len(kept) + len(bags)) > MOST_CELLS:
            raise TooLargeError(f"{len(labels):,} labels of {len(bags):,} texts are too many for it")
        places = {feature: n for n, feature in enumerate(kept)}
        x = _matrix([_vector(bag, idf) for bag in bags], places)
        numbers = {label: n for n, label in enumerate(labels)}
        y = torch.tensor([numbers[label] for _, label in train])
        w = torch.zeros(len(kept), len(labels), requires_grad=True)
        b = torch.zeros(len(labels), requires_grad=True)
        optimiser = without_compiler(torch.optim.Adam)([w, b], lr=RATE)
        with torch.enable_grad():
            for _ in range(STEPS):
                optimiser.zero_grad()
                loss = F.cross_entropy(torch.sparse.mm(x, w) + b, y) + DECAY * w.square().sum()
                torch.autograd.backward(loss)
                optimiser.step()
        rows = w.detach().tolist()
        weights = {feature: [round(value, 3) for value in rows[n]] for feature, n in places.items()}
        return replace(blank, labels=labels, idf=idf, weights=weights, bias=[round(value, 3) for value in b.tolist()])

    def predict(self, sources: Sequence[Value]) -> list[str]:
        """Return a label for every source."""
        predicted = []
        for source in sources:
            scores = list(self.bias)
            for feature, value in _vector(self._bag(source), self.idf).items():
                scores = [s + value * w for s, w in zip(scores, self.weights[feature], strict=True)]
            predicted.append(self.labels[max(range(len(scores)), key=lambda n: scores[n])])
        return predicted

    def _bag(self, source: Value) -> Counter[str]:
        if self.pair:
            return _pair_features(*PairSource.read(PairOptions(), source))
        return _features(source[1] if self.question else as_text(source))


@dataclass(frozen=True)
class BagOfWordsTagger:
    """Tags of sentences, each by a bag of words.

    >>> bag = BagOfWordsTagger.fit([(("who is it", "it is Ann"), "ASK SAY"), (("it is he", "who"), "SAY ASK")])
    >>> bag.predict([("who", "Ann", "it is she")])
    ['ASK SAY SAY']
    """

    name: str = "bag of words of each"
    labels: Sequence[str] = ()
    idf: Mapping[str, float] = field(default_factory=dict)
    weights: Mapping[str, Sequence[float]] = field(default_factory=dict)
    bias: Sequence[float] = ()

    def check(self) -> None:
        """Raise ValueError if the parts, read from a file, do not fit together."""
        BagOfWords("bag of words", self.labels, self.idf, self.weights, self.bias).check()

    @classmethod
    def fit(cls, train: Pairs) -> BagOfWordsTagger:
        """Train on all sentences of all documents."""
        each = [pair for source, tags in train for pair in zip(source, tags.split(), strict=True)]
        bag = BagOfWords.fit(each)
        return cls(labels=bag.labels, idf=bag.idf, weights=bag.weights, bias=bag.bias)

    def predict(self, sources: Sequence[Value]) -> list[str]:
        """Return the tags of every source, which must be split into sentences."""
        bag = BagOfWords("bag of words", self.labels, self.idf, self.weights, self.bias)
        return [" ".join(bag.predict([source] if isinstance(source, str) else source)) for source in sources]


def _vector(bag: Counter[str], idf: Mapping[str, float]) -> dict[str, float]:
    raw = {feature: (1 + math.log(n)) * idf[feature] for feature, n in bag.items() if feature in idf}
    length = math.sqrt(sum(value * value for value in raw.values())) or 1.0
    return {feature: value / length for feature, value in raw.items()}


def _matrix(rows: Sequence[Mapping[str, float]], places: Mapping[str, int]) -> Tensor:
    cells = [(n, places[feature], value) for n, row in enumerate(rows) for feature, value in row.items()]
    at = torch.tensor([[n for n, _, _ in cells], [p for _, p, _ in cells]])
    return torch.sparse_coo_tensor(
        at, torch.tensor([v for _, _, v in cells]), (len(rows), len(places)), check_invariants=False
    ).coalesce()
