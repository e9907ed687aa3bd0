"""Changes to encoded examples in training, drawn anew in every epoch: other cuts into subwords, and noisy characters.

The draws depend on seed, epoch and key alone, so that a resumed run sees what an uninterrupted one would.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from random import Random
from typing import final

import numpy as np
from tokenizers import Tokenizer as Library

from windlass.core.marks import MARKS, UNK
from windlass.data.encoded import Encoded
from windlass.data.tokenizer import Tokenizer

Augment = Callable[[Encoded, int, int], Encoded]
"""An example, the epoch and the example's key to the example as the epoch has it."""


@dataclass(frozen=True)
class Recut(ABC):
    """Cuts a text into other subwords, word by word."""

    tokenizer: Tokenizer

    @cached_property
    def _library(self) -> Library:
        return Library.from_str(self.tokenizer.model or "")

    def __call__(self, ids: Sequence[int], chance: Random) -> list[int]:
        """The ids of another cut; unknown tokens stay, and what is between them is cut anew."""
        found: list[int] = []
        start = 0
        for end in [*(n for n, number in enumerate(ids) if number < len(MARKS)), len(ids)]:
            text = "".join(self.tokenizer.symbols[number - len(MARKS)] for number in ids[start:end])
            words = self._library.pre_tokenizer.pre_tokenize_str(text) if text else []
            found += [self.tokenizer.index.get(piece, UNK) for word, _ in words for piece in self._cut(word, chance)]
            found += ids[end : end + 1]
            start = end + 1
        return found

    @abstractmethod
    def _cut(self, word: str, chance: Random) -> list[str]:
        """The pieces of a word."""


@final
@dataclass(frozen=True)
class BpeDropout(Recut):
    """Cuts a text into other subwords: each merge is left out with a probability (Provilkov et al. 2020).

    >>> from windlass.data.tokens import TextOptions
    >>> tokenizer = Tokenizer.fit(TextOptions(tokens={"kind": "bpe", "size": 30}), ["low lower lowest"])
    >>> ids = tokenizer.encode("lower")
    >>> BpeDropout(tokenizer, 0.0)(ids, Random(1)) == ids
    True
    >>> [tokenizer.token(n) for n in BpeDropout(tokenizer, 0.999)(ids, Random(1))]
    ['▁', 'l', 'o', 'w', 'e', 'r']
    """

    probability: float

    @cached_property
    def _ranks(self) -> dict[tuple[str, str], int]:
        merges = json.loads(self.tokenizer.model or "")["model"]["merges"]
        return {(left, right): rank for rank, (left, right) in enumerate(merges)}

    def _cut(self, word: str, chance: Random) -> list[str]:
        """Merge the pair of lowest rank, as long as there is one; each is left out anew at every merge."""
        pieces, ranks = list(word), self._ranks
        while True:
            pairs = ((ranks.get(pair), n) for n, pair in enumerate(pairwise(pieces)))
            kept = [(rank, n) for rank, n in pairs if rank is not None and chance.random() >= self.probability]
            if not kept:
                return pieces
            _, n = min(kept)
            pieces[n : n + 2] = [pieces[n] + pieces[n + 1]]


