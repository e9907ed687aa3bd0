"""What `predict` reads: lines of text, or the source column of a table; a file, or stdin as it comes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, TypeVar

from windlass.bundle import Bundle
from windlass.commands.shared import data_options
from windlass.commands.stdin import WITHOUT_QUOTES, Note, from_stdin
from windlass.core.errors import DataError, nearest
from windlass.data import folders, tables
from windlass.data.column_groups import by_names, columns_of
from windlass.data.delimited import Numbered
from windlass.data.examples import Value
from windlass.data.files import NAME_ENCODING, STDIN, is_empty, lines, repaired, stdin_lines, suffix, undecoded
from windlass.data.findings import Finding, Findings
from windlass.data.readers import DataOptions, in_its_encoding
from windlass.data.sheets import MISSING, Column, Given, Sheet
from windlass.data.sides import CellError, SourceSide
from windlass.data.sniff import SAMPLE, find_separator, in_quotes

PORTION = 1000
"""Most inputs that are predicted at once."""
FILES = 64
"""The same of inputs that are files, which take longer."""

T = TypeVar("T")


class Input(NamedTuple):
    """One input: its line, its text as it was given, and its value.

    >>> Input(1, "cat", "cat").line
    1
    """

    line: int
    text: object
    value: Value
    error: str | None = None  # why it cannot be read


def input_options(bundle: Bundle, over: dict[str, Any]) -> DataOptions:
    """Return how inputs are read: the columns of the training data, overridden by flags; there is no target.

    >>> from windlass.data import Sides
    >>> from windlass.recipe import Recipe
    >>> input_options(Bundle.new(Recipe(), Sides.tiny()), {"source": "2"}).source
    2
    """
    anew: dict[str, Any] = dict.fromkeys(("target", "alignment", "encoding"))
    anew |= dict.fromkeys(("format", "header", "separator"), "auto")
    if bundle.task.turns:
        anew["source"] = None  # a line is a dialog
    return data_options(anew | over, bundle.recipe)


def portions(items: Iterable[T], live: bool, size: int = PORTION) -> Iterator[list[T]]:
    """Yield inputs in portions; `live`, all that are there so far, so that output does not wait for more input.

    >>> [len(part) for part in portions(iter([Input(1, "a", "a"), Input(2, "b", "b")]), live=False)]
    [2]
    """
    if not live:
        each = iter(items)
        while part := list(islice(each, size)):
            yield part
        return
    queue: SimpleQueue[tuple[T] | BaseException | None] = SimpleQueue()

    def fill() -> None:
        try:
            for item in items:
                queue.put((item,))
            queue.put(None)
        except BaseException as error:
            queue.put(error)

    Thread(target=fill, daemon=True).start()
    while True:
        part, last = _ready(queue, size)
        if part:
            yield part
        if isinstance(last, BaseException):
            raise last
        if last is None:
            return


def _ready(
    queue: SimpleQueue[tuple[T] | BaseException | None], size: int
) -> tuple[list[T], tuple[T] | BaseException | None]:
    """All inputs that are there, at least one; and what came last."""
    part: list[T] = []
    item = queue.get()
    while isinstance(item, tuple):
        part += item
        if len(part) == size:
            break
        try:
            item = queue.get_nowait()
        except Empty:
            break
    return part, item


def read_files(
    files: Iterable[str],
    side: SourceSide,
    options: DataOptions,
    asked: Collection[str],
    note: Note,
    strip: bool = True,
    other: str | None = None,
    stdin: Numbered | None = None,
) -> Iterator[Input]:
    """Yield the inputs of several files, each of them one input, a table or lines; of a folder, all inputs in it.

    >>> from windlass.data.sides.picture import PictureSource
    >>> side, (red, *_) = PictureSource.tiny()
    >>> [item.line for item in read_files([red, str(Path(red).parent)], side, DataOptions(), (), print)][:3]
    [1, 1, 2]
    """
    for file in files:
        path = Path(file)
        if side.extensions and file != STDIN and _is_input(path, side, options):
            yield _input(1, file, side.read, side, Path())
        elif side.extensions and path.is_dir():
            line = 0
            for line, inside in enumerate(folders.walk(path, type(side)), 1):
                yield _input(line, str(inside), side.read, side, Path())
            if not line:
                raise DataError(f"{file}: no {side.what}s in this folder: name another, or files")
        else:
            yield from read_inputs(file, side, options, asked, note, strip, other, stdin)


def _is_input(path: Path, side: SourceSide, options: DataOptions) -> bool:
    """Whether a file is an input itself, by its name or, if that tells nothing, by its bytes."""
    if options.format != "auto" or suffix(str(path)) in tables.ENDINGS:
        return False
    if side.holds(path):
        return True
    if not path.is_file() or path.suffix.lower() == ".txt":
        return False
    with path.open("rb") as file:
        start = file.read(4096)
    return b"\0" in start and not start.startswith(b"\x1f\x8b") and start[:2] not in (b"\xff\xfe", b"\xfe\xff")


def read_inputs(
    file: str,
    side: SourceSide,
    options: DataOptions,
    asked: Collection[str],
    note: Note,
    strip: bool = True,
    other: str | None = None,
    stdin: Numbered | None = None,
) -> Iterator[Input]:
    """Yield the inputs of a file, or of stdin for "-"; whatever had to be repaired is noted.

    A table is told by its name, by options that are `asked` for, or by its rows. Lines are stripped of surrounding
    spaces unless `strip` is false, for outputs that refer to character offsets. A text of more characters than the
    model has seen is truncated: it could take hours. A file that is not UTF-8 is read in the `other` encoding. The
    lines of `stdin` may be given, if some have been looked at.

    >>> import pathlib, tempfile
    >>> from windlass.data.sides.text import TextSource
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "reviews.csv"
    >>> _ = path.write_text("id,review,stars\\n1,what fun,5\\n2,what a bore,1\\n")
    >>> options, side = DataOptions(source="review", target="stars"), TextSource.tiny()[0]
    >>> [item.value for item in read_inputs(str(path), side, options, (), print)]
    ['what fun', 'what a bore']
    """
    wanted: dict[str, Column] = {"source": options.source or 1}
    if side.texts > 1:
        wanted["second"] = options.second or 2
    rows: Iterator[Given] | None = None
    numbered: Numbered = iter(())
    if file == STDIN and options.format not in ("parquet", "labelled"):
        given = stdin or stdin_lines(options.encoding, other, note)
        numbered, rows = from_stdin(given, options, wanted, asked, note)
    elif is_empty(file):
        note(f"{file}: the file is empty: there is nothing to predict")
    else:
        options = in_its_encoding(file, options, other, note)
        if asked or suffix(file) in tables.ENDINGS or _tabbed(file, options):
            rows = _from_table(file, options, wanted, asked, note)
        else:
            numbered = lines(file, Findings(), options.encoding)
            if in_quotes([[text] for text in _sample(file, options)])[1]:
                note(f"{file}: every line is in quotes, which are read as text; without them: {WITHOUT_QUOTES}")
    where, folder = ("stdin", Path()) if file == STDIN else (file, Path(file).parent)
    longest = options.max_length if side.textual else None
    for line, text in numbered:
        if undecoded(text):
            note(f"{where}:{line}: not valid UTF-8: invalid bytes are read as unknown; {NAME_ENCODING}")
            text = repaired(text)
        text = str(_cut(f"{where}:{line}", text.strip() if strip else text, longest and longest * side.texts, note))
        if side.texts > 1 and text and text.count("\t") != 1:
            told = f"a pair is two texts separated by one tab, not {text[:60]!r}"
            yield Input(line, text, "", f"{where}:{line}: {told}")
        else:
            yield _input(line, text, side.from_line, side, folder, where)
    for line, cells in rows or ():
        if wrong := _wrong(cells, wanted):
            yield Input(line, "", "", f"{where}:{line}: {wrong}")
            continue
        found = {} if isinstance(cells, Finding) else cells  # a blank line
        texts = [_cut(f"{where}:{line}", _plain(found.get(part)), longest, note) for part in wanted]
        yield _input(line, texts[0] if len(texts) == 1 else tuple(texts), side.read, side, folder, where)


def _wrong(cells: dict[str, object] | Finding, wanted: Mapping[str, Column]) -> str | None:
    """What makes a row unusable; a blank line is a blank input."""
    if isinstance(cells, Finding):
        hint = f"; {NAME_ENCODING}" if cells.kind == "invalid UTF-8" else ""
        return None if cells.kind == "blank" else f"{cells.what}{hint}"
    missing = [column for part, column in wanted.items() if cells.get(part, MISSING) is MISSING]
    return f"no column {missing[0]!r} in this row" if missing else None


def _input(
    line: int, given: Any, read: Callable[[Any, Any], Value], side: SourceSide, folder: Path, where: str = ""
) -> Input:
    """An input, with its file found."""
    try:
        return Input(line, given, side.locate(side.options, read(side.options, given), folder))
    except CellError as error:
        return Input(line, given, "", f"{where}:{line}: {error}" if where else str(error))


def _cut(where: str, text: object, longest: int | None, note: Note) -> object:
    if longest is None or not isinstance(text, str) or len(text) <= longest:
        return text
    note(f"{where}: {len(text):,} characters, truncated to {longest:,}")
    return text[:longest]


def _plain(cell: object) -> object:
    if cell is None:
        return ""
    return cell.strip() if isinstance(cell, str) else cell


def _from_table(
    file: str, options: DataOptions, wanted: dict[str, Column], asked: Collection[str], note: Note
) -> Iterator[Given]:
    """The source cells of the rows of a table."""
    options = options.model_copy(update={"source": None, "second": None})
    sheet = tables.sheet(file, options, Findings())
    if sheet.names is None and options.header == "auto" and any(isinstance(column, str) for column in wanted.values()):
        headed = tables.sheet(file, options.model_copy(update={"header": True}), Findings())
        sheet = headed if {*by_names([*wanted.values()], headed.names)} <= {*(headed.names or ())} else sheet
    for text in sheet.notes:
        note(text)
    if sheet.names is None and sheet.width == 1 and "separator" in asked:
        raise DataError(f"{file}: --separator has no use: no line has {options.separator!r}; leave it out")
    if sheet.names is None and sheet.width <= len(wanted) and "source" not in asked:
        wanted = dict(zip(wanted, range(1, len(wanted) + 1), strict=True))  # a table of inputs alone
    if sheet.names != []:  # else no line of a jsonl is an object
        _check_columns(file, sheet, wanted)
    return sheet.rows(wanted)


def _check_columns(file: str, sheet: Sheet, wanted: dict[str, Column]) -> None:
    for column in (column for chosen in wanted.values() for column in columns_of(chosen, sheet.names)):
        if sheet.names is None and isinstance(column, str):
            raise DataError(f"{file}: no header, so no column is called {column!r}: choose a number by --source")
        if isinstance(column, int) and column > sheet.width:
            raise DataError(f"{file}: no column {column}, which the model reads: choose another by --source")
        if isinstance(column, str) and sheet.names is not None and column not in sheet.names:
            raise DataError(f"{file}: no column is called {column!r}; {nearest(column, sheet.names, ordered=True)}")


def _tabbed(file: str, options: DataOptions) -> bool:
    if options.format not in ("auto", "tsv", "csv"):
        return False
    separator, share = find_separator(_sample(file, options), "\t")
    return separator == "\t" and share >= 0.9


def _sample(file: str, options: DataOptions) -> list[str]:
    return [text for _, text in islice(lines(file, Findings(), options.encoding), SAMPLE)]
