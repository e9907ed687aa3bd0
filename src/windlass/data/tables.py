"""Rows of a file, whatever its format: a source cell, a target cell, and perhaps an alignment cell."""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from windlass.core.errors import DataError, WindlassError, nearest
from windlass.data.files import existing, lines, undecoded
from windlass.data.findings import Finding, Findings

if TYPE_CHECKING:
    from windlass.data.readers import DataOptions, DataPath

MISSING: Final = object()
"""The cell of a column that a row does not have."""

WELL_KNOWN = frozenset(
    {"source", "target", "src", "tgt", "trg", "input", "output", "word", "text", "pronunciation", "phonemes"}
    | {"premise", "hypothesis", "label", "judgment", "gold_label", "sentence1", "sentence2"}
    | {"transcription", "transliteration", "translation", "spelling", "question", "answer"}
)
"""Names that a first line is taken for a header by."""

_BY_SUFFIX = {
    ".tsv": "tsv", ".tab": "tsv", ".txt": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl",
    ".json": "jsonl", ".parquet": "parquet", ".pq": "parquet",
}  # fmt: skip


class Row(NamedTuple):
    """The cells of a row; text, or whatever JSON or parquet held.

    >>> Row(1, "cat", "k a t").alignment is None
    True
    """

    line: int
    source: object
    target: object
    alignment: object = None
    second: object = None


@dataclass
class Table:
    """Rows still to be read, the files that the three sides are in, and what was assumed.

    >>> Table("tsv", ("a.tsv",) * 3, iter([])).notes
    []
    """

    format: str
    files: tuple[str, str, str]
    rows: Iterator[Row]
    notes: list[str] = field(default_factory=list)


def _several(path: DataPath) -> list[str]:
    if not isinstance(path, str | Path):
        return [str(p) for p in path]
    text = str(path)
    return text.split(",") if "," in text and not Path(text).is_file() else [text]


def table(path: DataPath, options: DataOptions, found: Findings) -> Table:
    """Open what `path` names, in the format that is asked for or that its name tells.

    >>> from windlass.data.readers import DataOptions
    >>> table("a.en,a.de", DataOptions(), Findings()).format
    'parallel'
    """
    paths = _several(path)
    if len(paths) > 1 or options.format == "parallel":
        return _parallel(paths, options, found)
    name = paths[0]
    notes: list[str] = []
    format: str = options.format
    if format == "auto":
        suffixes = [s.lower() for s in Path(name).suffixes if s.lower() != ".gz"]
        format = _BY_SUFFIX.get(suffixes[-1] if suffixes else "", "")
        if not format:
            format = "tsv"
            notes.append(f"{name}: read as tsv, as its name does not tell the format")
    readers: dict[str, Callable[[str, DataOptions, Findings, list[str]], Iterator[Row]]] = {
        "tsv": _tsv, "csv": _csv, "jsonl": _jsonl, "parquet": _parquet, "labelled": _labelled,
    }  # fmt: skip
    if format in ("jsonl", "parquet", "labelled") and options.header != "auto":
        raise DataError(f"{name}: a {format} file has no header line; leave the option header out")
    return Table(format, (name, name, name), readers[format](name, options, found, notes), notes)


# ---------------------------------------------------------------- parallel text


def _parallel(paths: list[str], options: DataOptions, found: Findings) -> Table:
    if options.format not in ("auto", "parallel") or len(paths) not in (2, 3):
        raise DataError(
            f"{','.join(paths)}: parallel text is two files, as in 'train.en,train.de' (a third may hold "
            f"alignments), not {len(paths)} in format {options.format}"
        )
    if options.second is not None:
        raise DataError(f"{','.join(paths)}: pairs and their answers are read from columns of one file, such as a tsv")
    default = options.__class__()
    for name in ("source", "target", "alignment", "header"):
        if getattr(options, name) != getattr(default, name):
            raise DataError(f"{','.join(paths)}: line-parallel files have no columns; leave out {name}")
    files = (paths[0], paths[1], paths[-1])
    return Table("parallel", files, _zipped(paths, found))


def _zipped(paths: list[str], found: Findings) -> Iterator[Row]:
    counts = [0] * len(paths)
    for cells in zip_longest(*(lines(path, found) for path in paths)):
        counts = [n + (cell is not None) for n, cell in zip(counts, cells, strict=True)]
        if len(set(counts)) == 1:
            yield Row(counts[0], *(cell[1] for cell in cells))
    if len(set(counts)) > 1:
        told = ", ".join(f"{path} has {n}" for path, n in zip(paths, counts, strict=True))
        raise DataError(f"unequal line counts: {told}; line-parallel files must match line by line")


# ---------------------------------------------------------------- tsv and csv


def _tsv(name: str, options: DataOptions, found: Findings, notes: list[str]) -> Iterator[Row]:
    cells = ((number, line.split("\t")) for number, line in lines(name, found))
    return _columns(name, cells, options, found, notes)


def _labelled(name: str, options: DataOptions, found: Findings, notes: list[str]) -> Iterator[Row]:
    if (options.source, options.target, options.alignment, options.second) != (1, 2, None, None):
        raise DataError(f"{name}: a labelled file has a label and a text, no columns to choose; leave them out")
    for number, line in lines(name, found):
        label, _, text = line.strip().partition(" ")
        if bad := undecoded(line):
            found.add(Finding(name, number, "invalid UTF-8", bad, "skipped"))
        elif not label:
            found.add(Finding(name, number, "blank", "the line is blank", "skipped"))
        else:
            yield Row(number, text, label)


def _csv(name: str, options: DataOptions, found: Findings, notes: list[str]) -> Iterator[Row]:
    return _columns(name, _csv_records(name, found, notes), options, found, notes)


