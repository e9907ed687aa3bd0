"""Batches by tokens: examples of about one length, in an order that depends on nothing but (seed, epoch).

A loader has no position: a run that stopped after n batches of an epoch goes on with `epoch(e, start=n)`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from windlass.core.errors import DataError
from windlass.core.records import Batch
from windlass.data.augment import Augment
from windlass.data.encoded import Encoded, EncodedStore
from windlass.data.growing import GrowingArray

Collate = Callable[[Sequence[Encoded], Sequence[int]], Batch]
"""Rows and their keys to a batch."""

NOISE = 0.1  # lengths are blurred by up to this share before sorting, so that batches differ between epochs
SORTED = 2**18  # examples sorted at a time, about
MOST_PILES = 256  # in which they are held until then, each a file on disk
SAMPLE = 2**16  # examples that the boundaries of the piles are drawn from


class Loader:
    """Serves examples as batches whose cost, rows x the longest sequence, is at most `batch_tokens`.

    An example longer than that is a batch of its own; none is left out. Without `shuffle` batches run from
    short to long, always the same; `keys` says which examples they hold. `augment` changes every example anew in every
    epoch; batches are made by the lengths before.

    >>> from windlass.data.sides import Sides
    >>> sides = Sides.tiny()
    >>> rows = [sides.encode("a" * n, "b" * n) for n in (1, 2, 3, 9)]
    >>> loader = Loader(sides.store(rows), sides.collate, batch_tokens=12, seed=1, shuffle=False)
    >>> [batch.keys.tolist() for batch in loader.epoch(0)]
    [[0, 1, 2], [3]]
    """

    def __init__(
        self,
        examples: EncodedStore,
        collate: Collate,
        batch_tokens: int,
        seed: int,
        shuffle: bool,
        augment: Augment | None = None,
    ) -> None:
        if batch_tokens < 1:
            raise DataError(f"batch_tokens must be at least 1, not {batch_tokens}")
        self.examples, self.collate, self.augment = examples, collate, augment
        self.planner = _Planner(examples.source_costs, examples.target_costs, batch_tokens, seed, shuffle)
        self._planned: tuple[int, _Plan] | None = None  # of the last epoch, which is asked for several times

    def _plan(self, number: int) -> _Plan:
        if self._planned is None or self._planned[0] != number:
            self._planned = None  # before another is made
            self._planned = number, self.planner.plan(number)
        return self._planned[1]

    def batches(self, number: int) -> int:
        """How many batches an epoch has."""
        return len(self._plan(number).turns)

    def cells(self, number: int) -> list[int]:
        """How many places every batch of an epoch has, padding too, without making the batches."""
        plan = self._plan(number)
        found: list[int] = plan.cells[plan.turns].tolist()
        return found

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch, from batch `start` on."""
        plan = self._plan(number)
        for turn in plan.turns[start:]:
            keys = plan.keys(turn)
            rows = [self.examples[k] for k in keys]
            if self.augment is not None:
                rows = [self.augment(row, number, k) for row, k in zip(rows, keys, strict=True)]
            yield self.collate(rows, keys)


class _Plan(NamedTuple):
    """An epoch: keys in the order of their length, where batches begin in it (and the end), the places that each batch
    has, padding too, and the batches' turns."""

    order: GrowingArray[np.int32]
    bounds: NDArray[np.int64]
    cells: NDArray[np.int64]
    turns: NDArray[np.int64]

    def keys(self, batch: int) -> list[int]:
        found: list[int] = self.order[int(self.bounds[batch]) : int(self.bounds[batch + 1])].tolist()
        return found


