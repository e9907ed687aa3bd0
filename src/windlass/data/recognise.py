"""Recognise a task and the columns of its data from what the columns hold and what they are called.

Where two readings are as likely, nothing is guessed: the error names both and how to choose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from windlass.core.errors import DataError, nearest
from windlass.core.wording import counted
from windlass.data.column_groups import columns_of
from windlass.data.column_sample import ASIDE, ColumnSample, Recognised
from windlass.data.recognise_sounds import phonemes, sound_columns, transcribes
from windlass.data.recognise_source import (
    FILE_TASKS,
    MOST,
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
from windlass.data.recognise_tags import glosses, has_tags, tag_columns, tags_in
from windlass.data.sheets import Column
from windlass.data.sides import SOURCES
from windlass.data.sniff import SECOND_NAMES, SOURCE_NAMES, TARGET_NAMES, is_number

LONG = 150
"""Words of a text from which it is read as a document, sentence by sentence."""
SENTENCE = 4
"""Words of a text from which it is taken for a sentence."""


def _chosen(columns: Sequence[ColumnSample], column: Column, where: str) -> list[ColumnSample]:
    """The column that is chosen, or the several that are chosen as one."""
    for one in columns:
        if column in (one.name, one.number):
            if one.looks == "object":
                raise _of_objects(one, where)
            return [replace(one, taken=True)]
    parts = columns_of(column, [one.name or "" for one in columns])
    if len(parts) > 1:
        return [one for part in parts for one in _chosen(columns, part, where)]
    names = [str(one.column) for one in columns]
    if isinstance(column, int):
        raise DataError(f"{where}: no column {column}; there are {len(names)}: {', '.join(names[:MOST])}")
    raise DataError(f"{where}: no column is called {column!r}; {nearest(column, names, ordered=True)}")


def _of_objects(column: ColumnSample, where: str) -> DataError:
    keys = ", ".join(column.keys[:5]) + (" ..." if len(column.keys) > 5 else "")
    return DataError(
        f"{where}: {column.called} holds objects with the keys {keys}, neither text nor labels: write the one that you "
        f"want, such as {column.keys[0]!r}, into a column of its own"
    )


def _own(
    columns: Sequence[ColumnSample], chosen: Mapping[str, Column], where: str
) -> tuple[dict[str, ColumnSample], list[ColumnSample]]:
    """The columns that are chosen, by part; and all columns, with these marked as taken."""
    if not {"source", "target"} <= {*chosen}:
        _check_names([c for c in columns if c.looks not in ASIDE], where)
    own, several = dict[str, ColumnSample](), list[ColumnSample]()
    for part, column in chosen.items():
        columns_there = _chosen(columns, column, where)
        own[part] = columns_there[0] if len(columns_there) == 1 else _as_one(columns_there, part, where)
        several += columns_there[1:] and columns_there
    taken = {c.number: c for c in own.values() if not c.several}
    rest = [taken.get(c.number, c) for c in columns if c.number not in {one.number for one in several}]
    return own, [*rest, *(c for c in own.values() if c.several)]


def _check_names(columns: Sequence[ColumnSample], where: str) -> None:
    names = Counter(column.name for column in columns if column.name)
    if twice := [name for name, count in names.items() if count > 1]:
        raise DataError(f"{where}: {names[twice[0]]} columns are called {twice[0]!r}: rename all but one")


def _as_one(columns: Sequence[ColumnSample], part: str, where: str) -> ColumnSample:
    try:
        return replace(merged(columns, part), taken=True)
    except DataError as error:
        raise DataError(f"{where}: {error}") from None


def _usable(columns: Sequence[ColumnSample], own: Mapping[str, ColumnSample]) -> list[ColumnSample]:
    return [c for c in columns if c.looks not in ASIDE or c in own.values()]


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
    own, columns = _own(columns, chosen or {}, where)
    if columns and not columns[0].cells:
        raise DataError(f"{where}: the table has no rows: give at least one example")
    if len(_usable(columns, own)) < 2:  # dates that are texts are to be read or written
        columns = [replace(c, taken=True) if c.looks == "date" and not c.dates else c for c in columns]
    columns = as_vector(columns, own)
    usable = _usable(columns, own)
    free = [c for c in usable if c not in own.values()]
    if found := of_files(columns, own, usable, where):
        return found
    seconds = [own["second"]] if "second" in own else by_name(free, SECOND_NAMES)
    if own and "second" not in own and {"source", "target"} <= {*own}:
        seconds = []
    firsts = [own["source"]] if "source" in own else [c for c in by_name(free, SOURCE_NAMES) if c not in seconds]
    named = [own["target"]] if "target" in own else [c for c in by_name(free, TARGET_NAMES) if c not in seconds]
    targets = named or [c for c in usable if c.looks in ("label", "labels", "number") and c not in firsts]
    if targets and not named:
        sounds = [c for c in sound_columns(usable) if c not in (*firsts, *seconds, *targets)]
        targets = sounds if "source" in own and len(sounds) == 1 else [*sounds, *targets]
    rivals = tuple(c.column for c in free if c.looks in ("label", "labels") and c not in (*firsts, *seconds, *targets))
    texts = [c for c in usable if c in firsts or (c.looks in ("text", "list", "unclear") and c not in targets)]
    first = [c for c in texts if c in firsts] or [c for c in texts if c not in seconds]
    if targets and len(seconds) == 1 and seconds[0] in texts and first:
        found = _answered([first[0], seconds[0]], only(targets, where), where)
        return replace(found, rivals=() if "target" in own else rivals)
    if not targets and len(texts) == 2:
        source = min(first or texts, key=lambda c: (c.sets, c.numbers))
        return _answered([source], next(c for c in texts if c is not source), where)
    if not targets or not (first or len(usable) > 1):
        if len(texts) > 2:
            raise choose([c for c in texts if c not in own.values()], where, own)
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
    target = only(targets, where)
    sources = first or [c for c in usable if c is not target]  # short inputs may repeat, as words and their gender
    if len(sources) == 2 and not named and target.looks in ("label", "number"):
        raise _two_readings(sources, target, where)
    if len(sources) > 1:
        raise choose(sources, where, {"target": target} if named else own)
    if target.looks == "text":
        others = (c for c in texts if c not in (*sources, *seconds, target))
        rivals += tuple(c.column for c in others if c.looks == "text" and glosses(sources[0], c))
    return replace(_answered(sources, target, where), rivals=() if "target" in own else rivals)


def likeliest(
    columns: Sequence[ColumnSample], chosen: Mapping[str, Column] | None = None, answers: Collection[Column] = ()
) -> tuple[ColumnSample, ColumnSample]:
    """The source and the target to suggest first for a table, of two columns and more, where they are not clear.

    One of them may be chosen; a target is one of the `answers`, if there are any.

    >>> numbers = ColumnSample(1, "Nr.", [str(n) for n in range(20)])
    >>> words = ColumnSample(2, "Wort", [f"{a}a{b}o" for a in "ptkb" for b in "mnlrs"])
    >>> sounds = ColumnSample(3, "Laute", [" ".join(word) for word in words.cells])
    >>> [column.column for column in likeliest([numbers, words, sounds])]
    ['Wort', 'Laute']
    """
    usable = [c for c in columns if c.looks not in ASIDE]
    own = {part: c for part, column in (chosen or {}).items() for c in columns if column in (c.name, c.number)}
    targets = [own["target"]] if "target" in own else [c for name in answers for c in usable if c.column == name]
    targets += [*by_name(usable, TARGET_NAMES), *sound_columns(usable)]
    texts = [c for c in usable if c.looks in ("text", "list", "unclear", "file")]
    sources = [own["source"]] if "source" in own else [*by_name(usable, SOURCE_NAMES), *texts, *usable, *columns]
    source = next((c for c in sources if c not in targets[:1]), sources[0])
    others = sorted(usable, key=lambda c: c.blank)
    return source, next(c for c in (*targets, *texts, *others, *columns) if c is not source)


_WANTED = {
    "label": ("label", "unclear", "number"),
    "labels": ("labels", "label", "list"),
    "number": ("number", "label"),
}
"""What targets look like by their kind, the likeliest first; the others are texts."""


def columns_for(
    task_target: str,
    texts: int,
    columns: Sequence[ColumnSample],
    source: str = "text",
    chosen: Mapping[str, Column] | None = None,
    where: str = "data",
) -> tuple[dict[str, Column], tuple[Column, ...]]:
    """Return the columns for a task that is known: its kinds of target and source, and how many texts the source has.

    Columns that are chosen stay; if it is not clear which belongs to them, that is an error. Beside them come others of
    labels or tags that could be the target too.

    >>> reviews = ColumnSample(2, None, [f"{n} stars would be too many" for n in range(40)])
    >>> columns_for("label", 1, [ColumnSample(1, None, ["bad", "good"] * 20), reviews])
    ({'source': 2, 'target': 1}, ())
    >>> words = ColumnSample(1, "word", [f"word{n}" for n in range(40)])
    >>> kinds = [ColumnSample(n, name, ["N", "V"] * 20) for n, name in enumerate(("pos", "class"), 2)]
    >>> columns_for("label", 1, [words, *kinds])
    ({'source': 'word', 'target': 'pos'}, ('class',))
    """
    own, columns = _own(columns, chosen or {}, where)
    columns = as_vector(columns, own) if source == "numbers" else columns
    files = [] if "source" in own else _files(columns, source, own)
    firsts = [own["source"]] if "source" in own else files
    others = [c for c in columns if c not in (*firsts, *own.values())]
    usable = [c for c in others if c.looks not in (*ASIDE, "file")]
    names = QUESTION_NAMES if source == "question" else SECOND_NAMES
    seconds = [own["second"]] if "second" in own else by_name(usable, names)
    free = [c for c in usable if c not in seconds] if source == "question" else usable
    answers = [own["target"]] if "target" in own else _answers(task_target, free, seconds, firsts, texts)
    if "source" in own:
        answers = [_target(answers or free, where, own, task_target)]
    target = (answers or (free if files else []))[:1]
    firsts = firsts or _sources(target, answers, usable or others, texts, where, own)
    if not target or not firsts:
        return {}, ()
    found = {"source": firsts[0].column, "target": target[0].column}
    if texts > 1 and not (files and not seconds):
        rest = [*(c for c in seconds if c is not firsts[0]), *firsts[1:], *(c for c in usable if c not in answers)]
        found |= {"second": rest[0].column} if rest else {}
    several = task_target in ("label", "labels", "tags")
    return found, tuple(c.column for c in answers[1:] if several and c.column not in found.values())


def _files(columns: Sequence[ColumnSample], source: str, own: Mapping[str, ColumnSample]) -> list[ColumnSample]:
    """The column of a source that files or numbers hold."""
    kind = "picture" if source == "question" else source
    if kind not in FILE_TASKS:
        return []
    free = [c for c in columns if c not in own.values()]
    there = [c for c in free if c.files == kind or (kind == "numbers" and c.numbers)]
    return (there or [c for c in free if c.named_files == kind])[:1]


def _answers(
    task_target: str,
    usable: Sequence[ColumnSample],
    seconds: Sequence[ColumnSample],
    sources: Sequence[ColumnSample],
    texts: int,
) -> list[ColumnSample]:
    """The columns that could be the target, with this many `texts` before it unless the source is known."""
    named = [c for c in by_name(usable, TARGET_NAMES) if c not in seconds]
    if task_target == "tags":
        tags = tag_columns([c for c in usable if c not in seconds], next(iter(sources), None))
        named = [c for c in tags if c in named] or tags or named
    suited = [c for looks in _WANTED.get(task_target, ("text", "list")) for c in usable if c.looks == looks]
    if task_target not in _WANTED:
        return named or suited[0 if sources else texts :]
    return [c for c in suited if c in named] or [c for c in suited if c.looks == suited[0].looks] or named


def _target(
    answers: Sequence[ColumnSample], where: str, own: Mapping[str, ColumnSample], task_target: str
) -> ColumnSample:
    """The only column that can be the target of a source that was chosen."""
    if not answers:
        raise DataError(f"{where}: no column for the target; choose one with --target")
    if len(answers) > 1 and task_target not in (*_WANTED, "tags"):
        raise choose(answers, where, own)
    return only(answers, where)


def _sources(
    target: Sequence[ColumnSample],
    answers: Sequence[ColumnSample],
    usable: Sequence[ColumnSample],
    texts: int,
    where: str,
    own: Mapping[str, ColumnSample],
) -> list[ColumnSample]:
    """The columns of texts for a target, the likeliest first; none if there are too few."""
    rest = [c for c in usable if c not in answers] or [c for c in usable if c not in target]
    named = by_name(rest, SOURCE_NAMES)

    def rank(column: ColumnSample) -> tuple[bool, bool]:
        return column.looks not in ("text", "list", "unclear"), column not in named

    sources = sorted(rest, key=rank)
    if own and texts == 1 and len(alike := [c for c in sources if rank(c) == rank(sources[0])]) > 1:
        raise choose(alike, where, own)
    if own and len(sources) < texts:
        raise DataError(f"{where}: no column for the source; choose one with --source")
    return sources if len(sources) >= texts else []


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
        labels = f"{target.holds} {kinds} label{'s' if kinds > 1 else ''} ({most_common(target)})"
        if pair:
            return Recognised("entail", columns, f"{labels}, for pairs of texts", ("text",))
        if long:
            return Recognised("classify-document", columns, f"{labels}, for texts of some {sources[0].words:.0f} words")
        numbers = ("regress",) if all(map(is_number, target.counts)) else ()
        return Recognised("classify", columns, labels, (*numbers, "text"))
    if target.looks == "number":
        task = "similarity" if pair else "regress"
        return Recognised(
            task, columns, f"{target.holds} numbers, {kinds:,} different", ("entail" if pair else "classify",)
        )
    if target.looks == "labels" and not pair:
        return Recognised(
            "multilabel", columns, f"{target.holds} sets of labels, separated by commas", ("classify", "text")
        )
    tagged = not pair and has_tags(sources[0], target)
    if target.sets and not pair and not tagged:
        what = "0 or 1, a label each" if target.several else "lists of labels"
        return Recognised("multilabel", columns, f"{target.holds} {what}", () if target.several else ("text",))
    if pair:
        raise DataError(f"{where}: {target.called} is neither a label nor a number: name --task, --source and --target")
    if tagged:
        document = sources[0].lists and sources[0].of_texts
        part, task = ("sentence", "tag-document") if document else ("word", "tag")
        reason = f"{target.called} has a tag for every {part} of {sources[0].called}, {len(tags_in(target))} different"
        return Recognised(task, columns, reason, () if sources[0].lists else ("text",))
    if target.numbers:
        raise DataError(
            f"{where}: {target.holds} lists of numbers, but not one for every word of {sources[0].called}: if "
            f"these are labels, add --task multilabel; for tags, give every word one"
        )
    if sources[0].lists:
        raise DataError(
            f"{where}: {sources[0].holds} lists, and {target.called} neither a tag for every word nor labels: "
            f"join each list to one text, or name --task"
        )
    reason = f"{target.holds} texts, {kinds:,} different in {counted(many, 'row')}"
    if sources[0].words == 1 and phonemes(target):
        return Recognised("pronounce", columns, f"{reason}, which look like phonemes", ("text",))
    if sources[0].words == 1 and transcribes(target, sources[0]):
        return Recognised("pronounce", columns, f"{reason}, which look like transcriptions", ("text", "transliterate"))
    others = ("classify",) if 2 * kinds <= many else _writers(sources[0].words, target.words)
    others += ("tag",) if glosses(sources[0], target) else ()
    return Recognised("text", columns, reason, others)


def _writers(source: float, target: float) -> tuple[str, ...]:
    """The tasks that suit sources and targets of this mean length in words, beside `text`."""
    if source < SENTENCE or target < SENTENCE:
        return ()
    return ("summarise",) if source >= 3 * target else ("translate",)


def _two_readings(sources: Sequence[ColumnSample], answer: ColumnSample, where: str) -> DataError:
    first, second = (c.column for c in sources)
    task, single = ("similarity", "regress") if answer.looks == "number" else ("entail", "classify")
    return DataError(
        f"{where}: {sources[0].called} and {sources[1].called} both hold text, beside {answer.called} with "
        f"{'numbers' if answer.looks == 'number' else 'labels'}: for pairs of texts add --task {task}; for one of them "
        f"add --task {single} --source {first}, or --source {second}"
    )