def _csv_records(name: str, found: Findings, notes: list[str]) -> Iterator[tuple[int, list[str]]]:
    texts = (line + "\n" for _, line in lines(name, found))
    first = next(texts, "")
    delimiter = ";" if ";" in first and "," not in first else ","
    if delimiter == ";":
        notes.append(f"{name}: columns are separated by semicolons, as in the first line")
    reader = csv.reader(itertools.chain([first] if first else [], texts), delimiter=delimiter, strict=True)
    while True:
        begin = reader.line_num + 1
        try:
            yield begin, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if "unexpected end" in str(error) or "field limit" in str(error):
                what = "a quote opened here is never closed; close it, or double it if it is text"
                raise DataError(f"{name}:{begin}: {what}") from error
            found.add(Finding(name, begin, "malformed quotes", f"malformed quotes ({error})", "skipped"))


def _columns(
    name: str,
    records: Iterator[tuple[int, list[str]]],
    options: DataOptions,
    found: Findings,
    notes: list[str],
) -> Iterator[Row]:
    chosen = _chosen(options)
    by_name = any(isinstance(column, str) for column in chosen.values())
    if by_name and options.header is False:
        raise DataError(f"{name}: a column is chosen by name but header is false; choose by number")
    places: dict[str, int] | None = None
    for line, cells in records:
        if places is None:
            names = [" ".join(cell.split()) for cell in cells]
            if by_name or options.header is True or (options.header == "auto" and _looks_named(names, options)):
                places = {part: _place(name, column, names) for part, column in chosen.items()}
                if options.header == "auto":
                    notes.append(f"{name}: the first line is read as a header: {', '.join(names)}")
                continue
            places = {part: _place(name, column, names) for part, column in chosen.items()}
        if bad := undecoded("\t".join(cells)):
            found.add(Finding(name, line, "invalid UTF-8", bad, "skipped"))
        elif not any(cell.strip() for cell in cells):
            found.add(Finding(name, line, "blank", "the line is blank", "skipped"))
        else:
            yield Row(line, **{part: cells[p] if p < len(cells) else MISSING for part, p in places.items()})


def _chosen(options: DataOptions) -> dict[str, int | str]:
    """The columns of the parts of a row that are wanted."""
    given = {
        "source": options.source, "target": options.target, "alignment": options.alignment, "second": options.second
    }  # fmt: skip
    return {part: column for part, column in given.items() if column is not None}


def _looks_named(names: list[str], options: DataOptions) -> bool:
    chosen = (options.source, options.target)
    cells = [names[c - 1].lower() for c in chosen if isinstance(c, int) and c <= len(names)]
    return len(set(cells)) == 2 and set(cells) <= WELL_KNOWN


def _place(name: str, column: int | str, names: list[str]) -> int:
    if isinstance(column, int):
        return column - 1
    if column not in names:
        raise DataError(f"{name}:1: no column is called {column!r}; {nearest(column, names)}")
    return names.index(column)


# ---------------------------------------------------------------- jsonl and parquet


def _jsonl(name: str, options: DataOptions, found: Findings, notes: list[str]) -> Iterator[Row]:
    keys: dict[str, str] | None = None
    for line, text in lines(name, found):
        if bad := undecoded(text):
            found.add(Finding(name, line, "invalid UTF-8", bad, "skipped"))
            continue
        if not text.strip():
            found.add(Finding(name, line, "blank", "the line is blank", "skipped"))
            continue
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            what = f"not JSON ({error}); every line must be one whole object"
            found.add(Finding(name, line, "wrong JSON", what, "skipped"))
            continue
        if not isinstance(value, dict):
            what = f"not a JSON object but {type(value).__name__}; write one object a line"
            found.add(Finding(name, line, "wrong JSON", what, "skipped"))
            continue
        if keys is None:
            keys = _named_keys(name, list(value), options, notes)
        yield Row(line, **{part: value.get(key, MISSING) for part, key in keys.items()})


def _named_keys(name: str, names: list[str], options: DataOptions, notes: list[str]) -> dict[str, str]:
    """The keys of the parts that are wanted; a number is a place in the first object, or in the schema."""
    keys: dict[str, str] = {}
    for part, column in _chosen(options).items():
        if isinstance(column, int):
            if column > len(names):
                raise DataError(f"{name}: no column {column}; there are {len(names)}: {', '.join(names)}")
            keys[part] = names[column - 1]
        else:
            keys[part] = column
    if isinstance(options.source, int) or isinstance(options.target, int):
        beside = f", the second text {keys['second']!r}" if "second" in keys else ""
        notes.append(
            f"{name}: the source is {keys['source']!r}{beside} and the target {keys['target']!r}, by their order"
        )
    return keys


def _parquet(name: str, options: DataOptions, found: Findings, notes: list[str]) -> Iterator[Row]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise WindlassError(f"{name}: parquet needs pyarrow; pip install 'windlass[parquet]'") from error
    existing(name)
    try:
        with pyarrow.parquet.ParquetFile(name) as file:
            names = list(file.schema_arrow.names)
            keys = _named_keys(name, names, options, notes)
            for key in keys.values():
                if key not in names:
                    raise DataError(f"{name}: no column is called {key!r}; {nearest(key, names)}")
            wanted = list(dict.fromkeys(keys.values()))
            number = 0
            for batch in file.iter_batches(columns=wanted):
                for value in batch.to_pylist():
                    number += 1
                    yield Row(number, **{part: value.get(key, MISSING) for part, key in keys.items()})
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{name}: not a parquet file, or a damaged one ({reason}); copy it again") from error
