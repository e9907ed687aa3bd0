"""Recognise what a file holds: the columns of a table, tagged words, trees, dialogs, labelled lines or running text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from statistics import mean

from windlass.core.errors import DataError
from windlass.data import conll, folders, tables, treebank
from windlass.data.column_groups import columns_of
from windlass.data.column_sample import ColumnSample, Recognised
from windlass.data.delimited import FASTTEXT
from windlass.data.files import lines, suffix
from windlass.data.findings import Findings
from windlass.data.readers import DataOptions, DataPath
from windlass.data.recognise import columns_for, recognise
from windlass.data.recognise_source import FILE_TASKS
from windlass.data.sheets import MISSING, Column
from windlass.data.sides import SOURCES, SideOptions
from windlass.data.sniff import SAMPLE, find_separator

TURNS = ("turns", "dialog", "dialogue", "conversation", "messages", "utterances")
"""Keys of the turns of a dialog."""
MOST_COLUMNS = 1000
"""Columns of a table that are looked at to recognise its task."""
IN_ORDER: tuple[tuple[Column, ...], ...] = ((), (1, 2), (1, 2, 3))
"""The columns of a table without names, where nothing was chosen."""
_MARKER = re.compile(r"(\\[a-z]\w{0,9})(\s|$)")  # of a field in a Toolbox file
_TREE = re.compile(r"\(\s*(\(\s*)?[^\s()]+[\s(]")


class OtherFormError(DataError):
    """A file is of a form that no reader knows, and reading it as a table or as text would mislead.

    >>> issubclass(OtherFormError, DataError)
    True
    """


def samples(path: DataPath, options: DataOptions, found: Findings | None = None) -> list[ColumnSample]:
    """Return the columns of a table or of line-parallel files, some rows of them. What is wrong in them is `found`.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "words.csv"
    >>> _ = path.write_text("word,ipa\\ncat,kæt\\ndog,dɒɡ\\n")
    >>> [(column.name, column.texts) for column in samples(path, DataOptions())]
    [('word', ['cat', 'dog']), ('ipa', ['kæt', 'dɒɡ'])]
    """
    paths = tables.several(path)
    if len(paths) > 1:
        each = [[line for _, line in islice(lines(name, Findings(), options.encoding), SAMPLE)] for name in paths]
        shortest = min(map(len, each))
        return [ColumnSample(number, None, cells[:shortest]) for number, cells in enumerate(each[:2], 1)]
    sheet = tables.sheet(paths[0], options, Findings() if found is None else found)
    names: list[str | None] = [*sheet.names] if sheet.names else [None] * sheet.width
    if len(names) > MOST_COLUMNS:
        raise DataError(
            f"{paths[0]}: {len(names):,} columns are too many to tell what they hold: check the separator, or name "
            "--task, --source and --target"
        )
    columns: dict[str, Column] = {str(number): number for number in range(1, len(names) + 1)}
    if sheet.format == "labelled":
        columns = {"source": 1, "target": 2}
    rows = [cells for _, cells in islice(sheet.read(columns), SAMPLE)]
    keys = list(columns)
    return [
        ColumnSample(number, name or None, [row[key] for row in rows], Path(paths[0]).parent)
        for number, (name, key) in enumerate(zip(names, keys, strict=True), 1)
    ]


def recognise_file(path: DataPath, options: DataOptions) -> Recognised:
    """Recognise the task of a file, or of a folder whose folders are labels.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "opinions.txt"
    >>> _ = path.write_text("__label__good what fun\\n__label__bad what a bore\\n" * 20)
    >>> recognise_file(path, DataOptions())
    Recognised(task='classify', data={'format': 'labelled'}, reason='its lines begin with __label__', alternatives=())
    """
    if folders.is_folder(path):
        return _recognise_folder(Path(str(path)))
    paths = tables.several(path)
    name = paths[0]
    if len(paths) > 1:
        return replace(recognise(samples(path, options), ",".join(paths)), data={})
    ending = suffix(name)
    if options.format in ("conll", "conllu") or (options.format == "auto" and conll.form(name, "auto", SideOptions())):
        return Recognised("tag", {}, "it has a word and its tag a line")
    if treebank.is_treebank(name, options.format):
        return Recognised("parse", {}, "it holds trees in brackets", ("unparse",))
    if options.format == "auto" and ending not in tables.ENDINGS:
        found = _recognise_text([line for _, line in islice(lines(name, Findings(), options.encoding), SAMPLE)], name)
        if found is not None:
            return found
    if options.format == "labelled":
        return Recognised("classify", {}, "its lines are a label and a text")
    columns = samples(path, options)
    if (turns := _turns(columns)) is not None:
        return Recognised("reply", {"source": turns.column}, f"{turns.called} holds the turns of dialogs")
    if ending in (".tsv", ".tab") and _ragged(columns):
        return Recognised("reply", {}, "its lines have as many columns as a dialog has turns", ("text",))
    return recognise(columns, name, chosen(options))


def chosen(options: DataOptions) -> dict[str, Column]:
    """Return the columns that a user has chosen.

    >>> chosen(DataOptions(target="ipa"))
    {'target': 'ipa'}
    """
    columns = {"source": options.source, "second": options.second, "target": options.target}
    return {part: column for part, column in columns.items() if column is not None}


def known_columns(
    path: DataPath, options: DataOptions, sides: SideOptions, target: str
) -> tuple[dict[str, Column], tuple[Column, ...]]:
    """Return the columns of a table for a task that is known, and others that could be the target too.

    There are none where the file has no columns to choose.

    >>> known_columns("a.conllu", DataOptions(), SideOptions(source="words", target="tags"), "tags")
    ({}, ())
    """
    name, *_ = tables.several(path)
    if not _is_table(path, options) or conll.form(name, options.format, sides):
        return {}, ()
    columns, texts = samples(path, options), sides.source_side.texts
    return columns_for(target, texts, columns, sides.source.kind, chosen(options), name)


def _is_table(path: DataPath, options: DataOptions) -> bool:
    """Whether a file has columns to choose from; so do words and tags in columns."""
    paths = tables.several(path)
    other = options.format in ("parallel", "trees", "labelled") or folders.is_folder(path)
    return not (len(paths) > 1 or other or treebank.is_treebank(paths[0], options.format))


def columns_there(path: DataPath, options: DataOptions, sides: SideOptions, columns: Mapping[str, Column]) -> bool:
    """Whether a file has some columns, and they are of use: a file of another form has none to choose.

    >>> columns_there("a.en,a.de", DataOptions(), SideOptions(), {"source": 2})
    False
    """
    name, *_ = tables.several(path)
    if not _is_table(path, options):
        return False
    if conll.form(name, options.format, sides):
        return True
    sheet = tables.sheet(name, options, Findings())
    if sheet.names and tuple(columns.values()) in IN_ORDER:
        return False  # these have names
    return has_columns(columns, sheet.names, sheet.width)


def has_columns(columns: Mapping[str, Column], names: Sequence[str] | None, width: int) -> bool:
    """Whether a table of some names, or of some width, has all columns.

    >>> has_columns({"source": "word"}, ["word", "ipa"], 2), has_columns({"source": 3}, None, 2)
    (True, False)
    """
    each = [part for column in columns.values() for part in columns_of(column, names)]
    return all(part in (names or ()) if isinstance(part, str) else part <= width for part in each)


def _recognise_folder(folder: Path) -> Recognised:
    if folders.is_model(folder):
        raise DataError(f"{folder}: this is a model or a comparison, no data: name the folder or file of the data")
    kind, counts = folders.kind_of(folder)
    told = ", ".join(f"{label} {count:,}" for label, count in counts.most_common(3))
    what = f"{SOURCES[kind].what}s ({told}{' ...' if len(counts) > 3 else ''})"
    if len(counts) < 2:
        raise DataError(
            f"{folder}: one folder of {what}, and there is nothing to tell apart: add those of other labels"
        )
    if max(counts.values()) == 1:
        raise DataError(
            f"{folder}: its {len(counts)} folders hold one {SOURCES[kind].what} each: put several of every label into "
            "its folder"
        )
    task = FILE_TASKS[kind].label
    frames = kind == "video" and not any(map(SOURCES["video"].extensions.__contains__, _endings(folder)))
    return Recognised(
        task, {}, f"its folders are {len(counts)} labels of {what}", ("classify-picture",) if frames else ()
    )


def _endings(folder: Path) -> set[str]:
    return {path.suffix.lower() for path in folders.walk(folder, SOURCES["video"])}


def _recognise_text(texts: Sequence[str], name: str) -> Recognised | None:
    """What lines hold that are not called a table; None for a table all the same."""
    filled = [text for text in texts if text.strip()]
    if not filled:
        raise DataError(f"{name}: there is nothing in it but blank lines; give a file with at least one example")
    if tables.begins_json(filled[0]):
        return None
    labelled = [text for text in filled if FASTTEXT in text]
    if len(labelled) > 0.9 * len(filled):
        several = any(text.count(FASTTEXT) > 1 for text in labelled)
        task = "multilabel" if several else "classify"
        return Recognised(task, {"format": "labelled"}, f"its lines begin with {FASTTEXT}")
    whole = "".join(filled)
    if sum(map(bool, map(_TREE.match, filled))) and filled[0].lstrip().startswith("("):
        balance = abs(whole.count("(") - whole.count(")"))
        if balance <= whole.count("(") / 50 and whole.count("(") > 2 * len(filled):
            return Recognised("parse", {"format": "trees"}, "it holds trees in brackets", ("unparse",))
    markers = Counter(match[1] for text in filled if (match := _MARKER.match(text)))
    if len(markers) > 1 and markers.total() >= 0.8 * len(filled) and max(markers.values()) > 1:
        told = ", ".join(marker for marker, _ in markers.most_common(3))
        raise OtherFormError(
            f"{name}: lines begin with backslash markers ({told}): this is a Toolbox (SFM) file; make a table of its "
            "fields, or add --task lm to read it as text"
        )
    form = _word_columns(texts)
    if form is not None:
        reason = "it has a word and its tag a line, and blank lines between sentences"
        return Recognised("tag", {"format": form}, reason)
    if find_separator(filled, "\t")[1] >= 0.9:
        return None
    first = Counter(text.split(" ", 1)[0] for text in filled if " " in text)
    repeated = sum(count for count in first.values() if count > 1)
    if repeated >= 0.98 * len(filled) and 2 <= len(first) <= max(2, len(filled) / 20) and mean(map(len, first)) > 1:
        reason = f"its lines begin with one of {len(first)} labels"
        return Recognised("classify", {"format": "labelled"}, reason, ("lm",))
    return Recognised("lm", {}, "it is running text, with no columns")


def _word_columns(texts: Sequence[str]) -> str | None:
    """The form of words and tags in columns, with blank lines between sentences."""
    plain = [text for text in texts if not text.startswith(("#", "-DOCSTART-"))]
    rows = [text.split("\t") if "\t" in text else text.split() for text in plain if text.strip()]
    blank = sum(not text.strip() for text in plain)
    if not rows or blank < len(rows) / 100 or blank > len(rows) / 1.5:
        return None
    width, most = Counter(map(len, rows)).most_common(1)[0]
    if width < 2 or most < 0.95 * len(rows) or any(len(cell.split()) > 1 for row in rows for cell in row[:2]):
        return None
    if width == 10 and sum(row[0][:1].isdigit() for row in rows) > 0.9 * len(rows):
        return "conllu"
    tags = Counter(row[1] for row in rows if len(row) > 1)
    return "conll" if len(tags) <= max(2, len(rows) / 10) or width > 2 else None


def _turns(columns: Sequence[ColumnSample]) -> ColumnSample | None:
    return next((c for c in columns if c.lists and (c.name or "").lower() in TURNS), None)


def _ragged(columns: Sequence[ColumnSample]) -> bool:
    """Whether rows end at different columns, as dialogs do that have a turn a column."""
    if len(columns) < 4 or not columns[0].cells:
        return False
    filled = [sum(c is not MISSING for c in row) for row in zip(*(c.cells for c in columns), strict=True)]
    _, most = Counter(filled).most_common(1)[0]
    return most < 0.8 * len(filled)
