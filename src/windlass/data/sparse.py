"""Sparse features of a text, hashed: what `model.head.svm` reads."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Literal

from windlass.core.marks import FEATURES

SparseFeature = Literal["ngrams", "skip", "affix", "opening", "shape"]
"""A kind of features."""
SHAPES = ("0", "AA", "Aa")
"""Of a word with a digit, of capitals, and with a capital: mostly names and numbers."""


def hashed_features(words: Sequence[str], kinds: Iterable[SparseFeature]) -> list[int]:
    """The different features of the words of a text, each as the number of its bucket.

    >>> len(hashed_features(["Who", "met", "Ann"], ["ngrams", "skip"]))
    6
    """
    lower = [word.lower() for word in words]
    found = {f"{kind} {feature}" for kind in kinds for feature in _features(words, lower, kind)}
    return sorted({zlib.crc32(feature.encode()) % FEATURES for feature in found})


def _features(words: Sequence[str], lower: Sequence[str], kind: SparseFeature) -> Iterator[str]:
    match kind:
        case "ngrams":
            yield from _ngrams(lower, 2)
        case "skip":
            yield from (f"{one} {other}" for one, other in zip(lower, lower[2:], strict=False))
        case "affix":
            for word in lower:
                if len(word) > 4:
                    yield from (word[:4], word[-3:])
        case "opening":
            yield from (f"{lower[0]} {lower[1]} {word}" for word in lower[2:])
        case "shape":  # a text begins with a capital anyway; several names in a row are one
            shapes = [word if n == 0 else shape(words[n]) or word for n, word in enumerate(lower)]
            joined = [word for one, same in groupby(shapes) for word in ([one] if one in SHAPES else same)]
            yield from (ngram for ngram in _ngrams(joined, 3) if not {*ngram.split(" ")}.isdisjoint(SHAPES))


def shape(word: str) -> str | None:
    """The shape of a word; None for an ordinary one.

    >>> [shape(word) for word in ("1990s", "NATO", "Ulm", "cat")]
    ['0', 'AA', 'Aa', None]
    """
    if any(map(str.isdigit, word)):
        return "0"
    return "AA" if len(word) > 1 and word.isupper() else "Aa" if word[:1].isupper() else None


def _ngrams(words: Sequence[str], longest: int) -> Iterator[str]:
    for size in range(1, longest + 1):
        yield from (" ".join(words[n : n + size]) for n in range(len(words) - size + 1))
