"""Examples and their ids in a few flat arrays: in memory, or in a file where a corpus is larger than that.

A Python list costs tens of bytes a token and hundreds an example. `Tokens` holds ids as 32-bit numbers one after the
other, `Texts` holds examples as bytes. On disk nothing of an example stays in memory: where it begins and how long it
is are columns in files too.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple, cast, overload

import numpy as np
from numpy.typing import NDArray

from windlass.core.errors import DataError
from windlass.data.codecs import Ids, Inputs
from windlass.data.column import BLOCK, Bytes, Column
from windlass.data.examples import Alignment, Example, Place

NONE = -1  # in the place of a length: there is nothing


class Encoded(NamedTuple):
    """An example as ids, without marks. A target of None means that there is none (prediction).

    `source` is the main input, by whose length batches are made: places, or places of places. `more` are other inputs.

    >>> Encoded([5, 6], [7]).alignment is None
    True
    """

    source: Ids
    target: list[int] | None
    alignment: Alignment | None = None
    more: Inputs | None = None


def nested(ids: Ids) -> bool:
    """Whether ids are places of places.

    >>> nested([[4], [5, 6]]), nested([4, 5])
    (True, False)
    """
    return bool(ids) and isinstance(ids[0], list)


def places(ids: Ids) -> int:
    """How many places a row has; of places of places, such as the words of sentences, all of these.

    >>> places([4, 5, 6]), places([[4], [5, 6]])
    (3, 3)
    """
    return sum(len(cast("list[int]", part)) for part in ids) if nested(ids) else len(ids)


def longest(row: Encoded) -> int:
    """How many places a row needs for the longest of its inputs; letters of words are no places of their own.

    >>> longest(Encoded([4, 5], None, None, {"hypothesis": [4, 5, 6], "characters": [[1, 2, 3, 4]]}))
    3
    """
    return max([places(row.source), *(len(ids) for ids in (row.more or {}).values() if not nested(ids))])


class Tokens(Sequence[Encoded]):
    """Encoded examples, compact. `sources` and `targets` are how many places each needs (-1: no target).

    >>> tokens = Tokens([Encoded([5, 6], [7], ((1, 0),)), Encoded([[4], [5, 6]], None)])
    >>> tokens[0]
    Encoded(source=[5, 6], target=[7], alignment=((1, 0),), more=None)
    >>> tokens.sources[:].tolist(), tokens.targets[:].tolist()
    ([2, 3], [1, -1])
    """

    def __init__(self, rows: Iterable[Encoded], disk: bool = False):
        self.disk = disk
        self.names: tuple[str, ...] = ()  # of the other inputs
        self._bytes, self._ends = Bytes(disk), Column(np.int64, disk)
        self.sources, self.targets = Column(np.int32, disk), Column(np.int32, disk)
        for key, row in enumerate(rows):
            _check(key, row)
            if key == 0:
                self.names = tuple(row.more or {})
            self._bytes.append(self._packed(row).tobytes())
            self._ends.append(self._bytes.size)
            self.sources.append(longest(row))
            self.targets.append(NONE if row.target is None else len(row.target))

    def _packed(self, row: Encoded) -> array[int]:
        """A row as numbers: every part with its length before it."""
        out = array("i")
        _put(out, row.source)
        if row.target is None:
            out.append(NONE)
        else:
            _put(out, row.target)
        links = row.alignment
        out.append(NONE if links is None else len(links))
        for link in links or ():
            out.extend(link)
        for name in self.names:
            _put(out, (row.more or {})[name])
        return out

    def __len__(self) -> int:
        return len(self.sources)

    @overload
    def __getitem__(self, key: int) -> Encoded: ...
    @overload
    def __getitem__(self, key: slice) -> list[Encoded]: ...
    def __getitem__(self, key: int | slice) -> Encoded | list[Encoded]:
        if isinstance(key, slice):
            return [self[n] for n in range(*key.indices(len(self)))]
        key = range(len(self))[key]
        raw = self._bytes.read(*_bounds(self._ends, key, key))
        numbers: list[int] = np.frombuffer(raw, dtype=np.int32).tolist()
        source, at = _take(numbers, 0)
        target: Ids | None = None
        if numbers[at] == NONE:
            at += 1
        else:
            target, at = _take(numbers, at)
        count, at = numbers[at], at + 1
        alignment: Alignment | None = None
        if count != NONE:
            flat = numbers[at : at + 2 * count]
            alignment, at = tuple(zip(flat[::2], flat[1::2], strict=True)), at + 2 * count
        more: Inputs = {}
        for name in self.names:
            more[name], at = _take(numbers, at)
        return Encoded(source, cast("list[int] | None", target), alignment, more or None)


def _bounds(ends: Column[np.int64], first: int, last: int) -> list[int]:
    """Where rows begin, from the first to the last, and the end of that."""
    found: list[int] = ends[max(0, first - 1) : last + 1].tolist()
    return found if first else [0, *found]


def _put(out: array[int], ids: Ids) -> None:
    """Flat ids: twice their number, then they. Nested: twice the number of parts plus 1, then each with its own."""
    if not nested(ids):
        out.append(2 * len(ids))
        out.extend(cast("list[int]", ids))
        return
    out.append(2 * len(ids) + 1)
    for part in cast("list[list[int]]", ids):
        out.append(len(part))
        out.extend(part)


def _take(numbers: list[int], at: int) -> tuple[Ids, int]:
    """What `_put` wrote there, and where the next begins."""
    count, split = divmod(numbers[at], 2)
    at += 1
    if not split:
        return numbers[at : at + count], at + count
    parts = []
    for _ in range(count):
        size = numbers[at]
        parts.append(numbers[at + 1 : at + 1 + size])
        at += 1 + size
    return parts, at


def _check(key: int, row: Encoded) -> None:
    for i, j in row.alignment or ():
        if not (0 <= i < len(row.source) and 0 <= j < len(row.target or ())):
            raise DataError(
                f"example {key}: alignment point {i}-{j} lies outside {len(row.source)} source and "
                f"{len(row.target or ())} target tokens; alignments must count the tokens the model sees"
            )


class Texts(Sequence[Example]):
    """Examples of files in one file on disk; `take` adds some and returns a view of them.

    >>> texts = Texts()
    >>> view = texts.take(Example(s, ("x",), None, Place("pairs.tsv", n)) for n, s in enumerate("abc", 1))
    >>> view[1].source, str(view[-1].place), len(texts)
    ('b', 'pairs.tsv:3', 3)
    """

    def __init__(self) -> None:
        self._bytes, self._ends = Bytes(disk=True), Column(np.int64, disk=True)
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

    @overload
    def __getitem__(self, key: int) -> Example: ...
    @overload
    def __getitem__(self, key: slice) -> list[Example]: ...
    def __getitem__(self, key: int | slice) -> Example | list[Example]:
        if isinstance(key, slice):
            return [self[n] for n in range(*key.indices(len(self)))]
        row = range(len(self))[key]
        return next(self.at(range(row, row + 1)))

    def at(self, rows: Rows) -> Iterator[Example]:
        """The examples of some rows; of rows that are near each other, with one read for many."""
        names = list(self._files)
        for start in range(0, len(rows), 256):
            block = list(map(int, rows[start : start + 256]))
            low, high = min(block), max(block)
            near = high - low < 1024
            bounds = _bounds(self._ends, low, high) if near else []
            whole = bytes(self._bytes.read(bounds[0], bounds[-1])) if near else b""
            for row in block:
                if near:
                    begin, end = (bounds[n] - bounds[0] for n in (row - low, row - low + 1))
                    raw = whole[begin:end]
                else:
                    raw = bytes(self._bytes.read(*_bounds(self._ends, row, row)))
                source, targets, links, file, line = json.loads(raw.decode("utf-8", "surrogatepass"))
                yield Example(
                    source if isinstance(source, str) else tuple(source),
                    tuple(targets),
                    None if links is None else tuple((i, j) for i, j in links),
                    Place(names[file], line),
                )


Rows = range | NDArray[np.int32] | Column[np.int32]
"""Rows of `Texts`, in any order."""


class View(Sequence[Example]):
    """Some rows of `Texts`, as examples, in any order; with `answers`, each with one of its targets only.

    >>> texts = Texts()
    >>> view = texts.take([Example("a", ("x", "y"), ((0, 0),), Place("pairs.tsv", 1))])
    >>> [(e.target, e.alignment) for e in view.expanded()]
    [('x', ((0, 0),)), ('y', None)]
    """

    def __init__(self, texts: Texts, rows: Rows, answers: NDArray[np.int32] | None = None):
        self.texts, self.rows, self.answers = texts, rows, answers

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, key: int) -> Example: ...
    @overload
    def __getitem__(self, key: slice) -> View: ...
    def __getitem__(self, key: int | slice) -> Example | View:
        if isinstance(key, slice):
            rows = self.rows if key.step in (None, 1) else _array(self.rows)  # a column has no steps
            return View(self.texts, rows[key], None if self.answers is None else self.answers[key])
        key = range(len(self))[key]
        return self._answering(next(self.texts.at(self.rows[key : key + 1])), key)

    def __iter__(self) -> Iterator[Example]:
        for key, example in enumerate(self.texts.at(self.rows)):
            yield self._answering(example, key)

    def _answering(self, example: Example, key: int) -> Example:
        if self.answers is None:
            return example
        answer = int(self.answers[key])
        alignment = example.alignment if answer == 0 else None
        return Example(example.source, (example.targets[answer],), alignment, example.place)

    def expanded(self) -> View:
        """One example of every right answer, as `expand` makes them."""
        if self.answers is not None or self.texts.answers == 1:
            return self
        counts = np.fromiter((len(e.targets) for e in self), dtype=np.int32, count=len(self))
        answers = np.arange(counts.sum(), dtype=np.int32) - np.repeat(np.cumsum(counts) - counts, counts)
        return View(self.texts, np.repeat(_array(self.rows), counts), answers.astype(np.int32))

    def parted(self, out: Iterable[bool]) -> tuple[View, View]:
        """The rows that stay, and those that are out; neither is held in memory. For views without `answers`."""
        assert self.answers is None
        told, stay, gone = iter(out), Column(np.int32, disk=True), Column(np.int32, disk=True)
        for start in range(0, len(self), BLOCK):
            rows = _array(self.rows[start : start + BLOCK])
            chosen = np.fromiter(islice(told, len(rows)), dtype=np.bool_, count=len(rows))
            stay.extend(rows[~chosen])
            gone.extend(rows[chosen])
        assert next(told, None) is None  # one for every row
        return View(self.texts, stay), View(self.texts, gone)


def _array(rows: Rows) -> NDArray[np.int32]:
    if isinstance(rows, range):
        return np.arange(rows.start, rows.stop, rows.step, dtype=np.int32)
    return rows[:] if isinstance(rows, Column) else rows


Keep = Callable[[Iterator[Example]], Sequence[Example]]
"""What becomes of examples as they are read: `tuple`, or `Texts.take`."""


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
    return Texts().take if store == "disk" else tuple


def _parts(path: object) -> list[Path]:
    if isinstance(path, str | Path):
        return [Path(path)] if Path(path).is_file() else [Path(part) for part in str(path).split(",")]
    return [Path(str(part)) for part in cast("Sequence[object]", path)]


def some(examples: Sequence[Example], most: int) -> Sequence[Example]:
    """All examples, or, of more than so many, that many spread evenly.

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
    texts, rows = views[0].texts, [view.rows for view in views]
    first, last = rows[0], rows[-1]
    if isinstance(first, range) and isinstance(last, range) and last.stop - first.start == sum(map(len, rows)):
        return View(texts, range(first.start, last.stop))  # read one after the other, as nearly always
    return View(texts, np.concatenate([_array(some) for some in rows]))
