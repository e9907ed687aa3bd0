"""Examples in memory, or in a file on disk where a corpus is larger than that.

On disk nothing of an example stays in memory: where it begins is an array in a file too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal, cast, overload

import numpy as np
from numpy.typing import NDArray

from windlass.data.encoded import bounds
from windlass.data.examples import Example, Place, frozen
from windlass.data.growing import BLOCK, Bytes, GrowingArray


class ExampleStore:
    """Examples of files in one file on disk; `take` adds some and returns a view of them.

    >>> store = ExampleStore()
    >>> view = store.take(Example(s, ("x",), None, Place("pairs.tsv", n)) for n, s in enumerate("abc", 1))
    >>> view[1].source, str(view[-1].place), len(store)
    ('b', 'pairs.tsv:3', 3)
    """

    def __init__(self) -> None:
        self._bytes, self._ends = Bytes(disk=True), GrowingArray(np.int64, disk=True)
        self._files: dict[str, int] = {}
        self.answers = 1  # the most that one example has

    def take(self, examples: Iterable[Example]) -> View:
        """Write examples, one at a time."""
        first = len(self)
        for e in examples:
            file = self._files.setdefault(e.place.file, len(self._files))
            row = [e.source, e.targets, e.alignment, file, e.place.line]
            self._bytes.append(json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogatepass"))
            self._ends.append(self._bytes.size)
            self.answers = max(self.answers, len(e.targets))
        return View(self, range(first, len(self)))

    def __len__(self) -> int:
        return len(self._ends)

    def at(self, rows: RowNumbers) -> Iterator[Example]:
        """The examples of some rows; of rows that are near each other, with one read for many."""
        names = list(self._files)
        for start in range(0, len(rows), 256):
            block = list(map(int, rows[start : start + 256]))
            for part in [block] if max(block) - min(block) < 1024 else [[row] for row in block]:
                low = min(part)
                ends = bounds(self._ends, low, max(part))
                whole = bytes(self._bytes.read(ends[0], ends[-1]))
                for row in part:
                    raw = whole[ends[row - low] - ends[0] : ends[row - low + 1] - ends[0]]
                    source, targets, links, file, line = json.loads(raw.decode("utf-8", "surrogatepass"))
                    yield Example(frozen(source), frozen(targets), frozen(links), Place(names[file], line))


RowNumbers = range | NDArray[np.int32] | GrowingArray[np.int32]
"""Which examples of a store, in any order."""


class View(Sequence[Example]):
    """Some examples of a store, in any order; with `answers`, each with one of its targets only.

    >>> store = ExampleStore()
    >>> view = store.take([Example("a", ("x", "y"), ((0, 0),), Place("pairs.tsv", 1))])
    >>> [(e.target, e.alignment) for e in view.expanded()]
    [('x', ((0, 0),)), ('y', None)]
    """

    def __init__(self, store: ExampleStore, rows: RowNumbers, answers: NDArray[np.int32] | None = None):
        self.store, self.rows, self.answers = store, rows, answers

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, key: int) -> Example: ...
    @overload
    def __getitem__(self, key: slice) -> View: ...
    def __getitem__(self, key: int | slice) -> Example | View:
        if isinstance(key, slice):
            rows = self.rows if key.step in (None, 1) else _array(self.rows)  # a file has no steps
            return View(self.store, rows[key], None if self.answers is None else self.answers[key])
        key = range(len(self))[key]
        return self._answering(next(self.store.at(self.rows[key : key + 1])), key)

    def __iter__(self) -> Iterator[Example]:
        for key, example in enumerate(self.store.at(self.rows)):
            yield self._answering(example, key)

    def _answering(self, example: Example, key: int) -> Example:
        if self.answers is None:
            return example
        answer = int(self.answers[key])
        alignment = example.alignment if answer == 0 else None
        return Example(example.source, (example.targets[answer],), alignment, example.place)

    def expanded(self) -> View:
        """One example of every right answer, as `expand` makes them."""
        if self.answers is not None or self.store.answers == 1:
            return self
        counts = np.fromiter((len(e.targets) for e in self), dtype=np.int32, count=len(self))
        answers = np.arange(counts.sum(), dtype=np.int32) - np.repeat(np.cumsum(counts) - counts, counts)
        return View(self.store, np.repeat(_array(self.rows), counts), answers.astype(np.int32))

    def parted(self, out: Iterable[bool]) -> tuple[View, View]:
        """The rows that stay, and those that are out; neither is held in memory. For views without `answers`."""
        assert self.answers is None
        told, stay, gone = iter(out), GrowingArray(np.int32, disk=True), GrowingArray(np.int32, disk=True)
        for start in range(0, len(self), BLOCK):
            rows = _array(self.rows[start : start + BLOCK])
            chosen = np.fromiter(islice(told, len(rows)), dtype=np.bool_, count=len(rows))
            stay.extend(rows[~chosen])
            gone.extend(rows[chosen])
        assert next(told, None) is None  # one for every row
        return View(self.store, stay), View(self.store, gone)


def _array(rows: RowNumbers) -> NDArray[np.int32]:
    if isinstance(rows, range):
        return np.arange(rows.start, rows.stop, rows.step, dtype=np.int32)
    return rows[:] if isinstance(rows, GrowingArray) else rows


Keep = Callable[[Iterator[Example]], Sequence[Example]]
"""What becomes of examples as they are read: `tuple`, or `ExampleStore.take`."""


PACKED = {".gz", ".parquet", ".pq"}  # whose text is several times as long
LARGE = 32 * 2**20
"""Bytes of files beyond which `auto` keeps a corpus on disk: in memory, a byte of text takes some ten."""


def keeping(paths: Sequence[object], store: Literal["auto", "memory", "disk"] = "auto") -> Keep:
    """How to hold the examples of files: in memory, or on disk where they are large or it is asked for.

    >>> keeping(["no-such-file.tsv"]) is tuple
    True
    """
    if store == "auto":
        parts = [part for path in paths for part in _parts(path)]
        sizes = [(8 if part.suffix in PACKED else 1) * part.stat().st_size for part in parts if part.is_file()]
        store = "disk" if sum(sizes) > LARGE else "memory"
    return ExampleStore().take if store == "disk" else tuple


def _parts(path: object) -> list[Path]:
    if isinstance(path, str | Path):
        return [Path(path)] if Path(path).is_file() else [Path(part) for part in str(path).split(",")]
    return [Path(str(part)) for part in cast("Sequence[object]", path)]


def some(examples: Sequence[Example], most: int) -> Sequence[Example]:
    """All examples or, beyond a limit, a sample of that size, evenly spread.

    >>> len(some([Example("a", ("x",), None, Place("pairs.tsv", 1))] * 10, 4))
    4
    """
    if len(examples) <= most:
        return examples
    return [examples[n * len(examples) // most] for n in range(most)]


def joined_views(parts: Sequence[Sequence[Example]]) -> Sequence[Example]:
    """Examples of several files as one sequence.

    >>> len(joined_views([(), ()]))
    0
    """
    views = [part for part in parts if isinstance(part, View)]
    if not views or len(views) < len(parts):
        return tuple(e for part in parts for e in part)
    store, rows = views[0].store, [view.rows for view in views]
    first, last = rows[0], rows[-1]
    if isinstance(first, range) and isinstance(last, range) and last.stop - first.start == sum(map(len, rows)):
        return View(store, range(first.start, last.stop))  # read one after the other, as nearly always
    return View(store, np.concatenate([_array(some) for some in rows]))
