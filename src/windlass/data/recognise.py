"""Recognise a task and the columns of its data from what the columns hold and what they are called.

Where two readings are as likely, nothing is guessed: the error names both and how to choose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from windlass.core.errors import DataError, nearest
from windlass.data.column_groups import columns_of
from windlass.data.column_sample import ColumnSample, Recognised
from windlass.data.examples import as_text
from windlass.data.recognise_source import (
    FILE_TASKS,
    QUESTION_NAMES,
    as_vector,
    by_name,
    choose,
    merged,
    most_common,
    of_files,
    only,
    unclear,
)
from windlass.data.sides import SOURCES
from windlass.data.sniff import SECOND_NAMES, SOURCE_NAMES, TARGET_NAMES, is_number
from windlass.data.tables import MISSING, Column

LONG = 150
"""Words of a text from which it is read as a document, sentence by sentence."""


def _chosen(columns: Sequence[ColumnSample], column: Column, where: str) -> ColumnSample:
    for one in columns:
        if column in (one.name, one.number):
            return one
    parts = columns_of(column, [one.name or "" for one in columns])
    if len(parts) > 1:
        return merged([_chosen(columns, part, where) for part in parts])
    names = [str(one.column) for one in columns]
    raise DataError(f"{where}: no column {column!r}; {nearest(str(column), names)}")


def recognise(
    columns: Sequence[ColumnSample], where: str = "data", chosen: Mapping[str, Column] | None = None
) -> Recognised:
    """Recognise the task of a table, some columns of which may be chosen.

    >>> reviews = ColumnSample(1, None, [f"{n} stars would be too many" for n in range(40)])
    >>> opinions = ColumnSample(2, None, ["bad", "good"] * 20)
    >>> found = recognise([opinions, reviews])
    >>> found.task, dict(found.data), found.reason
    ('classify', {'source': 1, 'target': 2}, 'column 2 holds 2 labels (bad 20, good 20)')
    """
    own = {part: _chosen(columns, column, where) for part, column in (chosen or {}).items()}
    columns = as_vector([*columns, *(c for c in own.values() if c.several)], own)
    free = [c for c in columns if c.looks not in ("nothing", "id", "other", "links") and c not in own.values()]
    usable = [c for c in columns if c in free or c in own.values()]
    if found := of_files(columns, own, usable, where):
        return found
    seconds = [own["second"]] if "second" in own else by_name(free, SECOND_NAMES)
    if own and "second" not in own and {"source", "target"} <= {*own}:
        seconds = []
    firsts = [own["source"]] if "source" in own else [c for c in by_name(free, SOURCE_NAMES) if c not in seconds]
    named = [own["target"]] if "target" in own else [c for c in by_name(free, TARGET_NAMES) if c not in seconds]
    targets = named or [c for c in usable if c.looks in ("label", "labels", "number") and c not in firsts]
    texts = [c for c in usable if c in firsts or (c.looks in ("text", "list", "unclear") and c not in targets)]
    first = [c for c in texts if c in firsts] or [c for c in texts if c not in seconds]
    if targets and len(seconds) == 1 and seconds[0] in texts and first:
        return _answered([first[0], seconds[0]], only(targets, where, texts), where)
    if not targets and len(texts) == 2:
        source = (first or texts)[0]
        return _answered([source], next(c for c in texts if c is not source), where)
    if not targets or not (first or len(usable) > 1):
        if len(texts) > 2:
            raise choose(texts, [], where)
        what = f"only {usable[0].called} holds text" if usable else "no column holds text"
        for lost in columns:
            if lost.named_files and lost.folder is not None:
                raise DataError(
                    f"{where}: {lost.called} names {SOURCES[lost.named_files].what}s, but most are not there, such as "
                    f"{lost.folder / lost.texts[0]}: names must be relative to the folder of the table"
                )
        raise DataError(
            f"{where}: {what}, and a model needs a source and a target; for a language model give plain text and add "
            f"--task lm"
        )
    target = only(targets, where, texts)
    sources = first or [c for c in usable if c is not target]  # short inputs may repeat, as words and their gender
    if len(sources) == 2 and not named and target.looks in ("label", "number"):
        raise _two_readings(sources, target, where)
    if len(sources) > 1:
        raise choose(sources, [], where)
    return _answered(sources, target, where)


def columns_for(
    task_target: str, texts: int, columns: Sequence[ColumnSample], source: str = "text"
) -> dict[str, Column]:
    """Return the columns for a task that is known: its kinds of target and source, and how many texts the source has.

    >>> reviews = ColumnSample(2, None, [f"{n} stars would be too many" for n in range(40)])
    >>> columns_for("label", 1, [ColumnSample(1, None, ["bad", "good"] * 20), reviews])
    {'source': 2, 'target': 1}
    """
    wanted = {
        "label": ("label", "unclear", "number"),
        "labels": ("labels", "label", "list"),
        "number": ("number", "label"),
    }
    inputs: list[ColumnSample] = []
    columns = as_vector(columns, {}) if source == "numbers" else columns
    kind = "picture" if source == "question" else source
    if kind in FILE_TASKS:
        inputs = [c for c in columns if c.files == kind or (kind == "numbers" and c.numbers)]
        inputs = (inputs or [c for c in columns if c.named_files == kind])[:1]
    usable = [c for c in columns if c.looks not in ("nothing", "file", "id", "other", "links") and c not in inputs]
    questions = by_name(usable, QUESTION_NAMES)[:1] if source == "question" and inputs else []
    usable = [c for c in usable if c not in questions]
    seconds = by_name(usable, SECOND_NAMES)
    named = [c for c in by_name(usable, TARGET_NAMES) if c not in seconds]
    suited = [c for kind in wanted.get(task_target, ("text", "list")) for c in usable if c.looks == kind]
    if task_target in wanted:
        answers = [c for c in suited if c in named] or [c for c in suited if c.looks == suited[0].looks] or named
    else:
        answers = named or suited[0 if inputs else texts :][:1]
    if inputs:
        answers = answers or usable
        asked = {"second": questions[0].column} if questions else {}
        return {"source": inputs[0].column, **asked, "target": answers[0].column} if answers else {}
    if not answers:
        return {}
    target = answers[0]
    rest = [c for c in usable if c is not target and c not in answers] or [c for c in usable if c is not target]
    sources = sorted(rest, key=lambda c: (c.looks not in ("text", "list"), c not in by_name(rest, SOURCE_NAMES)))
    if len(sources) < texts:
        return {}
    first = sources[0]
    found: dict[str, Column] = {"source": first.column, "target": target.column}
    if texts > 1:
        found["second"] = next((c for c in seconds if c is not first), sources[1]).column
    return found


def _answered(sources: Sequence[ColumnSample], target: ColumnSample, where: str) -> Recognised:
    """The task of a source, of one text or of two, and a target."""
    columns: dict[str, Column] = {"source": sources[0].column, "target": target.column}
    if len(sources) > 1:
        columns["second"] = sources[1].column
    pair, long = len(sources) > 1, sources[0].words >= LONG
    kinds, many = len(target.counts), len(target.texts)
    if target.looks == "unclear":
        raise unclear(target, where)
    if target.looks == "label":
        labels = f"{target.called} holds {kinds} label{'s' if kinds > 1 else ''} ({most_common(target)})"
        if pair:
            return Recognised("entail", columns, f"{labels}, for pairs of texts", ("text",))
        if long:
            return Recognised("classify-document", columns, f"{labels}, for texts of some {sources[0].words:.0f} words")
        numbers = ("regress",) if all(map(is_number, target.counts)) else ()
        return Recognised("classify", columns, labels, (*numbers, "text"))
    if target.looks == "number":
        task = "similarity" if pair else "regress"
        return Recognised(
            task, columns, f"{target.called} holds numbers, {kinds} different ones", ("entail" if pair else "classify",)
        )
    if target.looks == "labels" and not pair:
        return Recognised(
            "multilabel", columns, f"{target.called} holds sets of labels, separated by commas", ("classify", "text")
        )
    if pair:
        raise DataError(f"{where}: {target.called} is neither a label nor a number: name --task, --source and --target")
    if _tags(sources[0], target):
        tags = {tag for text in target.texts for tag in text.split()}
        reason = f"{target.called} has a tag for every word of {sources[0].called}, {len(tags)} different ones"
        return Recognised("tag", columns, reason, ("text",))
    reason = f"{target.called} holds texts, {kinds:,} different ones in {many:,} rows"
    return Recognised("text", columns, reason, ("classify",))


def _tags(source: ColumnSample, target: ColumnSample) -> bool:
    """Whether a target has as many tags, of a small set, as its source has words."""
    pairs = [(as_text(s).split(), as_text(t).split()) for s, t in zip(source.cells, target.cells, strict=True)
             if s not in (None, MISSING) and t not in (None, MISSING)]  # fmt: skip
    alike = sum(len(words) == len(tags) for words, tags in pairs)
    tags = Counter(tag for _, own in pairs for tag in own)
    words = Counter(word for own, _ in pairs for word in own)
    return alike >= 0.98 * len(pairs) and source.words > 1 and len(tags) <= min(200, len(words) / 2, tags.total() / 10)


def _two_readings(sources: Sequence[ColumnSample], answer: ColumnSample, where: str) -> DataError:
    first, second = (c.column for c in sources)
    task, single = ("similarity", "regress") if answer.looks == "number" else ("entail", "classify")
    return DataError(
        f"{where}: {sources[0].called} and {sources[1].called} both hold text, beside {answer.called} with "
        f"{'numbers' if answer.looks == 'number' else 'labels'}: for pairs of texts add --task {task}; for one of them "
        f"add --task {single} --source {first}, or --source {second}"
    )
