"""Examples from files: tsv, csv, jsonl, parquet, and line-parallel text, each optionally gzip.

Whatever is wrong becomes a finding with its place and what was done; a file that gives no example at all, or
that cannot be trusted (unequal line counts, an unclosed quote), is refused with a DataError.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator

from windlass.core.errors import DataError
from windlass.core.fitting import Needs, Term
from windlass.core.options import Options
from windlass.core.wording import counted
from windlass.data import conll, folders, tables, treebank
from windlass.data.examples import Alignment, Example, Place, Value, as_text
from windlass.data.files import STDIN, check_encoding, other_encoding, suffix, told_encoding, undecoded
from windlass.data.findings import Action, Finding, Findings, tally
from windlass.data.sheets import MISSING
from windlass.data.sides import CellError, SideOptions, SourceSide, TargetSide
from windlass.data.sniff import SEPARATORS
from windlass.data.store import Keep

DataPath = str | Path | Sequence[str | Path]
"""A file; two line-parallel ones (and a third with alignments), as a sequence or "train.en,train.de"; or a folder of
pictures, clips, sounds or arrays, whose folders are labels."""

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_CONTROL_BUT_SPACE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")  # all but tabs and line breaks
_LINE_BREAK = re.compile("\r\n|\r|\n")
_LINK = re.compile(r"(\d{1,9})-(\d{1,9})", re.ASCII)


def _digits_are_numbers(value: Any) -> Any:
    digits = isinstance(value, str) and value.isascii() and value.isdigit()
    return (int(value) or value) if digits else value  # "0" can only be a name, as pandas has it


Column = Annotated[Annotated[int, Field(ge=1)] | str, BeforeValidator(_digits_are_numbers)]
"""A column by its number from 1, or by its name."""


class DataOptions(Options):
    """How files are read.

    >>> DataOptions(source="word", target="3").target
    3
    """

    format: Literal["auto", "tsv", "csv", "jsonl", "parquet", "parallel", "labelled", "conll", "conllu", "trees"] = (
        Field(
            "auto",
            description="auto: by the file's name; labelled: a label, a space and a text a line; trees: brackets",
        )
    )
    source: Column | None = Field(
        None,
        description="column of the input, by number from 1 or by name; several as one: height,width or 2-5; default: "
        "by its name and what it holds",
    )
    target: Column | None = Field(None, description="column of the output; default: as for source")
    alignment: Column | None = Field(None, description="column of gold links such as 0-0 1-2")
    second: Column | None = Field(None, description="column of the second text of a pair; default: as for source")
    header: Literal["auto"] | bool = Field(
        "auto", description="whether the first row names the columns; auto: where it differs from those below"
    )
    separator: str = Field(
        "auto", description="of columns: tab, comma, semicolon, pipe or any character; auto: what most rows agree on"
    )
    encoding: str | None = Field(None, description="of the file; default: UTF-8, or UTF-16 with a byte-order mark")
    history: int | None = Field(None, ge=1, description="dialogs: turns before a reply that are read; none: all")
    speaker: str | None = Field(None, description="dialogs: whose turns are replies; none: every turn after the first")
    max_length: int = Field(1000, ge=1, description="characters a side; a longer line is skipped")
    strict: bool = Field(False, description="refuse a file instead of skipping, keeping or mending what is wrong")

    @field_validator("separator")
    @classmethod
    def _one_character(cls, name: str) -> str:
        if name != "auto" and name not in SEPARATORS and (len(name) != 1 or name in '"\r\n'):
            raise ValueError(f"a separator is one character, or one of {', '.join(SEPARATORS)}")
        return name

    @field_validator("encoding")
    @classmethod
    def _known(cls, name: str | None) -> str | None:
        return name and check_encoding(name)

    def _terms(self, at: str) -> Iterator[Term]:
        if self.second is not None:
            two = ("source pair", "source question")
            yield Needs(two, f"{at}.second is for a source of kind pair or question, not <source>: leave it out")
        for name in ("history", "speaker"):
            if getattr(self, name) is not None:
                yield Needs("task turns", f"{at}.{name} is for dialogs: leave it out, or set task: reply")


@dataclass(frozen=True)
class ReadResult:
    """The examples of a file, what was wrong with it, and what was assumed about it.

    >>> ReadResult((), (), ("pairs.tsv: the first line is a header",)).notes
    ('pairs.tsv: the first line is a header',)
    """

    examples: Sequence[Example]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    beyond: Mapping[tuple[str, Action], int] = field(default_factory=dict)  # findings that were only counted

    def usable(self) -> ReadResult:
        """The same, unless most rows had to be skipped."""
        lost = [f for f in self.findings if f.action == "skipped" and f.what != "the line is blank"]
        if len(lost) >= 10 and len(lost) > len(self.examples):
            first = f"first is line {lost[0].line}: {lost[0].what}"
            raise DataError(f"{lost[0].file}: most rows are unusable, {tally(lost)}; {first}")
        return self


class _SkippedError(Exception):
    """A row that cannot be used, and the column that makes it so."""

    def __init__(self, column: str, kind: str, what: str) -> None:
        super().__init__(what)
        self.column, self.kind, self.what = column, kind, what


def parse_alignment(text: str) -> Alignment | None:
    """Read links such as "0-0 1-2", or return None if that is not what the text holds.

    >>> parse_alignment("0-0 1-2")
    ((0, 0), (1, 2))
    """
    matches = [_LINK.fullmatch(link) for link in text.split()]
    links = [(int(m[1]), int(m[2])) for m in matches if m is not None]
    return tuple(links) if len(links) == len(matches) else None


class _ExampleMaker:
    """Makes examples of rows and notes what is wrong with them."""

    def __init__(self, table: tables.Table, options: DataOptions, sides: SideOptions, found: Findings) -> None:
        source, target, alignment = table.files
        self.files = {"source": source, "target": target, "alignment": alignment, "second text": source}
        self.folder = Path(source).parent  # where the files that it names are
        self.options, self.sides, self.found = options, sides, found
        self.source, self.target = sides.source_side, sides.target_side
        self.stray: dict[str, tuple[int, int, int]] = {}  # by file: the first line, the last, how many
        self.kept: list[tuple[str, str, str]] = []  # what is odd but stays, of the row that is being read

    def examples(self, rows: Iterator[tables.Row]) -> Iterator[Example]:
        for row in rows:
            self.kept = []
            try:
                source = self._source(row)
                answers = [self._target(answer, row.line) for answer in self.target.answers(row.target)]
                targets = tuple(dict.fromkeys(answers))
                alignment = self._alignment(row.alignment)
            except _SkippedError as skip:
                self._add(row.line, skip.column, skip.kind, skip.what, "skipped")
                continue
            for column, kind, what in self.kept:
                self._add(row.line, column, kind, what, "kept")
            example = Example(source, targets, alignment, Place(self.files["source"], row.line))
            try:
                yield self.sides.match(example)
            except CellError as error:
                self._add(row.line, "target", error.kind, str(error), "skipped")
        for file, (begin, _, count) in self.stray.items():
            what = f"spaces around the text on {counted(count, 'line')} from here"
            self.found.add(Finding(file, begin, "stray space", what, "mended"))

    def _add(self, line: int, column: str, kind: str, what: str, action: Literal["skipped", "kept", "mended"]) -> None:
        self.found.add(Finding(self.files[column], line, kind, what, action))

    def _source(self, row: tables.Row) -> Value:
        cell = self._tidy(row.source, "source", row.line, self.source.multiline)
        if self.source.texts > 1:
            cell = cell, self._tidy(row.second, "second text", row.line, self.source.multiline)
        try:
            value = self.source.read(self.sides.source, cell)
            value = self.source.locate(self.sides.source, value, self.folder)
        except CellError as error:
            raise _SkippedError("source", error.kind, str(error)) from None
        return value if isinstance(cell, str) else self._checked(value, cell, self.source, "source")

    def _target(self, answer: object, line: int) -> Value:
        nothing = answer is None or answer == [] or (isinstance(answer, str) and not answer.strip())
        if nothing and not self.target.blank(""):
            return self.target.read(self.sides.target, "")  # nothing is an answer
        cell = self._tidy(answer, "target", line, self.target.multiline)
        try:
            value = self.target.read(self.sides.target, cell)
        except CellError as error:
            raise _SkippedError("target", error.kind, str(error)) from None
        return value if isinstance(cell, str) else self._checked(value, cell, self.target, "target")

    def _checked(self, value: Value, cell: object, side: type[SourceSide | TargetSide], column: str) -> Value:
        """A value whose cell is no text, unless it is blank or holds texts that cannot be used."""
        if isinstance(cell, list) and side.textual:
            text = as_text(value).strip()
            self._check(text, text, column)
            self._note_controls(text, column, side.multiline)
        if side.blank(value):
            raise _SkippedError(column, "blank", f"the {column} is blank")
        return value

    def _tidy(self, cell: object, column: str, line: int, multiline: bool) -> object:
        """A cell without stray spaces and, unless they mean something, without line breaks."""
        if isinstance(cell, str):
            return self._text(cell, column, line, multiline)
        if cell is MISSING:
            asked = getattr(self.options, column.split()[0])
            raise _SkippedError(column, "missing column", f"no {column} column{f' ({asked!r})' if asked else ''}")
        if isinstance(cell, list):
            return [" ".join(part.split()) if isinstance(part, str) else part for part in cell]
        if cell is None:
            raise _SkippedError(column, "blank", f"the {column} is blank")
        return cell

    def _text(self, cell: str, column: str, line: int, multiline: bool) -> str:
        text = cell.strip()
        self._check(cell, text, column)
        if text != cell:
            if self.found.strict:
                self._add(line, column, "stray space", f"spaces around the {column}", "mended")
            first, last, count = self.stray.get(self.files[column], (line, 0, 0))
            self.stray[self.files[column]] = first, line, count + (line != last)
        if _CONTROL.search(text) is None:
            return text
        if not multiline and _LINE_BREAK.search(text):
            self._add(line, column, "line break", f"line break inside the {column}, now a space", "mended")
            text = _LINE_BREAK.sub(" ", text)
        self._note_controls(text, column, multiline)
        return text

    def _note_controls(self, text: str, column: str, multiline: bool) -> None:
        if control := (_CONTROL_BUT_SPACE if multiline else _CONTROL).search(text):
            what = f"control character U+{ord(control.group()):04X} in the {column}"
            self.kept.append((column, "control character", what))

    def _check(self, cell: str, text: str, column: str) -> None:
        """Refuse a cell whose text cannot be used."""
        if bad := undecoded(cell):
            raise _SkippedError(column, "invalid UTF-8", bad)
        if not text:
            raise _SkippedError(column, "blank", f"the {column} is blank")
        if len(text) > self.options.max_length and (self.source.textual or column != "source"):
            what = f"the {column} has {len(text)} characters, more than max_length {self.options.max_length}"
            raise _SkippedError(column, "over-long", what)

    def _alignment(self, value: object) -> Alignment | None:
        if value is None or (isinstance(value, str) and not value.strip()):
            return None
        if value is MISSING:
            raise _SkippedError("alignment", "missing column", f"no alignment column ({self.options.alignment!r})")
        if isinstance(value, list):  # jsonl: [[0, 0], [1, 2]]
            value = " ".join("-".join(map(str, p)) if isinstance(p, list) else str(p) for p in value)
        links = parse_alignment(value) if isinstance(value, str) else None
        if links is None:
            shown = repr(value)[:60]
            raise _SkippedError("alignment", "malformed alignment", f"alignment is not like '0-0 1-2' but {shown}")
        return links


def read(
    path: DataPath,
    options: DataOptions | None = None,
    sides: SideOptions | None = None,
    keep: Keep = tuple,
) -> ReadResult:
    """Read the examples of a file (or of line-parallel files), with everything that is wrong in it.

    `sides` says what the two sides of an example are, text to text by default. `keep` holds the examples: in memory, or
    on disk with `ExampleStore().take`.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "pairs.tsv"
    >>> _ = file.write_text("cat\\tk a t\\ndog\\t\\n")
    >>> result = read(file)
    >>> [(e.source, e.target) for e in result.examples], result.findings[0].what
    ([('cat', 'k a t')], 'the target is blank')
    """
    options, sides = options or DataOptions(), sides or SideOptions()
    found, notes = Findings(strict=options.strict), list[str]()
    if folders.is_folder(path):
        name, format = str(path), "folder"
        examples = keep(folders.examples(name, sides, found, notes))
    elif isinstance(path, str | Path) and treebank.is_treebank(str(path), options.format):
        name, format = str(path), "trees"
        examples = keep(treebank.examples(name, options, sides, found, notes))
    elif isinstance(path, str | Path) and (form := conll.form(str(path), options.format, sides)):
        name, format = str(path), form
        examples = keep(conll.examples(name, form, options, sides, found, notes))
    else:
        table = tables.table(path, options, found, sides.source_side.texts)
        name, format, notes = ",".join(dict.fromkeys(table.files)), table.format, table.notes
        examples = keep(_ExampleMaker(table, options, sides, found).examples(table.rows))
    if not examples:
        raise DataError(f"{name}: {_nothing_usable(found.entries, format, name, sides)}")
    return ReadResult(examples, tuple(sorted(found.entries, key=lambda f: f.line)), tuple(notes), found.beyond)


def in_its_encoding(
    path: DataPath, options: DataOptions, other: str | None, note: Callable[[str], None]
) -> DataOptions:
    """Return the options to read a file for a model whose training data was in the encoding `other`.

    The file is read as UTF-8 if it is, and otherwise in `other`, which is noted, unless the options name an encoding.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "words.txt"
    >>> _ = file.write_text("León", encoding="utf-8")
    >>> in_its_encoding(file, DataOptions(), "cp1252", print).encoding is None
    True
    """
    if other is None or options.encoding is not None:
        return options
    for name in tables.several(path):
        if (name == STDIN or Path(name).is_file()) and told_encoding(name, other) is not None:
            note(other_encoding("stdin" if name == STDIN else name, other))
            return options.model_copy(update={"encoding": other})
    return options


def _parallel(name: str) -> str:
    """Two line-parallel files, as they are given: a file, and the one of the same name in another language."""
    path = Path(name)
    same = sorted(other for other in path.parent.glob(f"{glob.escape(path.stem)}.*") if other != path)
    return f"{name},{same[0] if same else 'OTHER'}"


def _nothing_usable(entries: list[Finding], format: str, name: str, sides: SideOptions) -> str:
    skipped = [f for f in entries if f.action == "skipped"]
    if not skipped and format == "folder":
        return "no such files in folders named after labels: check the task, and that each label has a folder"
    if not skipped:
        return "no line but the header; give at least one example"
    hint = ""
    if {f.kind for f in skipped} - {"blank"} == {"missing column"}:
        separators = {"tsv": "tabs", "csv": "commas"}
        texts = sides.source_side.textual and sides.target_side.written
        if format in separators and texts and suffix(name) not in tables.ENDINGS:
            hint = f"; give texts in two files with a comma and no space between: {_parallel(name)}"
        elif format in separators:
            hint = f"; columns of a {format} are separated by {separators[format]}: check the format"
        elif format == "jsonl":
            hint = "; columns of a jsonl are chosen by key: check the spelling"
        elif format in ("conll", "conllu"):
            hint = ": choose another by --source or --target; for text without tags use predict"
    elif all(f.kind == "invalid UTF-8" for f in skipped):
        hint = "; save the file as UTF-8"
    return f"no usable line, {tally(skipped)}; first is line {skipped[0].line}: {skipped[0].what}{hint}"
