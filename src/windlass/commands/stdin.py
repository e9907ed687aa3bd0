"""What `predict` reads from stdin, line by line as it comes: lines of text, or the source column of a table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import chain

from windlass.core.errors import DataError, nearest
from windlass.data.column_groups import by_names
from windlass.data.delimited import Numbered, delimited
from windlass.data.findings import Finding
from windlass.data.keyed import of_objects
from windlass.data.objects import first_object, objects
from windlass.data.readers import DataOptions
from windlass.data.sheets import Column, Given
from windlass.data.sniff import SEPARATORS, in_quotes, split_rows

Note = Callable[[str], None]
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
    marks = [usual, *SEPARATORS.values()] if options.separator == "auto" else [options.separator]
    for mark in (SEPARATORS.get(name, name) for name in marks):
        names = [cell.strip() for cell in next(split_rows([first[1]], mark, quoted), [])]
        by_name = by_names(columns, names)
        if set(by_name) <= set(names) and (options.header is True or (options.header == "auto" and by_name)):
            if not asked:
                note(f"stdin: the first line is read as a header, as it names {by_name[0]!r}; else: --header no")
            return iter(()), delimited("stdin", numbered, mark, names, headed=False, quoted=quoted).rows(wanted)
    if not asked and (len(columns) > 1 or options.source is None or "\t" not in first[1].strip()):
        return every, None
    if by_name and asked:
        raise DataError(f"stdin:1: no column is called {by_name[0]!r}: choose its number by --source")
    if not asked:
        note("stdin: lines have columns, of which one is read as input; else: --source, --format")
    sheet = delimited("stdin", every, SEPARATORS.get(marks[0], marks[0]), None, headed=False, quoted=quoted)
    unnamed = {part: 1 if by_names([column], None) else column for part, column in wanted.items()}
    return iter(()), sheet.rows(unnamed)


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