@dataclass(frozen=True)
class _Planner:
    """Plans epochs: the same for the same seed and number, wherever the examples are held.

    Of a corpus on disk nothing of an example stays in memory: lengths are read block by block, some examples are
    sorted at a time, those that are longer after those that are shorter, and the order goes to a file.
    """

    source_costs: GrowingArray[np.int32]  # places of each example in a batch
    target_costs: GrowingArray[np.int32]
    batch_tokens: int
    seed: int
    shuffle: bool

    def plan(self, number: int) -> _Plan:
        order, begins, cells = GrowingArray(np.int32, self.source_costs.disk), array("q"), array("q")
        rest, done = np.zeros((2, 0), dtype=np.int32), 0  # sizes of what is in no batch yet, and how many are in one
        for keys, sizes in self._sorted(number):
            order.extend(keys)
            rest = np.concatenate([rest, sizes], axis=1)
            starts, end = self._cut(rest.max(0), last=len(order) == len(self.source_costs))
            if starts:
                begins.extend(done + start for start in starts)
                widths = np.maximum.reduceat(rest[:, :end], starts, axis=1).sum(0, dtype=np.int64)
                cells.extend((widths * np.diff(starts, append=end)).tolist())
            rest, done = rest[:, end:], done + end
        found = np.asarray(cells, dtype=np.int64)
        return _Plan(order, np.append(np.asarray(begins, dtype=np.int64), done), found, self._turns(number, len(found)))

    def _turns(self, number: int, batches: int) -> NDArray[np.int64]:
        if not self.shuffle:
            return np.arange(batches)
        bits = np.random.PCG64([self.seed, number])
        bits.advance(len(self.source_costs))  # past what blurs the lengths
        return np.random.Generator(bits).permutation(batches)

    def _blurred(self, number: int) -> Iterator[tuple[int, NDArray[np.int32], NDArray[np.float64]]]:
        """Block by block: the first example's key, sizes (2, N) in source and target, and lengths to sort by."""
        generator, first = np.random.Generator(np.random.PCG64([self.seed, number])), 0
        for sources, targets in zip(self.source_costs.blocks(), self.target_costs.blocks(), strict=True):
            sizes = np.empty((2, len(sources)), dtype=np.int32)
            sizes[0], sizes[1] = np.maximum(sources, 1), targets
            lengths = sizes.max(0).astype(np.float64)
            if self.shuffle:
                lengths *= generator.uniform(1 - NOISE, 1 + NOISE, len(lengths))
            yield first, sizes, lengths
            first += len(lengths)

    def _edges(self, number: int) -> NDArray[np.float64]:
        """Lengths that part the examples into piles of about `SORTED`."""
        piles = min(MOST_PILES, -(-len(self.source_costs) // SORTED))
        if piles <= 1:
            return np.zeros(0)
        step = -(-len(self.source_costs) // SAMPLE)
        # Copies: a view would hold all of its block.
        sample = np.sort(np.concatenate([lengths[::step].copy() for _, _, lengths in self._blurred(number)]))
        return np.unique(sample[np.arange(1, piles) * len(sample) // piles])

    def _sorted(self, number: int) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32]]]:
        """Keys from short to long and their sizes (2, N), a pile at a time."""
        edges = self._edges(number)
        piles = [GrowingArray(np.int64, self.source_costs.disk) for _ in range(len(edges) + 1)]
        for first, sizes, lengths in self._blurred(number):
            # The bits of numbers above 0 have the order of the numbers.
            rows = np.column_stack([lengths.view(np.int64), np.arange(first, first + len(lengths)), *sizes])
            which = np.searchsorted(edges, lengths, side="right").astype(np.int16)
            order = np.argsort(which, kind="stable")
            bounds = np.searchsorted(which[order], np.arange(len(piles) + 1))
            for pile, (begin, end) in zip(piles, pairwise(bounds), strict=True):
                pile.extend(rows[order[begin:end]])
        while piles:
            rows = piles.pop(0)[:].reshape(-1, 4)
            rows = rows[np.argsort(rows[:, 0], kind="stable")].astype(np.int32)
            if len(rows):
                yield rows[:, 1], rows[:, 2:].T

    def _cut(self, lengths: NDArray[np.int32], last: bool) -> tuple[list[int], int]:
        """Where batches begin, and where the last of them ends: before one that the next pile may add to."""
        starts, begin = [], 0
        while begin < len(lengths):
            most = max(1, self.batch_tokens // int(lengths[begin]))
            if begin + most > len(lengths) and not last:
                break
            longest = np.maximum.accumulate(lengths[begin : begin + most]).astype(np.int64)
            cost = longest * np.arange(1, len(longest) + 1)
            starts.append(begin)
            begin += max(1, int(np.searchsorted(cost, self.batch_tokens, side="right")))
        return starts, begin
