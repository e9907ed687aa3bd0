"""Rows of a file, whatever its format: a source cell, a target cell, and perhaps an alignment cell."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from windlass.core.errors import DataError, WindlassError, nearest
from windlass.data.column_groups import columns_of, gathered, joined, spread
from windlass.data.files import STDIN, existing, lines, undecoded
from windlass.data.findings import Finding, Findings, blank_line
from windlass.data.objects import Objects, first_object, objects
from windlass.data.sniff import SAMPLE, SEPARATORS, find_separator, is_header, split_rows

if TYPE_CHECKING:
    from windlass.data.readers import DataOptions, DataPath

MISSING: Final = object()
"""The cell of a column that a row does not have."""

Column = int | str
"""By its number from 1, or by its name; several columns as one: `height,width` or `2-5`."""
Cells = tuple[int, dict[str, object]]
"""A line, and the cells of the columns that were asked for."""
Given = tuple[int, dict[str, object] | Finding]
"""The same, or what is wrong with the line."""
Numbered = Iterator[tuple[int, str]]
"""Lines with their numbers."""

_BY_SUFFIX = {
    ".tsv": "tsv", ".tab": "tsv", ".txt": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl",
    ".json": "jsonl", ".parquet": "parquet", ".pq": "parquet",
}  # fmt: skip
ENDINGS = tuple(ending for ending in _BY_SUFFIX if ending != ".txt")
"""Of the names of tables."""
_TABBED = (".tsv", ".tab")


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


@dataclass(frozen=True)
class Sheet:
    """A table before its columns are chosen: their names, if it has a header, and how to read some of them.

    >>> Sheet("tsv", "a.tsv", ["word", "ipa"], lambda columns: iter([])).names
    ['word', 'ipa']
    """

    format: str
    file: str
    names: Sequence[str] | None
    rows: Callable[[Mapping[str, Column]], Iterator[Given]]
    width: int = 0  # columns of a table without names
    notes: list[str] = field(default_factory=list)
    found: Findings = field(default_factory=Findings)

    def read(self, columns: Mapping[str, Column]) -> Iterator[Cells]:
        """Yield the rows that can be used; what is wrong with the others becomes a finding."""
        for line, cells in self.rows(columns):
            if isinstance(cells, Finding):
                self.found.add(cells)
            else:
                yield line, cells


def several(path: DataPath) -> list[str]:
    """The files that a path names: one, or some that are line-parallel.

    >>> several("train.en,train.de")
    ['train.en', 'train.de']
    """
    if not isinstance(path, str | Path):
        return [str(p) for p in path]
    text = str(path)
    return text.split(",") if "," in text and not Path(text).exists() else [text]


def suffix(name: str) -> str:
    """The ending of a file's name, without that of gzip.

    >>> suffix("pairs.TSV.gz")
    '.tsv'
    """
    found = [s.lower() for s in Path(name).suffixes if s.lower() != ".gz"]
    return found[-1] if found else ""


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
        readers = {"jsonl": _jsonl, "parquet": _parquet, "labelled": _labelled}
        return replace(_joining(readers[format](name, options, found, notes)), found=found)
    return _delimited(name, format, options, found, notes)


def _joining(opened: Sheet) -> Sheet:
    """A table from which several columns can be read as one."""

    def rows(columns: Mapping[str, Column]) -> Iterator[Given]:
        groups = {part: columns_of(column, opened.names) for part, column in columns.items()}
        if all(len(group) == 1 for group in groups.values()):
            yield from opened.rows(columns)
            return
        for line, cells in opened.rows(spread(groups)):
            yield line, cells if isinstance(cells, Finding) else gathered(cells, groups, _one)

    return replace(opened, rows=rows)


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


def _one(cells: Sequence[object]) -> object:
    """Several cells as one: missing if one of them is, blank if one of them is."""
    return MISSING if any(cell is MISSING for cell in cells) else joined(cells) or ""


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
    rows = (Row(line, **cells) for line, cells in opened.read(chosen))
    return Table(opened.format, (name, name, name), rows, opened.notes)


# ---------------------------------------------------------------- parallel text


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


# ---------------------------------------------------------------- tsv and csv


def _delimited(name: str, format: str, options: DataOptions, found: Findings, notes: list[str]) -> Sheet:
    numbered = lines(name, found, options.encoding)
    head = list(islice(numbered, SAMPLE))
    texts = [line for _, line in head]
    separator = _separator(name, format, texts, options, notes)
    rows = [row for row in split_rows(texts, separator) if any(cell.strip() for cell in row)]
    names = _header(name, rows, options, notes)
    opened = delimited(name, chain(head, numbered), separator, names, names is not None, found)
    return replace(opened, format=format, width=max(map(len, rows), default=0), notes=notes, found=found)


def delimited(
    name: str,
    numbered: Numbered,
    separator: str,
    names: Sequence[str] | None,
    headed: bool,
    found: Findings | None = None,
) -> Sheet:
    """The table of lines whose separator and names of columns are known; the first has these names if it is `headed`.

    In `found` is noted which rows have more cells than there are names.

    >>> opened = delimited("a.csv", iter([(1, "word,ipa"), (2, "cat,kæt")]), ",", ["word", "ipa"], headed=True)
    >>> list(opened.read({"source": "word"}))
    [(2, {'source': 'cat'})]
    """

    def rows(columns: Mapping[str, Column]) -> Iterator[Given]:
        places = {part: _place(name, column, names) for part, column in columns.items()}
        records = _tabbed(numbered) if separator == "\t" else _csv_records(name, numbered, separator)
        skipped = not headed
        for line, cells in records:
            if isinstance(cells, Finding):
                yield line, cells
            elif not any(cell.strip() for cell in cells):
                yield line, blank_line(name, line)
            elif not skipped:
                skipped = True
            elif bad := undecoded("\t".join(cells)):
                yield line, Finding(name, line, "invalid UTF-8", bad, "skipped")
            else:
                if found is not None and names and any(cell.strip() for cell in cells[len(names) :]):
                    what = f"{len(cells)} cells, where the header has {len(names)}; the last are not read"
                    found.add(Finding(name, line, "surplus cells", what, "kept"))
                yield line, {part: cells[p] if p < len(cells) else MISSING for part, p in places.items()}

    return _joining(Sheet("csv", name, names, rows))


def _separator(name: str, format: str, texts: list[str], options: DataOptions, notes: list[str]) -> str:
    if options.separator != "auto":
        return SEPARATORS.get(options.separator, options.separator)
    usual = "," if format == "csv" else "\t"
    if options.format == "tsv" or (suffix(name) in _TABBED and any("\t" in text for text in texts)):
        return usual
    separator, share = find_separator(texts, usual)
    if separator == usual or (format == "tsv" and share < 0.9):
        return usual
    called = next(key for key, value in SEPARATORS.items() if value == separator)
    notes.append(f"{name}: columns are separated by {called}s, as in {share:.0%} of the rows; else: --separator")
    return separator


def _header(name: str, rows: list[list[str]], options: DataOptions, notes: list[str]) -> list[str] | None:
    """The names of the columns, if the first row has them."""
    if options.header is False or not rows:
        return None
    names = [" ".join(cell.split()) for cell in rows[0]]
    given = [c for c in (options.source, options.target, options.second, options.alignment) if c is not None]
    chosen = [c for column in given for c in columns_of(column, names) if isinstance(c, str)]
    if options.header is True or (chosen and set(chosen) <= set(names)):
        return names
    for column in chosen:
        if column not in names:
            raise _no_such_column(name, column, names)
    why = is_header(names, rows[1:])
    if why is None:
        return None
    notes.append(f"{name}: the first line is read as a header, as {why}: {', '.join(names)}; else: --header no")
    return names


def _no_such_column(name: str, column: str, names: Sequence[str]) -> DataError:
    hint = nearest(column, names)
    if len(names) == 1 and not hint.startswith("did you mean"):
        return DataError(f"{name}: not a table with a column {column!r}: its lines have one column; give such a table")
    return DataError(f"{name}:1: no column is called {column!r}; {hint}")


def _tabbed(numbered: Numbered) -> Iterator[tuple[int, list[str] | Finding]]:
    return ((number, line.split("\t")) for number, line in numbered)


def _csv_records(name: str, numbered: Numbered, separator: str) -> Iterator[tuple[int, list[str] | Finding]]:
    first = next(numbered, None)
    if first is None:
        return
    every = chain([first], numbered)
    reader = csv.reader((line + "\n" for _, line in every), delimiter=separator, strict=True)
    while True:
        begin = first[0] + reader.line_num
        try:
            yield begin, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if "unexpected end" in str(error) or "field limit" in str(error):
                what = "a quote opened here is never closed; close it, or double it if it is text"
                raise DataError(f"{name}:{begin}: {what}") from error
            yield begin, Finding(name, begin, "malformed quotes", f"malformed quotes ({error})", "skipped")


def _place(name: str, column: Column, names: Sequence[str] | None) -> int:
    if isinstance(column, int):
        return column - 1
    if names is None:
        raise DataError(f"{name}: a column is chosen by name but header is false; choose by number")
    if column not in names:
        raise _no_such_column(name, column, names)
    return list(names).index(column)


def _labelled(name: str, options: DataOptions, found: Findings, notes: list[str]) -> Sheet:
    """Lines of a label and a text, separated by a space; or of labels as fastText has them, and a text."""
    if not {(options.source, options.target), (options.alignment, options.second)} <= {(None, None), (1, 2)}:
        raise DataError(f"{name}: a labelled file has a label and a text, no columns to choose; leave them out")

    def rows(columns: Mapping[str, Column]) -> Iterator[Given]:
        for number, line in lines(name, found, options.encoding):
            if bad := undecoded(line):
                yield number, Finding(name, number, "invalid UTF-8", bad, "skipped")
            elif not line.strip():
                yield number, blank_line(name, number)
            else:
                label, text = split_label(line)
                cells = {"source": text, "target": label}
                yield number, {part: cells.get(part, MISSING) for part in columns}

    return Sheet("labelled", name, None, rows, 2, notes)


FASTTEXT = "__label__"
"""The prefix of a label in the files of fastText."""


def split_label(line: str) -> tuple[str, str]:
    """Return the label and the text of a line; several labels are separated by commas.

    >>> split_label("pos what fun"), split_label("__label__a __label__b what fun")
    (('pos', 'what fun'), ('a,b', 'what fun'))
    """
    words = line.split()
    labels = [word.removeprefix(FASTTEXT) for word in words if word.startswith(FASTTEXT)]
    if labels:
        return ",".join(labels), " ".join(word for word in words if not word.startswith(FASTTEXT))
    label, _, text = line.strip().partition(" ")
    return label, text


# ---------------------------------------------------------------- jsonl and parquet


def _jsonl(name: str, options: DataOptions, found: Findings, notes: list[str]) -> Sheet:
    every = objects(name, lines(name, found, options.encoding))
    head = list(islice(every, SAMPLE))
    names = list(dict.fromkeys(key for _, value in head if isinstance(value, dict) for key in value))
    return of_objects(name, chain(head, every), names, notes)


def of_objects(name: str, every: Objects, names: Sequence[str], notes: list[str]) -> Sheet:
    """The table of objects whose keys are `names`.

    >>> list(of_objects("a.jsonl", iter([(1, {"word": "cat"})]), ["word"], []).read({"source": 1}))
    [(1, {'source': 'cat'})]
    """

    def rows(columns: Mapping[str, Column]) -> Iterator[Given]:
        keys = _named_keys(name, names, columns, notes) if names else {}
        for line, value in every:
            if isinstance(value, Finding):
                yield line, value
            else:
                yield line, {part: value.get(key, MISSING) for part, key in keys.items()}

    return Sheet("jsonl", name, names, rows, len(names), notes)


def _named_keys(
    name: str, names: Sequence[str], columns: Mapping[str, Column], notes: list[str] | None
) -> dict[str, str]:
    """The keys of the columns; a number is a place among the keys, or in the schema."""
    keys: dict[str, str] = {}
    for part, column in columns.items():
        if isinstance(column, int) and column > len(names):
            count = "there is 1" if len(names) == 1 else f"there are {len(names)}"
            raise DataError(f"{name}: no column {column}; {count}: {', '.join(names)}")
        keys[part] = names[column - 1] if isinstance(column, int) else column
    if (
        notes is not None
        and {"source", "target"} <= keys.keys()
        and any(isinstance(column, int) for column in columns.values())
    ):
        beside = f", the second text {keys['second']!r}" if "second" in keys else ""
        notes.append(
            f"{name}: the source is {keys['source']!r}{beside} and the target {keys['target']!r}, by their order"
        )
    return keys


def _parquet(name: str, options: DataOptions, found: Findings, notes: list[str]) -> Sheet:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise WindlassError(f"{name}: parquet needs pyarrow; pip install 'windlass[parquet]'") from error
    existing(name)

    def damaged(error: Exception) -> DataError:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        return DataError(f"{name}: not a parquet file, or a damaged one ({reason}); copy it again")

    try:
        names = list(pyarrow.parquet.read_schema(name).names)
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise damaged(error) from error

    def rows(columns: Mapping[str, Column]) -> Iterator[Given]:
        keys = _named_keys(name, names, columns, notes)
        for key in keys.values():
            if key not in names:
                raise DataError(f"{name}: no column is called {key!r}; {nearest(key, names)}")
        try:
            with pyarrow.parquet.ParquetFile(name) as file:
                number = 0
                for batch in file.iter_batches(columns=list(dict.fromkeys(keys.values()))):
                    for value in batch.to_pylist():
                        number += 1
                        yield number, {part: value.get(key, MISSING) for part, key in keys.items()}
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            raise damaged(error) from error

    return Sheet("parquet", name, names, rows, len(names), notes)
