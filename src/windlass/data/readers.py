"""Examples from files: tsv, csv, jsonl, parquet, and line-parallel text, each optionally gzip.

Whatever is wrong becomes a finding with its place and what was done; a file that gives no example at all, or
that cannot be trusted (unequal line counts, an unclosed quote), is refused with a DataError.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from windlass.core.errors import DataError
from windlass.core.fitting import Needs, Offers, Term
from windlass.core.options import Options
from windlass.data import conll, tables, treebank
from windlass.data.examples import Alignment, Example, Place, Source, Split, cut, joined
from windlass.data.files import undecoded
from windlass.data.findings import Action, Finding, Findings, tally
from windlass.data.store import Keep

DataPath = str | Path | Sequence[str | Path]
"""A file; or two line-parallel ones (and a third with alignments), as a sequence or "train.en,train.de"."""

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_LINE_BREAK = re.compile("\r\n|\r|\n")
_LINK = re.compile(r"(\d{1,9})-(\d{1,9})", re.ASCII)


def _digits_are_numbers(value: Any) -> Any:
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value


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
    source: Column = Field(1, description="column of the input, by number from 1 or by name")
    target: Column = Field(2, description="column of the output, by number from 1 or by name")
    alignment: Column | None = Field(None, description="column of gold links such as 0-0 1-2")
    second: Column | None = Field(None, description="column of the second text of a pair, by number from 1 or by name")
    header: Literal["auto"] | bool = Field(
        "auto", description="auto: where a column is chosen by name, or the first line looks like one"
    )
    history: int | None = Field(None, ge=1, description="dialogs: turns before a reply that are read; none: all")
    speaker: str | None = Field(None, description="dialogs: whose turns are replies; none: every turn after the first")
    max_length: int = Field(1000, ge=1, description="characters a side; a longer line is skipped")
    strict: bool = Field(False, description="refuse a file instead of skipping, keeping or mending what is wrong")

    def _terms(self, at: str) -> Iterator[Term]:
        if self.second is not None:
            yield Offers(f"{at}.second", f"{at}.second is for a source of kind pair, not <source>: leave it out")
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


class _SkippedError(Exception):
    """A row that cannot be used."""

    def __init__(self, side: int, kind: str, what: str) -> None:
        super().__init__(what)
        self.side, self.kind, self.what = side, kind, what


def parse_alignment(text: str) -> Alignment | None:
    """Read links such as "0-0 1-2", or return None if that is not what the text holds.

    >>> parse_alignment("0-0 1-2")
    ((0, 0), (1, 2))
    """
    matches = [_LINK.fullmatch(link) for link in text.split()]
    links = [(int(m[1]), int(m[2])) for m in matches if m is not None]
    return tuple(links) if len(links) == len(matches) else None


class _Rows:
    """Makes examples of rows and notes what is wrong with them."""

    def __init__(
        self, table: tables.Table, options: DataOptions, found: Findings, target: str, document: Split | None
    ) -> None:
        self.files = (*table.files, table.files[0])  # in the order of _SIDES
        self.options, self.found, self.target = options, found, target
        self.document = document
        self.stray: dict[str, tuple[int, int, int]] = {}  # by file: the first line, the last, how many

    def examples(self, rows: Iterator[tables.Row]) -> Iterator[Example]:
        for row in rows:
            try:
                first = self._source(row.source, row.line)
                source = first if self.options.second is None else (joined(first), self._text(row.second, 3, row.line))
                answers = row.target if isinstance(row.target, list) and row.target else [row.target]
                if self.target == "tags" and isinstance(row.target, list):
                    answers = [_tags(row.target)]
                targets = tuple(dict.fromkeys(self._text(answer, 1, row.line) for answer in answers))
                alignment = self._alignment(row.alignment)
            except _SkippedError as skip:
                self._add(row.line, skip.side, skip.kind, skip.what, "skipped")
                continue
            if self.options.second is not None and isinstance(source, tuple):
                texts = [(0, source[0]), (3, source[1])]
            elif self.document is not None:
                texts = [(0, _LINE_BREAK.sub(" ", joined(source)).replace("\t", " "))]
            else:
                texts = [(0, joined(source))]
            for side, text in (*texts, *((1, t) for t in targets)):
                if control := _CONTROL.search(text):
                    what = f"control character U+{ord(control.group()):04X} in the {_SIDES[side]}"
                    self._add(row.line, side, "control character", what, "kept")
            example = Example(source, targets, alignment, Place(self.files[0], row.line))
            try:
                yield cut(example, self.target, self.document)
            except DataError as error:
                what = str(error).removeprefix(f"{example.place}: ")
                parts = "words" if self.document is None else "sentences"
                kind = f"unequal numbers of {parts} and tags" if self.target == "tags" else "not a tree"
                self._add(row.line, 1, kind, what, "skipped")
        for file, (begin, _, count) in self.stray.items():
            what = f"spaces around the text on {count} lines from here"
            self.found.add(Finding(file, begin, "stray space", what, "mended"))

    def _add(self, line: int, side: int, kind: str, what: str, action: Literal["skipped", "kept", "mended"]) -> None:
        self.found.add(Finding(self.files[side], line, kind, what, action))

    def _source(self, value: object, line: int) -> Source:
        """A text; of a document also a list of its sentences."""
        if self.document is None or not isinstance(value, list):
            return self._text(value, 0, line)
        parts = [part for part in value if isinstance(part, str)]
        if len(parts) < len(value):
            raise _SkippedError(0, "not text", "the source is a list, but not all in it is text")
        self._text(" ".join(parts).strip(), 0, line)  # what would be wrong with it as one text
        return tuple(" ".join(part.split()) for part in parts)

    def _text(self, value: object, side: int, line: int) -> str:
        name = _SIDES[side]
        if value is tables.MISSING:
            column = {"source": self.options.source, "target": self.options.target, "second text": self.options.second}
            raise _SkippedError(side, "missing column", f"no {name} column ({column[name]!r})")
        if value is None:
            value = ""
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str):
            raise _SkippedError(side, "not text", f"the {name} is not text but {type(value).__name__}")
        if bad := undecoded(value):
            raise _SkippedError(side, "invalid UTF-8", bad)
        text = value.strip()
        if not text:
            raise _SkippedError(side, "blank", f"the {name} is blank")
        if text != value:
            if self.found.strict:
                self._add(line, side, "stray space", f"spaces around the {name}", "mended")
            first, last, count = self.stray.get(self.files[side], (line, 0, 0))
            self.stray[self.files[side]] = first, line, count + (line != last)
        if _LINE_BREAK.search(text) and (self.document is None or side):  # lines may well be sentences
            self._add(line, side, "line break", f"line break inside the {name}, now a space", "mended")
            text = _LINE_BREAK.sub(" ", text)
        if len(text) > self.options.max_length:
            most = self.options.max_length
            what = f"the {name} has {len(text)} characters, more than max_length {most}"
            raise _SkippedError(side, "over-long", what)
        return text

    def _alignment(self, value: object) -> Alignment | None:
        if value is None or (isinstance(value, str) and not value.strip()):
            return None
        if value is tables.MISSING:
            raise _SkippedError(2, "missing column", f"no alignment column ({self.options.alignment!r})")
        if isinstance(value, list):  # jsonl: [[0, 0], [1, 2]]
            value = " ".join("-".join(map(str, p)) if isinstance(p, list) else str(p) for p in value)
        links = parse_alignment(value) if isinstance(value, str) else None
        if links is None:
            shown = repr(value)[:60]
            raise _SkippedError(2, "malformed alignment", f"alignment is not like '0-0 1-2' but {shown}")
        return links


_SIDES = ("source", "target", "alignment", "second text")


def _tags(value: list[object]) -> str:
    """Tags as a list, as the text that they are elsewhere."""
    texts = [str(tag) for tag in value if isinstance(tag, str | int)]
    if len(texts) < len(value) or any(len(text.split()) != 1 for text in texts):
        raise _SkippedError(1, "not tags", "the target is a list, but not of tags, which are texts without a space")
    return " ".join(texts)


def read(
    path: DataPath,
    options: DataOptions | None = None,
    target: str = "text",
    document: Split | None = None,
    keep: Keep = tuple,
) -> ReadResult:
    """Read the examples of a file (or of line-parallel files), with everything that is wrong in it.

    `target` is the kind of what comes out: with tags, a source is cut into the words that they belong to. Where the
    source is a document, `document` cuts it into sentences; then a list of sentences is a source too, and a text keeps
    its lines. `keep` holds the examples: in memory, or on disk with `Texts().take`.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "pairs.tsv"
    >>> _ = file.write_text("cat\\tk a t\\ndog\\t\\n")
    >>> result = read(file)
    >>> [(e.source, e.target) for e in result.examples], result.findings[0].what
    ([('cat', 'k a t')], 'the target is blank')
    """
    options = options or DataOptions()
    found = Findings(strict=options.strict)
    if isinstance(path, str | Path) and treebank.is_treebank(str(path), options.format):
        return _read_trees(str(path), options, found, target, keep)
    shape = target if document is None else "text"
    if isinstance(path, str | Path) and (form := conll.form(str(path), options.format, shape)):
        if document is not None:
            raise DataError(f"{path}: columns of words are for task tag; give documents as jsonl, tsv, csv or parquet")
        return _read_conll(str(path), form, options, found, target, keep)
    table = tables.table(path, options, found)
    examples = keep(_Rows(table, options, found, target, document).examples(table.rows))
    name = ",".join(dict.fromkeys(table.files))
    if not examples:
        raise DataError(f"{name}: {_nothing_usable(found.entries, table.format)}")
    entries = tuple(sorted(found.entries, key=lambda f: f.line))
    return ReadResult(examples, entries, tuple(table.notes), found.beyond)


def _read_conll(
    name: str, form: conll.Form, options: DataOptions, found: Findings, target: str, keep: Keep
) -> ReadResult:
    if target != "tags":
        raise DataError(f"{name}: columns of words and tags are for a task that tags: add --task tag")
    if options.alignment is not None or options.header != "auto":
        raise DataError(f"{name}: a {form} file has neither a header nor alignments; leave these options out")
    examples = keep(conll.examples(name, form, options, found))
    if not examples:
        raise DataError(f"{name}: {_nothing_usable(found.entries, form)}")
    return ReadResult(examples, tuple(sorted(found.entries, key=lambda f: f.line)), (), found.beyond)


def _read_trees(name: str, options: DataOptions, found: Findings, target: str, keep: Keep) -> ReadResult:
    if target not in ("tree", "text"):
        raise DataError(f"{name}: trees are for a task that writes or reads them: add --task parse")
    if (options.source, options.target, options.alignment, options.header) != (1, 2, None, "auto"):
        raise DataError(f"{name}: a file of trees has no columns; leave these options out")
    notes: list[str] = []
    examples = keep(treebank.examples(name, options, found, target == "text", notes))
    if not examples:
        raise DataError(f"{name}: {_nothing_usable(found.entries, 'trees')}")
    return ReadResult(examples, tuple(sorted(found.entries, key=lambda f: f.line)), tuple(notes), found.beyond)


def _nothing_usable(entries: list[Finding], format: str) -> str:
    skipped = [f for f in entries if f.action == "skipped"]
    if not skipped:
        return "no line but the header; give at least one example"
    hint = ""
    if all(f.kind == "missing column" for f in skipped):
        separators = {"tsv": "tabs", "csv": "commas"}
        if format in separators:
            hint = f"; columns of a {format} are separated by {separators[format]}: check the format"
        elif format == "jsonl":
            hint = "; columns of a jsonl are chosen by key: check the spelling"
    elif all(f.kind == "invalid UTF-8" for f in skipped):
        hint = "; save the file as UTF-8"
    return f"no usable line, {tally(skipped)}; first is line {skipped[0].line}: {skipped[0].what}{hint}"
