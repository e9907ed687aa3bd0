"""What comes again in a corpus, found by 64-bit hashes: a few bytes an example, however long it is.

Two different texts have the same hash once in 10^19 pairs: of corpora of ten million lines, one in 400,000 has such a
pair.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

PARTS = 16  # hashes are sorted in so many parts, as sorting takes as much memory again


def hashes(keys: Iterable[object]) -> NDArray[np.int64]:
    """The hash of every key: texts, or tuples of texts. It holds within one process only.

    >>> found = hashes(["a", "b", "a"])
    >>> bool(found[0] == found[2] != found[1])
    True
    """
    return np.fromiter((hash(key) for key in keys), dtype=np.int64)


def firsts(found: NDArray[np.int64]) -> NDArray[np.int32]:
    """For every hash, where it came first.

    >>> firsts(np.array([7, 8, 7, 9, 8])).tolist()
    [0, 1, 0, 3, 1]
    """
    first = np.empty(len(found), dtype=np.int32)
    for part in range(PARTS):
        places = np.flatnonzero((found & (PARTS - 1)) == part)
        if not len(places):
            continue
        order = np.argsort(found[places], kind="stable")
        places = places[order]  # equal hashes side by side, each kind in the order of its appearance
        fresh = np.append(True, np.diff(found[places]) != 0)
        first[places] = places[np.flatnonzero(fresh)[np.cumsum(fresh) - 1]]
    return first