@final
@dataclass(frozen=True)
class UnigramSampling(Recut):
    """Draws a cut from the unigram model (Kudo 2018): p(cut) ~ (product of p(piece))^alpha.

    Forward sums over all cuts of a word's beginnings, then pieces drawn from its end. A small alpha makes all cuts
    alike, a large one draws the best.

    >>> from windlass.data.tokens import TextOptions
    >>> tokenizer = Tokenizer.fit(TextOptions(tokens={"kind": "unigram", "size": 30}), ["low lower lowest"])
    >>> ids = tokenizer.encode("lower")
    >>> UnigramSampling(tokenizer, 100.0)(ids, Random(1)) == ids
    True
    >>> cuts = {tuple(UnigramSampling(tokenizer, 0.1)(ids, Random(n))) for n in range(20)}
    >>> sorted(" ".join(map(tokenizer.token, cut)) for cut in cuts)
    ['▁ l o w e r', '▁low e r', '▁lowe r']
    """

    alpha: float

    @cached_property
    def _scores(self) -> dict[str, float]:
        pieces = json.loads(self.tokenizer.model or "")["model"]["vocab"]
        return {piece: self.alpha * score for piece, score in pieces if piece in self.tokenizer.index}

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self._scores))

    def _cut(self, word: str, chance: Random) -> list[str]:
        """Forward filtering, backward sampling."""
        scores = self._scores
        sums = [0.0]  # log of the summed weights of all cuts of word[:end]
        arcs: list[list[tuple[int, float]]] = [[]]  # where the last piece of word[:end] begins, and its log weight
        for end in range(1, len(word) + 1):
            begins = range(max(0, end - self._longest), end)
            arcs.append([(n, sums[n] + scores[word[n:end]]) for n in begins if word[n:end] in scores])
            most = max((weight for _, weight in arcs[end]), default=-math.inf)
            whole = sum(math.exp(weight - most) for _, weight in arcs[end]) if most > -math.inf else 0.0
            sums.append(most + math.log(whole) if whole else -math.inf)
        pieces: list[str] = []
        end = len(word)
        while end:
            weights = [math.exp(weight - sums[end]) for _, weight in arcs[end]]
            ((begin, _),) = chance.choices(arcs[end], weights)
            pieces.append(word[begin:end])
            end = begin
        return pieces[::-1]


@final
@dataclass(frozen=True)
class CharacterNoise:
    """Changes characters, each with a probability: deletes it, puts another before it, replaces it, or swaps it.

    >>> from windlass.data.tokens import TextOptions
    >>> tokenizer = Tokenizer.fit(TextOptions(), ["abc"])
    >>> noise = CharacterNoise(tokenizer, 0.5)
    >>> sorted({tokenizer.decode(noise(tokenizer.encode("abc"), Random(n))) for n in range(5)})
    ['ab', 'abc', 'b', 'bab', 'cb']
    """

    tokenizer: Tokenizer
    probability: float

    def __call__(self, ids: Sequence[int], chance: Random) -> list[int]:
        """The ids with noise; marks stay."""
        letters, found = range(len(MARKS), len(self.tokenizer)), list(ids)
        n = 0
        while n < len(found):
            if found[n] < len(MARKS) or chance.random() >= self.probability:
                n += 1
                continue
            change = chance.choice(("delete", "insert", "replace", "swap"))
            if change == "delete" and len(found) > 1:
                del found[n]
                continue
            if change == "insert":
                found.insert(n, chance.choice(letters))
                n += 1
            elif change == "replace":
                found[n] = chance.choice(letters)
            elif change == "swap" and n + 1 < len(found) and found[n + 1] >= len(MARKS):
                found[n], found[n + 1] = found[n + 1], found[n]
                n += 1
            n += 1
        return found


@final
@dataclass(frozen=True)
class Augmentation:
    """What is done to the ids of sources and targets; an example that would no longer fit the model stays as it is.

    >>> example = Encoded({"source": np.array([5, 6])}, np.array([7]))
    >>> Augmentation(1, source=[lambda ids, chance: ids[::-1]])(example, 0, 0).source["source"].tolist()
    [6, 5]
    """

    seed: int
    source: Sequence[Callable[[Sequence[int], Random], Sequence[int]]] = field(default_factory=list)
    target: Sequence[Callable[[Sequence[int], Random], Sequence[int]]] = field(default_factory=list)
    fits: Callable[[Encoded], bool] = lambda example: True

    def __call__(self, example: Encoded, epoch: int, key: int) -> Encoded:
        """The example as an epoch has it."""
        chance = Random(f"{self.seed} {epoch} {key}")
        source, target = example.source["source"], example.target
        ids = source.tolist()
        for change in self.source:
            ids = list(change(ids, chance))
        if target is not None:
            written = target.tolist()
            for change in self.target:
                written = list(change(written, chance))
            target = np.array(written, dtype=target.dtype)
        changed = example._replace(source=example.source | {"source": np.array(ids, dtype=source.dtype)}, target=target)
        return changed if self.fits(changed) else example
