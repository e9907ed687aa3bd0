"""What the columns of a table hold, for a user who has to choose among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from windlass.core.errors import DataError, SeveralTargetsError, WindlassError
from windlass.core.wording import counted
from windlass.data.column_sample import ASIDE, ColumnSample
from windlass.data.doctor import Report
from windlass.data.findings import Finding, Findings
from windlass.data.readers import DataOptions, DataPath
from windlass.data.recognise import likeliest
from windlass.data.recognise_file import chosen, has_columns, samples
from windlass.data.sheets import Column

_HOLDS = {
    "nothing": "hardly anything",
    "id": "ids",
    "date": "dates",
    "other": "neither source nor target",
    "links": "links",
    "file": "names of files",
    "number": "numbers",
    "label": "labels",
    "labels": "sets of labels",
    "list": "lists",
    "unclear": "labels or texts",
    "text": "texts",
}


@dataclass(frozen=True)
class ColumnFacts:
    """A column: what it holds, how many different values, how many blank cells, and an example.

    >>> str(ColumnFacts("ipa", "texts", 249, 2, "k a t", True))
    "'ipa': texts, 249 different, 2 blank, such as 'k a t'"
    """

    column: int | str
    holds: str
    different: int
    blank: int
    example: str | None
    usable: bool  # as a source or target

    @classmethod
    def of(cls, column: ColumnSample) -> ColumnFacts:
        """The facts of a sample."""
        objects = f"objects with the keys {', '.join(column.keys[:5])}" if column.keys else ""
        example = column.texts[0] if column.texts else None
        shown = example if example is None or len(example) <= 40 else example[:37] + "..."
        holds = objects or _HOLDS[column.looks]
        usable = column.looks not in ASIDE
        return cls(column.column, holds, len(column.counts), column.blank, shown, usable)

    def __str__(self) -> str:
        blank = f", {self.blank:,} blank" if self.blank else ""
        shown = "" if self.example is None else f", such as {self.example!r}"
        return f"{self.column!r}: {self.holds}, {self.different:,} different{blank}{shown}"


class Survey(NamedTuple):
    """A report on a table, what its columns hold, and the source and the target to suggest; None if both are chosen.

    >>> Survey._fields
    ('report', 'columns', 'pair')
    """

    report: Report
    columns: list[ColumnFacts]
    pair: tuple[Column, Column] | None


def survey_columns(path: DataPath, options: DataOptions, why: DataError) -> Survey | None:
    """Report on a table whose source and target are not clear, and `why`; None if it has no columns to choose from.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "words.csv"
    >>> _ = path.write_text("word,german\\ncat,Katze\\ndog,Hund\\n")
    >>> report, columns, pair = survey_columns(path, DataOptions(), DataError("choose with --source"))
    >>> columns[1].example, report.refused, pair
    ('Katze', True, ('word', 'german'))
    """
    found = Findings()
    try:
        columns = samples(path, options, found)
    except WindlassError:
        return None
    if len(columns) < 2 or not columns[0].cells:
        return None
    facts = [ColumnFacts.of(column) for column in columns]
    rows = counted(len(columns[0].cells), "row")
    own = chosen(options)
    names = [c.name or "" for c in columns] if any(c.name for c in columns) else None
    both = {"source", "target"} <= {*own} and has_columns(own, names, len(columns))
    what = "task is" if both else "source and the target are"
    title = f"{rows}, {len(facts)} columns, of which the {what} not clear:"
    name = str(path)
    unclear = Finding(name, 0, "unclear", str(why).removeprefix(f"{name}: "), "refused")
    title = "\n".join([title, *(f"  {one}" for one in facts)])
    report = Report(0, 0, {}, (unclear, *found.entries), (), (), found.beyond, title=title)
    source, target = likeliest(columns, own, why.columns if isinstance(why, SeveralTargetsError) else ())
    return Survey(report, facts, None if both else (source.column, target.column))
