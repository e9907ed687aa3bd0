"""What comes again in a corpus, found by 64-bit hashes: a few bytes an example, however long it is.

Two different texts have the same hash once in 10^19 pairs: of corpora of ten million lines, one in 400,000 has such a
pair.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from windlass.data.growing import BLOCK, GrowingArray

PARTS = 64  # of what is on disk, one is sorted at a time


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
    places = np.argsort(found, kind="stable")  # equal hashes side by side, each kind in the order of its appearance
    fresh = np.diff(found[places], prepend=0) != 0
    fresh[:1] = True
    first = np.empty(len(found), dtype=np.int32)
    first[places] = places[np.flatnonzero(fresh)[np.cumsum(fresh) - 1]]
    return first


class Repeats(NamedTuple):
    """Some pairs that come again, in their order: whose they are, and whose the first of them was."""

    total: int  # also of those that are left out here
    owners: list[int]
    firsts: list[int]


class RepeatFinder:
    """Sources and their answers, as hashes, of which there may be more than memory holds.

    >>> finder = RepeatFinder([("a", ["x", "y"]), ("b", ["x"]), ("a", ["y", "z"])], disk=False)
    >>> finder.repeats(most=10)
    (Repeats(total=1, owners=[2], firsts=[0]), Repeats(total=1, owners=[2], firsts=[0]))
    """

    def __init__(self, examples: Iterable[tuple[str, Iterable[str]]], disk: bool):
        # Number, hash of the source, that of it and the answer, owner: (N, 4). All pairs of a source are in one part.
        self.parts = [GrowingArray(np.int64, disk) for _ in range(PARTS if disk else 1)]
        held, number = array("q"), 0
        for owner, (source, answers) in enumerate(examples):
            for answer in answers:
                held.extend((number, hash(source), hash((source, answer)), owner))
                number += 1
            if len(held) >= 4 * BLOCK:
                self._put(held)
                held = array("q")
        self._put(held)

    def _put(self, held: array[int]) -> None:
        rows = np.asarray(held, dtype=np.int64).reshape(-1, 4)
        which = rows[:, 1] % len(self.parts)
        for number, part in enumerate(self.parts):
            part.extend(rows[which == number])

    def repeats(self, most: int) -> tuple[Repeats, Repeats]:
        """Pairs that come again, and other answers to a source that came before; of each the first ones."""
        totals, rows = [0, 0], [np.zeros((3, 0), dtype=np.int64)] * 2  # a row: number, owner, owner of the first
        for part in self.parts:
            number, source, pair, owner = part[:].reshape(-1, 4).T
            same, earlier = firsts(pair), owner[firsts(source)]
            repeated = same != np.arange(len(pair))
            different = (earlier != owner) & ~repeated
            for kind, (which, first) in enumerate([(repeated, owner[same]), (different, earlier)]):
                totals[kind] += int(which.sum())
                both = np.concatenate([rows[kind], np.stack([number, owner, first])[:, which]], axis=1)
                rows[kind] = both[:, np.argsort(both[0])[:most]]
        again, other = (Repeats(n, kept[1].tolist(), kept[2].tolist()) for n, kept in zip(totals, rows, strict=True))
        return again, other
