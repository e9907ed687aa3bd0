"""Recognise the task of a table whose source is files (pictures, clips, sounds, arrays) or numbers."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from windlass.core.errors import DataError, SeveralTargetsError
from windlass.core.wording import counted
from windlass.data.column_groups import group, joined
from windlass.data.column_sample import ASIDE, ColumnSample, Recognised, is_numbers
from windlass.data.recognise_tags import has_tags
from windlass.data.sheets import MISSING, Column
from windlass.data.sides import SOURCES
from windlass.data.sniff import SOURCE_NAMES, TARGET_NAMES, plain_name, two_readings

QUESTION_NAMES = ("question", "query")
"""Columns of questions about pictures."""
WORD_NAMES = ("word", "token", "form")
"""Columns of one word a row."""
MOST = 20
"""Columns that an error names at most."""


class FileTasks(NamedTuple):
    """The tasks of a kind of source that files hold, by what is said of them.

    >>> FILE_TASKS["sound"].text
    'transcribe'
    """

    label: str
    text: str


FILE_TASKS = {
    "picture": FileTasks("classify-picture", "caption"),
    "video": FileTasks("classify-video", "caption-video"),
    "sound": FileTasks("classify-sound", "transcribe"),
    "numbers": FileTasks("classify-numbers", "tag-numbers"),
}


def of_files(
    columns: Sequence[ColumnSample], own: Mapping[str, ColumnSample], usable: Sequence[ColumnSample], where: str
) -> Recognised | None:
    """The task of a table whose source is files or numbers; None if it is another.

    >>> numbers = ColumnSample(1, "series", [[n, 0.5] for n in range(20)])
    >>> states = ColumnSample(2, "state", ["on", "off"] * 10)
    >>> of_files([numbers, states], {}, [numbers, states], "data").task
    'classify-numbers'
    """
    free = [own["source"]] if "source" in own else [c for c in columns if c is not own.get("target")]
    inputs = [c for c in free if c.looks == "file"]
    if not inputs:
        inputs = [c for c in free if c.numbers and plain_name(c.name or "") not in TARGET_NAMES]
        words = [c for c in usable if c.looks == "list" and not c.numbers]
        inputs = [c for c in inputs if not any(has_tags(own, c) for own in words)]
        # Numbers beside a text that is no target are more likely something that is known of the text.
        beside = [c for c in usable if c.looks in ("text", "list") and c not in inputs and c not in own.values()]
        targets = by_name(usable, TARGET_NAMES) or beside[:1]
        texts = [c for c in beside if c not in targets or c in by_name(beside, SOURCE_NAMES)]
        if texts and "source" not in own:
            return None
    if not inputs:
        return None
    if len(inputs) > 1:
        told = ", ".join(repr(c.column) for c in inputs[:MOST])
        raise DataError(f"{where}: several columns could be the source: {told}; choose with --source")
    source, rest = inputs[0], [c for c in usable if c is not inputs[0]]
    kind = source.files or "numbers"
    holds = f"{source.called} names {SOURCES[kind].what}s" if source.files else f"{source.holds} numbers"
    questions = [own["second"]] if "second" in own else by_name(rest, QUESTION_NAMES)
    if kind == "picture" and len(questions) == 1 and questions[0] is not own.get("target"):
        rest = [c for c in rest if c is not questions[0]]
    else:
        questions = []
    answers = [own["target"]] if "target" in own else by_name(rest, TARGET_NAMES) or rest
    if not answers:
        raise DataError(f"{where}: {holds}, but no column holds labels or texts for them; choose one with --target")
    target = only(answers, where)
    chosen: dict[str, Column] = {"source": source.column, "target": target.column}
    if questions:
        reason = f"{holds}, and {questions[0].called} holds questions about them"
        return Recognised("answer", chosen | {"second": questions[0].column}, reason, ("caption", "classify-picture"))
    tasks, kinds = FILE_TASKS[kind], len(target.counts)
    other = ("classify",) if any(c.looks == "text" for c in rest if c is not target) else ()
    if kind == "numbers" and _tags_of_numbers(source, target):
        reason = f"{holds}, and {target.called} a tag for each step"
        return Recognised("tag-numbers", chosen, reason, ("classify-numbers",))
    if target.looks == "label":
        what = f"{kinds} label{'s' if kinds > 1 else ''} ({most_common(target)})"
        others = (*(() if kind == "numbers" else (tasks.text,)), *other)
        return Recognised(tasks.label, chosen, f"{holds}, and {target.holds} {what}", others)
    several = target.looks == "list" and target.of_texts
    if kind != "numbers" and (target.looks == "text" or several):
        what = "several texts each" if several else f"texts, {kinds:,} different"
        return Recognised(tasks.text, chosen, f"{holds}, and {target.holds} {what}", (tasks.label, *other))
    if target.looks == "unclear" and kind != "numbers":
        raise unclear(target, where, *tasks)
    what = {"number": "numbers", "labels": "sets of labels", "list": "lists"}.get(target.looks, "texts")
    task = {"number": "regress", "labels": "multilabel", "list": "multilabel"}.get(target.looks, "text")
    raise DataError(
        f"{where}: {holds}, and {target.holds} {what}: if these are labels, add --task {tasks.label}; otherwise "
        f"write a recipe with task: {task} and source: {kind}"
    )


def as_vector(columns: Sequence[ColumnSample], own: Mapping[str, ColumnSample]) -> Sequence[ColumnSample]:
    """The columns of a table with one number in each and a target beside them: the numbers as one column of vectors.

    >>> sizes = [ColumnSample(n, None, [f"{m}.{n}" for m in range(20)]) for n in (1, 2)]
    >>> [column.column for column in as_vector([*sizes, ColumnSample(3, None, ["cat", "dog"] * 10)], {})]
    ['1-2', 3]
    """
    usable = [c for c in columns if c.looks not in ASIDE or c in own.values()]
    named = [own["target"]] if "target" in own else by_name(usable, TARGET_NAMES)
    targets = named or [c for c in usable if c.looks == "label" and not c.numeric]
    numbers = [c for c in usable if c.numeric and c not in targets]
    if "source" in own or "second" in own or len(targets) != 1 or len(numbers) < 2 or len(numbers) + 1 < len(usable):
        return columns
    return [merged(numbers), targets[0]]


def merged(columns: Sequence[ColumnSample], part: str = "source") -> ColumnSample:
    """Several columns as one `part` of an example.

    >>> merged([ColumnSample(1, "a", ["0.5"]), ColumnSample(2, "b", ["1"])]).cells
    [[0.5, 1.0]]
    """
    labels = [str(column.column) for column in columns] if part == "target" else None
    rows = zip(*(column.cells for column in columns), strict=True)
    cells = [joined([*map(_one_reading, row)], labels) for row in rows]
    name = group([(column.number, column.name) for column in columns])
    return ColumnSample(columns[0].number, name, cells, columns[0].folder, several=True)


def _one_reading(cell: object) -> object:
    """A number for one whose comma may mark thousands, which is refused where the row is read."""
    return cell.replace(",", ".") if isinstance(cell, str) and two_readings(cell.strip()) else cell


def _tags_of_numbers(source: ColumnSample, target: ColumnSample) -> bool:
    """Whether a target has as many tags as its source has vectors."""
    if not source.numbers:
        return target.lists and not target.numbers
    pairs = list(zip(source.cells, target.cells, strict=True))[:200]
    lengths = [(_steps(numbers), tags) for numbers, tags in pairs if tags is not None and tags is not MISSING]
    alike = sum(steps == len(tags if isinstance(tags, list | tuple) else str(tags).split()) for steps, tags in lengths)
    return alike >= 0.98 * len(lengths) and any(steps > 1 for steps, _ in lengths)


def _steps(cell: object) -> int:
    """The vectors of a sequence of them; 0 for one vector."""
    if isinstance(cell, str) and cell.strip().startswith("["):
        cell = json.loads(cell) if is_numbers(cell) else ""
    return len(cell) if isinstance(cell, list | tuple) and cell and isinstance(cell[0], list | tuple) else 0


def by_name(columns: Sequence[ColumnSample], names: Sequence[str]) -> list[ColumnSample]:
    """The columns of some names.

    >>> by_name([ColumnSample(1, "Label", [])], ["label"])[0].number
    1
    """
    return [column for column in columns if plain_name(column.name or "") in names]


def only(answers: Sequence[ColumnSample], where: str) -> ColumnSample:
    """The only column that can be the target; an error if there are several.

    >>> only([ColumnSample(2, "label", [])], "data").number
    2
    """
    if len(answers) > 1:
        tasks = {"label": "a label", "labels": "labels", "number": "a number", "text": "text", "list": "a list"}
        told = ", ".join(f"{c.column!r} ({tasks.get(c.looks, c.looks)})" for c in answers[:MOST])
        names = [c.column for c in answers]
        raise SeveralTargetsError(f"{where}: several columns could be the target: {told}; choose with --target", names)
    return answers[0]


def most_common(labels: ColumnSample) -> str:
    """The most frequent labels of a column, with their counts.

    >>> most_common(ColumnSample(1, None, ["a", "b", "a"]))
    'a 2, b 1'
    """
    told = ", ".join(f"{name} {count}" for name, count in labels.counts.most_common(3))
    return f"{told} ..." if len(labels.counts) > 3 else told


def unclear(column: ColumnSample, where: str, label: str = "classify", text: str = "text") -> DataError:
    """The error where values may be labels or texts.

    >>> str(unclear(ColumnSample(1, None, ["a", "a"]), "data"))
    'data: column 1 has 1 different value in 2 rows: are these labels or texts? Add --task classify or --task text'
    """
    kinds = f"{counted(len(column.counts), 'different value')} in {counted(len(column.texts), 'row')}"
    return DataError(
        f"{where}: {column.called} has {kinds}: are these labels or texts? Add --task {label} or --task {text}"
    )


def choose(texts: Sequence[ColumnSample], where: str, known: Collection[str] = ()) -> DataError:
    """The error where several columns could be the source, or the target, one of which may be known.

    >>> str(choose([ColumnSample(1, "a", []), ColumnSample(2, "b", [])], "data"))
    "data: several columns hold text: 'a', 'b'; choose with --source and --target"
    """
    told = ", ".join(repr(c.column) for c in texts[:MOST]) + (" ..." if len(texts) > MOST else "")
    missing = " and ".join(f"--{part}" for part in ("source", "target") if part not in known)
    rows = next((c for c in texts if c.repeated), None)
    if rows is not None and any(plain_name(c.name or "") in WORD_NAMES and c.words == 1 for c in texts):
        return DataError(
            f"{where}: several columns hold text: {told}; to tag words, a row is a sentence: group the words, and "
            f"their tags, of each {rows.column!r} into lists; otherwise choose with {missing}"
        )
    return DataError(f"{where}: several columns hold text: {told}; choose with {missing}")
