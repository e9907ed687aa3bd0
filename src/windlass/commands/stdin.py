"""What `predict` reads from stdin, line by line as it comes: lines of text, or the source column of a table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from windlass.core.errors import DataError, nearest
from windlass.data.column_groups import by_names
from windlass.data.delimited import MOST_TITLES, Numbered, delimited
from windlass.data.findings import Finding
from windlass.data.keyed import of_objects
from windlass.data.objects import first_object, objects
from windlass.data.readers import DataOptions
from windlass.data.sheets import Column, Given
from windlass.data.sniff import SEPARATORS, in_quotes, split_rows

Note = Callable[[str], None]
Line = tuple[int, str]
WITHOUT_QUOTES = "--format csv --source 1"
"""How lines in quotes are read without them."""


def from_stdin(
    numbered: Numbered,
    options: DataOptions,
    wanted: dict[str, Column],
    asked: Collection[str],
    note: Note,
) -> tuple[Numbered, Iterator[Given] | None]:
    """Lines of text, or else rows of a table: what is not said is told by the first line, as the next may take long.

    >>> from_stdin(iter([(1, "what fun")]), DataOptions(), {"source": 1}, (), print)[1] is None
    True
    """
    if options.format == "auto" and options.separator in ("auto", "tab", "\t"):
        numbered = _unquoted(numbered, note)
    first = next(numbered, None)
    if first is None:
        note("stdin: there is nothing in it to predict")
        return numbered, None
    every, columns = chain([first], numbered), list(wanted.values())
    by_name = by_names(columns, None)
    if options.format == "jsonl":
        return iter(()), _from_objects(every, wanted)
    plain = options.format == options.header == options.separator == "auto"
    known = first_object(first[1]) or {} if plain else {}
    if known and ((named := by_names(columns, list(known))) or asked):
        if missing := [column for column in named if column not in known]:
            raise DataError(
                f"stdin:1: no key is called {missing[0]!r}; {nearest(missing[0], known)}; choose by --source"
            )
        note(f"stdin: read as JSON lines, as the first has {', '.join(map(repr, named)) or 'keys'}")
        return iter(()), _from_objects(every, wanted)
    usual, quoted = (",", True) if options.format == "csv" else ("\t", None)
    named = [usual, *SEPARATORS.values()] if options.separator == "auto" else [options.separator]
    marks = [SEPARATORS.get(name, name) for name in named]

    table = _Table(wanted, options.header, marks, quoted)
    head = _looked_at(first, numbered, table, bool(by_name and {"source", "second", "header"} & set(asked)))
    every = chain(head, numbered)
    if found := table.header(head[-1][1]):
        if len(head) > 1:
            place = f"line {head[-1][0]}: {', '.join(filter(None, found[1]))}"
            title = next(line for line, text in head if text.strip())
            note(f"stdin: line {title} is a title; the names of the columns are in {place}; else: --header no")
        elif not asked:
            told = by_names(columns, found[1])[0]
            note(f"stdin: the first line is read as a header, as it names {told!r}; else: --header no")
        return iter(()), table.below(*found, numbered)
    by_name = by_names(columns, next(split_rows([first[1]], marks[-1], quoted), []))
    if not asked and (len(columns) > 1 or options.source is None or "\t" not in first[1].strip()):
        return _above(every, table, note) if by_name and options.header == "auto" else (every, None)
    if by_name and asked:
        raise DataError(f"stdin:1: no column is called {by_name[0]!r}: choose its number by --source")
    if not asked:
        note("stdin: lines have columns, of which one is read as input; else: --source, --format")
    sheet = delimited("stdin", every, marks[0], None, headed=False, quoted=quoted)
    unnamed = {part: 1 if by_names([column], None) else column for part, column in wanted.items()}
    return iter(()), sheet.rows(unnamed)


@dataclass(frozen=True)
class _Table:
    """How the rows of a table are read, if a line is its header."""

    wanted: Mapping[str, Column]
    headed: bool | Literal["auto"]
    marks: Sequence[str]
    quoted: bool | None

    def header(self, text: str) -> tuple[str, list[str]] | None:
        """The separator and the names, if a line names the columns that are read."""
        for mark in self.marks:
            names = [cell.strip() for cell in next(split_rows([text], mark, self.quoted), [])]
            by_name = by_names(self.wanted.values(), names)
            if set(by_name) <= set(names) and (self.headed is True or (self.headed == "auto" and by_name)):
                return mark, names
        return None

    def titled(self, text: str) -> bool:
        """Whether a line is one cell and blank ones: more than one, as a text too may end in a comma."""
        rows = ((text.split(mark), 2 if mark == "\t" else 3) for mark in self.marks)
        return any(len(cells) >= least and sum(map(bool, map(str.strip, cells))) < 2 for cells, least in rows)

    def below(self, mark: str, names: Sequence[str], numbered: Numbered) -> Iterator[Given]:
        """The rows below the header."""
        return delimited("stdin", numbered, mark, names, headed=False, quoted=self.quoted).rows(self.wanted)


def _looked_at(first: Line, numbered: Numbered, table: _Table, named: bool) -> list[Line]:
    """The first line, or all to the header below a title: it is waited for if columns are `named`, or cells blank."""
    head = [first]
    while len(head) <= MOST_TITLES and not table.header(head[-1][1]) and (named or table.titled(head[-1][1])):
        if (after := next(numbered, None)) is None:
            break
        head.append(after)
    return head


def _above(every: Numbered, table: _Table, note: Note) -> tuple[Numbered, Iterator[Given]]:
    """Lines of text as they come; and the rows below, if one of the first lines is a header after all."""
    found: list[tuple[str, list[str]]] = []

    def lines() -> Numbered:
        for place, (line, text) in enumerate(every):
            names = table.header(text) if 0 < place <= MOST_TITLES else None
            if names and len(names[1]) > 1 and f"{names[0]} " not in text:
                told = ", ".join(names[1])
                note(f"stdin: the names of the columns are in line {line}: {told}; what is above it was read as input")
                found.append(names)
                return
            yield line, text

    def rows() -> Iterator[Given]:
        for names in found:
            yield from table.below(*names, every)

    return lines(), rows()


def _unquoted(numbered: Numbered, note: Note) -> Numbered:
    """Lines without quotes, if every cell of the first that is not blank has them, as in a file where all cells do."""
    strip: bool | None = None
    for line, text in numbered:
        cells = text.split("\t")
        count, every = in_quotes([cells])
        if strip is None and text.strip():
            strip = every and len(cells) > 1
            if strip:
                note("stdin: every cell of the first line is in quotes, which are taken off; else: --format tsv")
            elif every:
                note(f"stdin: the first line is in quotes, which are read as text; without them: {WITHOUT_QUOTES}")
        if strip and count and not every:
            note(f"stdin:{line}: not every cell is in quotes, which are text from here on; without them: --format csv")
            strip = False
        yield line, "\t".join(next(split_rows([text], "\t", quoted=True), [])) if strip else text


def _from_objects(numbered: Numbered, wanted: dict[str, Column]) -> Iterator[Given]:
    """The cells of JSON objects, as soon as each has come; the first names the columns."""
    every = objects("stdin", numbered)
    for line, value in every:
        if not isinstance(value, Finding):
            yield from of_objects("stdin", chain([(line, value)], every), list(value), []).rows(wanted)
            return
        yield line, value
