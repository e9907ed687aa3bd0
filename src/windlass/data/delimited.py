"""Tables of lines: tsv and csv, and labels with their texts."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING

from windlass.core.errors import DataError, nearest
from windlass.data.column_groups import by_names
from windlass.data.files import lines, suffix, undecoded
from windlass.data.findings import Finding, Findings, blank_line
from windlass.data.sheets import MISSING, Column, Given, Sheet, joining
from windlass.data.sniff import SAMPLE, SEPARATORS, find_separator, in_quotes, is_header, quotes_hold, split_rows

if TYPE_CHECKING:
    from windlass.data.readers import DataOptions

Numbered = Iterator[tuple[int, str]]
"""Lines with their numbers."""

_TABBED = (".tsv", ".tab")
FEW = 3
"""Rows with cells in quotes from which they are told."""
MOST_TITLES = 5
"""Lines above a header that may be a title."""


def separated(name: str, format: str, options: DataOptions, found: Findings, notes: list[str]) -> Sheet:
    """Open a file whose separator and header are told, usual for its format, or found by its first lines.

    >>> from windlass.data.readers import DataOptions
    >>> separated("no-such-file.tsv", "tsv", DataOptions(), Findings(), [])
    Traceback (most recent call last):
    windlass.core.errors.DataError: no-such-file.tsv: no such file; ...
    """
    numbered = lines(name, found, options.encoding)
    head = list(islice(numbered, SAMPLE))
    texts = [line for _, line in head]
    separator = _separator(name, format, texts, options, notes)
    quoted = separator != "\t" or options.format == "csv" or (format == "csv" and quotes_hold(texts))
    rows = _rows(texts, separator, quoted)
    if not quoted:
        count, every = in_quotes(rows)
        if every and options.format != "tsv":
            notes.append(f"{name}: every cell is in quotes, which are taken off; else: --format tsv")
            quoted, rows = True, _rows(texts, separator, quoted=True)
        elif count >= max(FEW, len(rows) / 50):
            what = f"cells on {count} lines are in quotes, which are read as text; without them: --format csv"
            found.add(Finding(name, 0, "quotes", what, "kept"))
    titles = _titles(rows, options)
    place = next(
        (n for n, text in enumerate(texts) if _rows([text], separator, quoted) == rows[titles : titles + 1]), 0
    )
    if titles and place:
        head, rows, title = head[place:], rows[titles:], next(number for number, line in head if line.strip())
        told = f"line {head[0][0]}: {', '.join(' '.join(cell.split()) for cell in rows[0] if cell.strip())}"
        notes.append(f"{name}: line {title} is a title; the names of the columns are in {told}; else: --header no")
        options = options.model_copy(update={"header": True})
    names = _header(name, rows, options, notes)
    opened = delimited(name, chain(head, numbered), separator, names, names is not None, found, quoted)
    return replace(opened, format=format, width=max(map(len, rows), default=0), notes=notes, found=found)


def _rows(texts: Sequence[str], separator: str, quoted: bool) -> list[list[str]]:
    return [row for row in split_rows(texts, separator, quoted) if any(cell.strip() for cell in row)]


def delimited(
    name: str,
    numbered: Numbered,
    separator: str,
    names: Sequence[str] | None,
    headed: bool,
    found: Findings | None = None,
    quoted: bool | None = None,
) -> Sheet:
    """The table of lines whose separator and names of columns are known; the first has these names if it is `headed`.

    In `found` is noted which rows have more cells than there are names. Cells are `quoted` unless tabs separate them.

    >>> opened = delimited("a.csv", iter([(1, "word,ipa"), (2, "cat,kæt")]), ",", ["word", "ipa"], headed=True)
    >>> list(opened.read({"source": "word"}))
    [(2, {'source': 'cat'})]
    """

    def rows(columns: Mapping[str, Column]) -> Iterator[Given]:
        places = {part: _place(name, column, names) for part, column in columns.items()}
        quotes = separator != "\t" if quoted is None else quoted
        records = _csv_records(name, numbered, separator) if quotes else _tabbed(numbered)
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

    return joining(Sheet("csv", name, names, rows))


def _separator(name: str, format: str, texts: list[str], options: DataOptions, notes: list[str]) -> str:
    if options.separator != "auto":
        return SEPARATORS.get(options.separator, options.separator)
    usual = "," if format == "csv" else "\t"
    tabbed = suffix(name) in _TABBED and options.format != "csv" and any("\t" in text for text in texts)
    if options.format == "tsv" or tabbed:
        return usual
    separator, share = find_separator(texts, usual)
    if separator == usual or (format == "tsv" and share < 0.9):
        return usual
    called = next(key for key, value in SEPARATORS.items() if value == separator)
    notes.append(f"{name}: columns are separated by {called}s, as in {share:.0%} of the rows; else: --separator")
    return separator


def _titles(rows: list[list[str]], options: DataOptions) -> int:
    """The rows above a header that hold one text alone: a title, and what is written below it."""
    count = next((n for n, row in enumerate(rows[:MOST_TITLES]) if sum(map(bool, map(str.strip, row))) > 1), 0)
    if options.header is False or not count or 2 * sum(len(row) > 1 for row in rows) < len(rows):
        return 0
    first, names = ([" ".join(cell.split()) for cell in row] for row in (rows[0], rows[count]))
    given, above = _asked(options, names), _asked(options, first)
    if given and set(given) <= set(names):
        return count
    known = is_header(names, []) and not (above and set(above) <= set(first))  # by names of columns alone
    return count if known else 0


def _asked(options: DataOptions, names: Sequence[str]) -> list[str]:
    """The names of columns that were asked for."""
    given = [c for c in (options.source, options.target, options.second, options.alignment) if c is not None]
    return by_names(given, names)


def _header(name: str, rows: list[list[str]], options: DataOptions, notes: list[str]) -> list[str] | None:
    """The names of the columns, if the first row has them."""
    if options.header is False or not rows:
        return None
    names = [" ".join(cell.split()) for cell in rows[0]]
    chosen = _asked(options, names)
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
    hint = nearest(column, names, ordered=True)
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


def labelled(name: str, options: DataOptions, found: Findings, notes: list[str]) -> Sheet:
    """Lines of a label and a text, separated by a space; or of labels as fastText has them, and a text.

    >>> from windlass.data.readers import DataOptions
    >>> labelled("a.txt", DataOptions(source=3), Findings(), [])
    Traceback (most recent call last):
    windlass.core.errors.DataError: a.txt: a labelled file has a label and a text, no columns to choose; leave them out
    """
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
