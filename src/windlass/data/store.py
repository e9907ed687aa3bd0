"""Examples and their ids in a few flat arrays: in memory, or in a file where a corpus is larger than that.

A Python list costs tens of bytes a token and hundreds an example. `Tokens` holds ids as 32-bit numbers one after the
other, `Texts` holds examples as bytes; what stays in memory for an example is where it begins and how long it is. On
disk they are read piece by piece and not mapped: a map counts every page that it has touched as memory of the process.
The files have no name, so that nothing is left behind however a run ends.
"""

from __future__ import annotations

import json
import os
import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Literal, NamedTuple, cast, overload

import numpy as np
from numpy.typing import NDArray

from windlass.core.errors import DataError
from windlass.data.codecs import Ids, Inputs
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


def cache_folder() -> Path:
    """Where large files go while a run lasts: `WINDLASS_CACHE`, or the user's folder for such things.

    >>> cache_folder().is_dir()
    True
    """
    home = os.environ.get("WINDLASS_CACHE") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(home) / "windlass"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder}: cannot be made ({error.strerror}): set WINDLASS_CACHE to a folder") from None
    return folder


class _Bytes:
    """Bytes one after the other: in memory, or in a file without a name."""

    def __init__(self, disk: bool):
        # Closed, and with it gone, when nobody holds it any more.
        self.file: IO[bytes] | None = tempfile.TemporaryFile(dir=cache_folder()) if disk else None  # noqa: SIM115
        self.held = bytearray()
        self.size = 0
        self.writing = True

    def append(self, content: bytes) -> None:
        self.size += len(content)
        if self.file is None:
            self.held += content
            return
        try:
            if not self.writing:
                self.file.seek(0, os.SEEK_END)
                self.writing = True
            self.file.write(content)
        except OSError as error:
            raise DataError(
                f"{cache_folder()}: cannot hold the data ({error.strerror}): make room, or set WINDLASS_CACHE"
            ) from None

    def read(self, begin: int, end: int) -> bytes | memoryview:
        if self.file is None:
            return memoryview(self.held)[begin:end]
        if self.writing:
            self.file.flush()
            self.writing = False
        if hasattr(os, "pread"):
            return os.pread(self.file.fileno(), end - begin, begin)
        self.file.seek(begin)
        return self.file.read(end - begin)


class Tokens(Sequence[Encoded]):
    """Encoded examples, compact. `sources` and `targets` are how many places each needs (-1: no target).

    >>> tokens = Tokens([Encoded([5, 6], [7], ((1, 0),)), Encoded([[4], [5, 6]], None)])
    >>> tokens[0]
    Encoded(source=[5, 6], target=[7], alignment=((1, 0),), more=None)
    >>> tokens.sources.tolist(), tokens.targets.tolist()
    ([2, 3], [1, -1])
    """

    def __init__(self, rows: Iterable[Encoded], disk: bool = False):
        self.disk = disk
        self.names: tuple[str, ...] = ()  # of the other inputs
        self._bytes = _Bytes(disk)
        begins, sources, targets = array("q", [0]), array("i"), array("i")
        for key, row in enumerate(rows):
            _check(key, row)
            if key == 0:
                self.names = tuple(row.more or {})
            self._bytes.append(self._packed(row).tobytes())
            begins.append(self._bytes.size)
            sources.append(longest(row))
            targets.append(NONE if row.target is None else len(row.target))
        self.begins: NDArray[np.int64] = np.asarray(begins, dtype=np.int64)
        self.sources: NDArray[np.int32] = np.asarray(sources, dtype=np.int32)
        self.targets: NDArray[np.int32] = np.asarray(targets, dtype=np.int32)

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
        raw = self._bytes.read(int(self.begins[key]), int(self.begins[key + 1]))
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
        self._bytes = _Bytes(disk=True)
        self._begins = array("q", [0])
        self._files: dict[str, int] = {}

    def take(self, examples: Iterable[Example]) -> View:
        """Write examples, one at a time."""
        first = len(self)
        for e in examples:
            file = self._files.setdefault(e.place.file, len(self._files))
            row = [e.source, e.targets, e.alignment, file, e.place.line]
            self._bytes.append(json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogatepass"))
            self._begins.append(self._bytes.size)
        return View(self, np.arange(first, len(self), dtype=np.int32))

    def __len__(self) -> int:
        return len(self._begins) - 1

    @overload
    def __getitem__(self, key: int) -> Example: ...
    @overload
    def __getitem__(self, key: slice) -> list[Example]: ...
    def __getitem__(self, key: int | slice) -> Example | list[Example]:
        if isinstance(key, slice):
            return [self[n] for n in range(*key.indices(len(self)))]
        return next(self.at(np.array([range(len(self))[key]], dtype=np.int32)))

    def at(self, rows: NDArray[np.int32]) -> Iterator[Example]:
        """The examples of some rows; of rows that are near each other, with one read for many."""
        names, begins = list(self._files), self._begins
        for start in range(0, len(rows), 256):
            block = rows[start : start + 256].tolist()
            near = max(block) - min(block) < 1024
            base = begins[min(block)]
            whole = bytes(self._bytes.read(base, begins[max(block) + 1])) if near else b""
            for row in block:
                begin, end = begins[row], begins[row + 1]
                raw = whole[begin - base : end - base] if near else bytes(self._bytes.read(begin, end))
                source, targets, links, file, line = json.loads(raw.decode("utf-8", "surrogatepass"))
                yield Example(
                    source if isinstance(source, str) else tuple(source),
                    tuple(targets),
                    None if links is None else tuple((i, j) for i, j in links),
                    Place(names[file], line),
                )


class View(Sequence[Example]):
    """Some rows of `Texts`, as examples, in any order; with `answers`, each with one of its targets only.

    >>> texts = Texts()
    >>> view = texts.take([Example("a", ("x", "y"), ((0, 0),), Place("pairs.tsv", 1))])
    >>> [(e.target, e.alignment) for e in view.expanded()]
    [('x', ((0, 0),)), ('y', None)]
    """

    def __init__(self, texts: Texts, rows: NDArray[np.int32], answers: NDArray[np.int32] | None = None):
        self.texts, self.rows, self.answers = texts, rows, answers

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, key: int) -> Example: ...
    @overload
    def __getitem__(self, key: slice) -> View: ...
    def __getitem__(self, key: int | slice) -> Example | View:
        if isinstance(key, slice):
            return View(self.texts, self.rows[key], None if self.answers is None else self.answers[key])
        return self._answering(self.texts[int(self.rows[key])], key)

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
        counts = np.fromiter((len(e.targets) for e in self), dtype=np.int32, count=len(self))
        if counts.max(initial=1) == 1:
            return self
        answers = np.arange(counts.sum(), dtype=np.int32) - np.repeat(np.cumsum(counts) - counts, counts)
        return View(self.texts, np.repeat(self.rows, counts), answers.astype(np.int32))

    def chosen(self, mask: NDArray[np.bool_]) -> View:
        """The rows where a mask is true."""
        return View(self.texts, self.rows[mask], None if self.answers is None else self.answers[mask])


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
    if views and len(views) == len(parts):
        return View(views[0].texts, np.concatenate([view.rows for view in views]))
    return tuple(e for part in parts for e in part)
