"""A table before its columns are chosen: what the reader of every format opens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from windlass.data.column_groups import columns_of, gathered, joined, spread
from windlass.data.findings import Finding, Findings

MISSING: Final = object()
"""The cell of a column that a row does not have."""

Column = int | str
"""By its number from 1, or by its name; several columns as one: `height,width` or `2-5`."""
Cells = tuple[int, dict[str, object]]
"""A line, and the cells of the columns that were asked for."""
Given = tuple[int, dict[str, object] | Finding]
"""The same, or what is wrong with the line."""


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


def joining(opened: Sheet) -> Sheet:
    """A table from which several columns can be read as one.

    >>> opened = Sheet("csv", "a.csv", ["h", "w"], lambda columns: iter([(2, dict.fromkeys(columns, "7"))]))
    >>> list(joining(opened).read({"source": "h,w"}))
    [(2, {'source': [7.0, 7.0]})]
    """

    def rows(columns: Mapping[str, Column]) -> Iterator[Given]:
        groups = {part: columns_of(column, opened.names) for part, column in columns.items()}
        if all(len(group) == 1 for group in groups.values()):
            yield from opened.rows(columns)
            return
        for line, cells in opened.rows(spread(groups)):
            yield line, cells if isinstance(cells, Finding) else gathered(cells, groups, opened.names, _one)

    return replace(opened, rows=rows)


def _one(cells: Sequence[object], labels: Sequence[str] | None) -> object:
    """Several cells as one: missing if one of them is, blank if one of them is."""
    return MISSING if any(cell is MISSING for cell in cells) else joined(cells, labels) or ""
