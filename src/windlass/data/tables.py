"""Rows of a file, whatever its format: a source cell, a target cell, and perhaps an alignment cell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from windlass.core.errors import DataError
from windlass.data.column_groups import check_apart
from windlass.data.delimited import labelled, separated
from windlass.data.files import STDIN, lines, suffix
from windlass.data.findings import Findings
from windlass.data.keyed import json_lines, parquet
from windlass.data.objects import first_object
from windlass.data.sheets import Column, Sheet, joining

if TYPE_CHECKING:
    from windlass.data.readers import DataOptions, DataPath

_BY_SUFFIX = {
    ".tsv": "tsv", ".tab": "tsv", ".txt": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl",
    ".json": "jsonl", ".parquet": "parquet", ".pq": "parquet",
}  # fmt: skip
ENDINGS = tuple(ending for ending in _BY_SUFFIX if ending != ".txt")
"""Of the names of tables."""


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


def several(path: DataPath) -> list[str]:
    """The files that a path names: one, or some that are line-parallel.

    >>> several("train.en,train.de")
    ['train.en', 'train.de']
    """
    if not isinstance(path, str | Path):
        return [str(p) for p in path]
    text = str(path)
    return text.split(",") if "," in text and not Path(text).exists() else [text]


def has_header(name: str, options: DataOptions) -> bool:
    """Whether the columns of a file may be named by its first line, and not by keys or a schema.

    >>> from windlass.data.readers import DataOptions
    >>> has_header("a.csv", DataOptions()), has_header("a.jsonl", DataOptions())
    (True, False)
    """
    return (options.format if options.format != "auto" else _told(name, options)) in ("", "tsv", "csv")


def sheet(name: str, options: DataOptions, found: Findings) -> Sheet:
    """Open a table in the format that is asked for or that its name tells.

    >>> from windlass.data.readers import DataOptions
    >>> sheet("no-such-file.tsv", DataOptions(), Findings())
    Traceback (most recent call last):
    windlass.core.errors.DataError: no-such-file.tsv: no such file; ...
    """
    format: str = options.format
    notes: list[str] = []
    if format == "auto":
        format = _told(name, options)
        if format == "jsonl" and suffix(name) not in ENDINGS and name != STDIN:
            notes.append(f"{name}: read as JSON lines, as the first is an object")
        elif not format:
            format = "tsv"
            notes.append(f"{name}: read as tsv, as its name does not tell the format")
    if format in ("jsonl", "parquet", "labelled"):
        for given in ("header", "separator"):
            if getattr(options, given) != "auto":
                raise DataError(f"{name}: a {format} file has no {given}; leave the option {given} out")
        readers = {"jsonl": json_lines, "parquet": parquet, "labelled": labelled}
        return replace(joining(readers[format](name, options, found, notes)), found=found)
    return separated(name, format, options, found, notes)


def _told(name: str, options: DataOptions) -> str:
    """The format of a table, by its name or else, as of stdin and of a .txt, by its first line; "" if neither tells."""
    ending = suffix(name)
    if ending in ENDINGS:
        return _BY_SUFFIX[ending]
    _, first = next(lines(name, Findings(), options.encoding), (0, ""))
    return "jsonl" if begins_json(first) else "tsv" if name == STDIN else _BY_SUFFIX.get(ending, "")


def begins_json(line: str) -> bool:
    """Whether the first line of a text is a JSON object, or begins an array of them.

    >>> begins_json('{"word": "cat"}'), begins_json("{word} cat")
    (True, False)
    """
    return first_object(line) is not None or line.strip() == "["


def table(path: DataPath, options: DataOptions, found: Findings, texts: int = 1) -> Table:
    """Open what `path` names, and choose the columns; by default, in their order. A source has one text or two.

    >>> from windlass.data.readers import DataOptions
    >>> table("a.en,a.de", DataOptions(), Findings()).format
    'parallel'
    """
    paths = several(path)
    if len(paths) > 1 or options.format == "parallel":
        return _parallel(paths, options, found, texts)
    name = paths[0]
    chosen: dict[str, Column] = {"source": options.source or 1, "target": options.target or 1 + texts}
    if texts > 1:
        chosen["second"] = options.second or 2
    if options.alignment is not None:
        chosen["alignment"] = options.alignment
    opened = sheet(name, options, found)
    if options.source is not None and options.target is not None:
        check_apart(name, chosen, opened.names)
    rows = (Row(line, **cells) for line, cells in opened.read(chosen))
    return Table(opened.format, (name, name, name), rows, opened.notes)


def _parallel(paths: list[str], options: DataOptions, found: Findings, texts: int) -> Table:
    if options.format not in ("auto", "parallel") or len(paths) not in (2, 3):
        raise DataError(
            f"{','.join(paths)}: parallel text is two files, as in 'train.en,train.de' (a third may hold "
            f"alignments), not {len(paths)} in format {options.format}"
        )
    if texts > 1:
        raise DataError(f"{','.join(paths)}: pairs and their answers are read from columns of one file, such as a tsv")
    default = options.__class__()
    for name in ("source", "target", "alignment", "header", "separator"):
        if getattr(options, name) != getattr(default, name):
            raise DataError(f"{','.join(paths)}: line-parallel files have no columns; leave out {name}")
    files = (paths[0], paths[1], paths[-1])
    return Table("parallel", files, _zipped(paths, found, options.encoding))


def _zipped(paths: list[str], found: Findings, encoding: str | None) -> Iterator[Row]:
    counts = [0] * len(paths)
    for cells in zip_longest(*(lines(path, found, encoding) for path in paths)):
        counts = [n + (cell is not None) for n, cell in zip(counts, cells, strict=True)]
        if len(set(counts)) == 1:
            yield Row(counts[0], *(cell[1] for cell in cells))
    if len(set(counts)) > 1:
        told = ", ".join(f"{path} has {n}" for path, n in zip(paths, counts, strict=True))
        raise DataError(f"unequal line counts: {told}; line-parallel files must match line by line")
