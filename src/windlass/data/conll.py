"""A word a line, its tags in columns, a blank line between sentences: CoNLL columns and CoNLL-U, read and written."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from windlass.core.errors import DataError, OtherTaskError, nearest, short
from windlass.data.examples import Example, Place
from windlass.data.files import NAME_ENCODING, lines, undecoded
from windlass.data.findings import Finding, Findings
from windlass.data.schemes import fault, marked, told

if TYPE_CHECKING:
    from windlass.data.readers import DataOptions
    from windlass.data.sides import SideOptions

Form = Literal["conll", "conllu"]

COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
"""Of CoNLL-U, whose columns can be chosen by these names."""

_SUFFIXES: dict[str, Form] = {".conllu": "conllu", ".conll": "conll", ".bio": "conll", ".iob": "conll"}
_LOOKED, _WIDEST = 20, 60
"""Sentences that tell whether a file is running text, and more columns than any format has."""
_NO_WORD = re.compile(r"\d+[-.]\d+")  # a range, which its words follow, or an empty node, which nobody wrote


def form(path: str, format: str, sides: SideOptions) -> Form | None:
    """The form of a file, by what was asked for or by its name; None where it is another.

    For a task that tags words, a name that tells nothing is taken for columns.

    >>> from windlass.data.sides import SideOptions
    >>> tags = SideOptions(source="words", target="tags")
    >>> form("dev.conllu.gz", "auto", tags), form("dev.annotated", "auto", tags), form("a.tsv", "auto", tags)
    ('conllu', 'conll', None)
    """
    if format in ("conll", "conllu"):
        return "conllu" if format == "conllu" else "conll"
    suffixes = [s.lower() for s in Path(path).suffixes if s.lower() != ".gz"]
    last = suffixes[-1] if suffixes else ""
    if format != "auto" or last in (".tsv", ".tab", ".csv", ".jsonl", ".ndjson", ".json", ".parquet", ".pq"):
        return None
    words = sides.source_side.word_by_word and sides.target_side.per_place
    return _SUFFIXES.get(last, "conll" if words and "," not in path else None)


@dataclass(frozen=True)
class Block:
    """The lines of a sentence, and which of them are words.

    >>> block = Block(3, ("# one", "1-2\\tdon't", "1\\tdo\\tAUX", "2\\tn't\\tPART"), (2, 3), 1, 2, "\\t")
    >>> block.words, block.tags
    (('do', "n't"), ('AUX', 'PART'))
    >>> block.written(["VERB", "ADV"])[1:3]
    ["1-2\\tdon't", '1\\tdo\\tVERB']
    """

    line: int  # of the file, of the first
    lines: tuple[str, ...]
    rows: tuple[int, ...]
    word_column: int
    tag_column: int
    separator: str | None  # None: any white space

    def _cell(self, row: int, column: int) -> str:
        cells = self.lines[row].split(self.separator)
        return cells[column].strip() if -len(cells) <= column < len(cells) else ""

    @property
    def words(self) -> tuple[str, ...]:
        """The words."""
        return tuple(self._cell(row, self.word_column) for row in self.rows)

    @property
    def tags(self) -> tuple[str, ...]:
        """Their tags; an empty one where the column is not there."""
        return tuple(self._cell(row, self.tag_column) for row in self.rows)

    @property
    def unreadable(self) -> str | None:
        """Its first line that cannot be read, and why: it is not UTF-8, or the sentence has no words."""
        for number, line in enumerate(self.lines, self.line):
            if bad := undecoded(line):
                return f"{number}: {bad}; {NAME_ENCODING}"
        if self.rows and not any(self.words):
            return f"{self.line + self.rows[0]}: no word in column {self.word_column + 1}: check the format"
        return None

    def written(self, tags: Sequence[str]) -> list[str]:
        """The lines with other tags; ranges, empty nodes and comments stay as they are, and so do blank words."""
        out = list(self.lines)
        if not any(self.words):
            return out
        for row, tag in zip(self.rows, tags, strict=True):
            cells = self.lines[row].split(self.separator)
            cells += ["_"] * (self.tag_column + 1 - len(cells))
            cells[self.tag_column] = tag
            out[row] = (self.separator or " ").join(cells)
        return out


def _column(name: str, column: int | str, form: Form) -> int:
    if isinstance(column, int):
        return column - 1
    if form == "conll" or column.lower() not in COLUMNS:
        known = COLUMNS if form == "conllu" else ["1", "2", "3"]
        raise DataError(f"{name}: no column is called {column!r}; {nearest(column, known)}")
    return COLUMNS.index(column.lower())


def blocks(
    name: str, form: Form, options: DataOptions, found: Findings, numbered: Iterator[tuple[int, str]] | None = None
) -> Iterator[Block]:
    """The sentences of a file, or of `numbered` lines; each as soon as the blank line after it is there.

    >>> import tempfile
    >>> from windlass.data.readers import DataOptions
    >>> path = Path(tempfile.mkdtemp()) / "a.conll"
    >>> _ = path.write_text("In O\\nUlm B-place\\n\\t\\nOh O\\n")
    >>> [block.words for block in blocks(str(path), "conll", DataOptions(), Findings())]
    [('In', 'Ulm'), ('Oh',)]
    """
    given = options.source, options.target
    if given in ((None, None), (1, 2)):
        given = ("form", "upos") if form == "conllu" else (1, 2)
    word, tag = (_column(name, column or usual, form) for column, usual in zip(given, (1, 2), strict=True))
    if word == tag:
        raise DataError(f"{name}: source and target are the same column, {given[0] or word + 1!r}: choose another")
    gathered: list[str] = []
    begin = 1
    for number, line in chain(numbered or lines(name, found, options.encoding), [(0, "")]):
        if line.strip():
            begin = begin if gathered else number
            gathered.append(line)
        elif gathered:
            yield _block(begin, gathered, form, word, tag)
            gathered = []


def _block(begin: int, gathered: list[str], form: Form, word: int, tag: int) -> Block:
    def is_word(line: str) -> bool:
        if form == "conllu":
            return not line.startswith("#") and not _NO_WORD.fullmatch(line.split("\t")[0])
        return not line.startswith("-DOCSTART-")

    rows = tuple(n for n, line in enumerate(gathered) if is_word(line))
    tabs = form == "conllu" or any("\t" in gathered[n] for n in rows)
    return Block(begin, tuple(gathered), rows, word, tag, "\t" if tabs else None)


def examples(
    name: str, form: Form, options: DataOptions, sides: SideOptions, found: Findings, notes: list[str]
) -> Iterator[Example]:
    """The sentences of a file as examples: words, and their tags. Which column they are in is noted if not chosen."""
    if not sides.target_side.per_place:
        raise OtherTaskError(f"{name}: columns of words and tags are for a task that tags", "tag")
    if not sides.source_side.word_by_word:
        raise DataError(f"{name}: columns of words are for task tag; give documents as jsonl, tsv, csv or parquet")
    if options.alignment is not None or options.header != "auto":
        raise DataError(f"{name}: a {form} file has neither a header nor alignments; leave these options out")
    unnoted = form == "conll" and options.target is None
    every = blocks(name, form, options, found)
    first = [*islice(every, _LOOKED)]
    untold = options.format == "auto" and not any(ending in _SUFFIXES for ending in Path(name).suffixes)
    if untold and _is_running_text(first):
        raise DataError(f"{name}: lines of text, not a word and its tag each: for text without tags use predict")
    for block in chain(first, every):
        words, tags = block.words, block.tags
        if unnoted and words:
            notes += _several_tags(name, block)
            unnoted = False
        wrong = _wrong(block, words, tags, options)
        if wrong is not None:
            kind, place, what = wrong
            found.add(Finding(name, place, kind, what, "skipped"))
            continue
        if not words:
            continue  # comments alone, or -DOCSTART-
        if marked(tags) and (ill := fault(told(tags), tags)):
            found.add(Finding(name, block.line, "ill-formed tags", f"{ill}: read as conlleval does", "kept"))
        yield Example(sides.read_source(words), (sides.read_target(tags),), None, Place(name, block.line))


def _is_running_text(sentences: Sequence[Block]) -> bool:
    """Whether lines hold texts: between spaces, of other numbers of words than the lines around them.

    >>> texts = ["so it", "is as he", "said"], ["In O", "Ulm B-place"]
    >>> [_is_running_text([_block(1, text, "conll", 0, 1)]) for text in texts]
    [True, False]
    """
    if any(block.separator for block in sentences):
        return False
    widths = [[len(block.lines[row].split()) for row in block.rows] for block in sentences if block.rows]
    if all(len(each) == 1 for each in widths):  # a line each, so that none has others around it
        lengths = {each[0] for each in widths}
        return len(lengths) > 2 or max(lengths, default=0) > _WIDEST
    alike = sum(max(Counter(each).values()) for each in widths)
    return alike < 0.7 * sum(map(len, widths))


def _several_tags(name: str, block: Block) -> list[str]:
    """Which of several columns of tags is taken, by those of the first sentence."""
    width = len(block.lines[block.rows[0]].split(block.separator))
    if width < 3:
        return []
    shown = short(" ".join(block.tags[:5]))[1:-1]
    others = [str(n) for n in range(2, width + 1) if n != block.tag_column + 1]
    others = [*others[:5], "..."] if len(others) > 6 else others
    column = f"column {block.tag_column + 1} of {width} ({shown} ...)"
    return [f"{name}: the tags are {column}; else: --target {' or '.join(others)}"]


def _wrong(
    block: Block, words: Sequence[str], tags: Sequence[str], options: DataOptions
) -> tuple[str, int, str] | None:
    """What makes a sentence unusable: which kind, on which line, what."""
    for row, word, tag in zip(block.rows, words, tags, strict=True):
        place = block.line + row
        if bad := undecoded(block.lines[row]):
            return "invalid UTF-8", place, bad
        if not word or not tag:
            which, column = ("word", block.word_column) if not word else ("tag", block.tag_column)
            return "missing column", place, f"no {which} in column {column + 1}, so the sentence cannot be used"
        if len(tag.split()) > 1:
            return "a space in a tag", place, f"the tag {tag!r} has a space in it, so the sentence cannot be used"
    length = sum(map(len, words)) + len(words)
    if length > options.max_length:
        what = f"the sentence has {length} characters, more than max_length {options.max_length}"
        return "over-long", block.line, what
    return None
