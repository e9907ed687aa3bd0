"""Encoded examples, and a compact store of them: in memory, or in a file where a corpus is larger than that.

A row of the store is a header of 32-bit numbers (the shape of every array) and the bytes of the arrays. On disk nothing
of an example stays in memory: where a row begins and what it costs are arrays in files too.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from windlass.core.errors import DataError
from windlass.data.growing import Bytes, GrowingArray

Arrays = dict[str, NDArray[Any]]
"""An encoded source: arrays of any type and shape by name. Ragged ids are a flat array and an array of lengths."""


class Encoded(NamedTuple):
    """An example as arrays. A target of None means that there is none (prediction).

    >>> Encoded({"source": np.array([5, 6])}, np.array([7])).alignment is None
    True
    """

    source: Arrays
    target: NDArray[Any] | None
    alignment: NDArray[np.int32] | None = None  # (N, 2) gold links (source place, target place)


class EncodedStore:
    """Encoded examples, compact. The names, types and dimensions of arrays are those of the first row.

    `costs` tells how many places a row takes in a batch: of the source, and of the target.

    >>> store = EncodedStore([Encoded({"source": np.array([5, 6], np.int32)}, None)], lambda row: (2, 0))
    >>> store[0].source["source"].tolist(), store.source_costs[:].tolist()
    ([5, 6], [2])
    """

    def __init__(self, rows: Iterable[Encoded], costs: Callable[[Encoded], tuple[int, int]], disk: bool = False):
        self._names: tuple[str, ...] = ()
        self._types: list[np.dtype[Any]] = []  # of each array of a row
        self._dimensions: list[int] = []
        self._header = struct.Struct("")
        self._bytes, self._ends = Bytes(disk), GrowingArray(np.int64, disk)
        self.source_costs, self.target_costs = GrowingArray(np.int32, disk), GrowingArray(np.int32, disk)
        for key, row in enumerate(rows):
            if key == 0:
                self._learn(row)
            self._append(row)
            source, target = costs(row)
            self.source_costs.append(source)
            self.target_costs.append(target)

    def _learn(self, row: Encoded) -> None:
        self._names = tuple(row.source)
        self._types = [array.dtype for array in self._arrays(row)]
        self._dimensions = [array.ndim for array in self._arrays(row)]
        self._header = struct.Struct(f"{sum(self._dimensions) + 1}i")

    def _arrays(self, row: Encoded) -> list[NDArray[Any]]:
        return [*(row.source[name] for name in self._names), *([] if row.target is None else [row.target])]

    def _append(self, row: Encoded) -> None:
        arrays, links = self._arrays(row), row.alignment
        if [array.dtype for array in arrays] != self._types:
            raise DataError("examples of one store must be alike: all with a target or none, and of the same types")
        shapes = [size for array in arrays for size in array.shape]
        parts = [self._header.pack(*shapes, -1 if links is None else len(links))]
        parts += [array.tobytes() for array in arrays]
        self._bytes.append(b"".join(parts if links is None else [*parts, links.tobytes()]))
        self._ends.append(self._bytes.size)

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, key: int) -> Encoded:
        key = range(len(self))[key]
        raw = self._bytes.read(*bounds(self._ends, key, key))
        *shapes, count = self._header.unpack_from(raw)
        arrays, at, offset = [], 0, self._header.size
        for dtype, ndim in zip(self._types, self._dimensions, strict=True):
            array: NDArray[Any] = np.ndarray(tuple(shapes[at : at + ndim]), dtype, raw, offset)
            arrays.append(array)
            at, offset = at + ndim, offset + array.nbytes
        links: NDArray[np.int32] | None = None if count < 0 else np.ndarray((count, 2), np.int32, raw, offset)
        target = arrays.pop() if len(arrays) > len(self._names) else None
        return Encoded(dict(zip(self._names, arrays, strict=True)), target, links)

    def __iter__(self) -> Iterator[Encoded]:
        return (self[key] for key in range(len(self)))


def bounds(ends: GrowingArray[np.int64], first: int, last: int) -> list[int]:
    """Where rows begin, from the first to the last, and where the last one ends.

    >>> ends = GrowingArray(np.int64, disk=False)
    >>> ends.extend(np.array([4, 9, 12]))
    >>> bounds(ends, 0, 1), bounds(ends, 2, 2)
    ([0, 4, 9], [9, 12])
    """
    found: list[int] = ends[max(0, first - 1) : last + 1].tolist()
    return found if first else [0, *found]
