"""Recognise a task and the columns of its data from what the columns hold and what they are called.

Where two readings are as likely, nothing is guessed: the error names both and how to choose.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from statistics import median

from windlass.core.errors import DataError, nearest
from windlass.data.examples import as_text
from windlass.data.sniff import ID_NAMES, OTHER_NAMES, SECOND_NAMES, SOURCE_NAMES, TARGET_NAMES, is_number, plain_name
from windlass.data.tables import MISSING, Column

LONG = 150
"""Words of a text from which it is read as a document, sentence by sentence."""
MOST = 20
"""Columns that an error names at most."""
FEW = 10
"""Rows too few to tell labels from texts."""
_SPLITS = frozenset("train dev test valid validation val".split())
_CODE = re.compile(r"[0-9a-fA-F-]{16,}|https?://\S+|\S+\.(?:jpe?g|png|wav|mp3|mp4)")
_LINKS = re.compile(r"(\d+-\d+)( \d+-\d+)*")
_SEVERAL = re.compile(r"[^,]+(,[^,]+)+")


@dataclass(frozen=True)
class Recognised:
    """A task, the data options that the file needs (columns, or a format), and why.

    >>> Recognised("classify", {"source": "review", "target": "stars"}, "5 labels").data["source"]
    'review'
    """

    task: str
    data: Mapping[str, Column]
    reason: str
    alternatives: tuple[str, ...] = field(default=())  # other tasks that can read these columns


@dataclass(frozen=True)
class ColumnSample:
    """Some cells of a column, and what they look like.

    >>> ColumnSample(2, "label", ["yes", "no"] * 20).looks
    'label'
    """

    number: int  # from 1
    name: str | None
    cells: Sequence[object]

    @property
    def column(self) -> Column:
        """How the column is chosen."""
        return self.name or self.number

    @cached_property
    def texts(self) -> list[str]:
        """The cells that hold anything, as text."""
        values = (cell for cell in self.cells if cell is not None and cell is not MISSING)
        return [text for text in (as_text(value).strip() for value in values) if text]

    @cached_property
    def counts(self) -> Counter[str]:
        """How often each value occurs."""
        return Counter(self.texts)

    @cached_property
    def words(self) -> float:
        """The words of a usual cell."""
        return median(len(text.split()) for text in self.texts) if self.texts else 0

    @cached_property
    def lists(self) -> bool:
        """Whether cells are lists, as JSON and parquet have them."""
        return bool(self.cells) and sum(isinstance(cell, list | tuple) for cell in self.cells) > len(self.cells) / 2

    @property
    def called(self) -> str:
        """Its name, or its number."""
        return f"column {self.column!r}" if self.name else f"column {self.number}"

    @cached_property
    def looks(self) -> str:
        """What the column holds: nothing, id, links, number, label, labels, list, unclear (label or text) or text."""
        texts, name, many = self.texts, plain_name(self.name or ""), len(self.texts)
        if many < len(self.cells) / 2 or not texts:
            return "nothing"
        if self.lists:
            return "list"
        numeric = sum(map(is_number, texts)) >= 0.98 * many
        if name in ID_NAMES or name.endswith("_id") or self._counts_up(numeric) or _mostly(_CODE, texts):
            return "id"
        if name in OTHER_NAMES or set(map(str.lower, self.counts)) <= _SPLITS:
            return "other"
        if sum("-" in text for text in texts) and _mostly(_LINKS, texts):
            return "links"
        if many < FEW and name not in TARGET_NAMES:
            return "text"
        if len(self.counts) == 1:
            return "label" if name in TARGET_NAMES else "other"
        repeated = sum(count for count in self.counts.values() if count > 1) / many
        few = len(self.counts) <= max(2, many / 5)
        if numeric and not (few and len(self.counts) <= 20 and all(t.lstrip("-").isdigit() for t in self.counts)):
            return "number"
        parts = {part.strip() for text in texts for part in text.split(",")}
        if _mostly(_SEVERAL, texts, 0.1) and len(parts) <= max(4, many / 8) and len(parts) < len(self.counts):
            return "labels"
        if repeated >= 0.95 and few and self.words <= 4:
            return "label"
        return "unclear" if repeated > 0.6 and self.words <= 3 and many >= 20 else "text"

    def _counts_up(self, numeric: bool) -> bool:
        if not numeric or len(self.texts) < 5:
            return False
        numbers = [float(text.rstrip("%").replace(",", ".")) for text in self.texts if is_number(text)]
        return {later - earlier for earlier, later in pairwise(numbers)} == {1.0}


def _mostly(pattern: re.Pattern[str], texts: Sequence[str], share: float = 0.95) -> bool:
    return sum(pattern.fullmatch(text) is not None for text in texts) >= share * len(texts)


def _chosen(columns: Sequence[ColumnSample], column: Column, where: str) -> ColumnSample:
    for one in columns:
        if column in (one.name, one.number):
            return one
    names = [str(one.column) for one in columns]
    raise DataError(f"{where}: no column {column!r}; {nearest(str(column), names)}")


def _by_name(columns: Sequence[ColumnSample], names: Sequence[str]) -> list[ColumnSample]:
    return [column for column in columns if plain_name(column.name or "") in names]


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
    free = [c for c in columns if c.looks not in ("nothing", "id", "other", "links") and c not in own.values()]
    usable = [c for c in columns if c in free or c in own.values()]
    seconds = [own["second"]] if "second" in own else _by_name(free, SECOND_NAMES)
    if own and "second" not in own and {"source", "target"} <= {*own}:
        seconds = []
    firsts = [own["source"]] if "source" in own else [c for c in _by_name(free, SOURCE_NAMES) if c not in seconds]
    named = [own["target"]] if "target" in own else [c for c in _by_name(free, TARGET_NAMES) if c not in seconds]
    targets = named or [c for c in usable if c.looks in ("label", "labels", "number") and c not in firsts]
    texts = [c for c in usable if c in firsts or (c.looks in ("text", "list", "unclear") and c not in targets)]
    first = [c for c in texts if c in firsts] or [c for c in texts if c not in seconds]
    if targets and len(seconds) == 1 and seconds[0] in texts and first:
        return _answered([first[0], seconds[0]], _only(targets, where, texts), where)
    if not targets and len(texts) == 2:
        source = (first or texts)[0]
        return _answered([source], next(c for c in texts if c is not source), where)
    if not targets or not (first or len(usable) > 1):
        if len(texts) > 2:
            raise _choose(texts, [], where)
        what = f"only {usable[0].called} holds text" if usable else "no column holds text"
        raise DataError(
            f"{where}: {what}, and a model needs a source and a target; for a language model give plain text and add "
            f"--task lm"
        )
    target = _only(targets, where, texts)
    sources = first or [c for c in usable if c is not target]  # short inputs may repeat, as words and their gender
    if len(sources) == 2 and not named and target.looks in ("label", "number"):
        raise _two_readings(sources, target, where)
    if len(sources) > 1:
        raise _choose(sources, [], where)
    return _answered(sources, target, where)


def columns_for(task_target: str, texts: int, columns: Sequence[ColumnSample]) -> dict[str, Column]:
    """Return the columns for a task that is known: its kind of target, and how many texts its source has.

    >>> reviews = ColumnSample(2, None, [f"{n} stars would be too many" for n in range(40)])
    >>> columns_for("label", 1, [ColumnSample(1, None, ["bad", "good"] * 20), reviews])
    {'source': 2, 'target': 1}
    """
    wanted = {
        "label": ("label", "unclear", "number"),
        "labels": ("labels", "label", "list"),
        "number": ("number", "label"),
    }
    usable = [c for c in columns if c.looks not in ("nothing", "id", "other", "links")]
    seconds = _by_name(usable, SECOND_NAMES)
    named = [c for c in _by_name(usable, TARGET_NAMES) if c not in seconds]
    suited = [c for kind in wanted.get(task_target, ("text", "list")) for c in usable if c.looks == kind]
    if task_target in wanted:
        answers = [c for c in suited if c in named] or [c for c in suited if c.looks == suited[0].looks] or named
    else:
        answers = named or suited[texts : texts + 1]
    if not answers:
        return {}
    target = answers[0]
    rest = [c for c in usable if c is not target and c not in answers] or [c for c in usable if c is not target]
    sources = sorted(rest, key=lambda c: (c.looks not in ("text", "list"), c not in _by_name(rest, SOURCE_NAMES)))
    if len(sources) < texts:
        return {}
    first = sources[0]
    found: dict[str, Column] = {"source": first.column, "target": target.column}
    if texts > 1:
        found["second"] = next((c for c in seconds if c is not first), sources[1]).column
    return found


def _only(answers: Sequence[ColumnSample], where: str, sources: Sequence[ColumnSample]) -> ColumnSample:
    if len(answers) > 1:
        raise _choose(sources, answers, where)
    return answers[0]


def _answered(sources: Sequence[ColumnSample], target: ColumnSample, where: str) -> Recognised:
    """The task of a source, of one text or of two, and a target."""
    columns: dict[str, Column] = {"source": sources[0].column, "target": target.column}
    if len(sources) > 1:
        columns["second"] = sources[1].column
    pair, long = len(sources) > 1, sources[0].words >= LONG
    kinds, many = len(target.counts), len(target.texts)
    if target.looks == "unclear":
        raise _unclear(target, where)
    if target.looks == "label":
        told = ", ".join(f"{name} {count}" for name, count in target.counts.most_common(3))
        labels = f"{target.called} holds {kinds} label{'s' if kinds > 1 else ''} ({told}{' ...' if kinds > 3 else ''})"
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


def _unclear(column: ColumnSample, where: str) -> DataError:
    kinds = f"{len(column.counts)} different values in {len(column.texts)} rows"
    return DataError(
        f"{where}: {column.called} has {kinds}: are these labels or texts? Add --task classify or --task text"
    )


def _two_readings(sources: Sequence[ColumnSample], answer: ColumnSample, where: str) -> DataError:
    first, second = (c.column for c in sources)
    task, single = ("similarity", "regress") if answer.looks == "number" else ("entail", "classify")
    return DataError(
        f"{where}: {sources[0].called} and {sources[1].called} both hold text, beside {answer.called} with "
        f"{'numbers' if answer.looks == 'number' else 'labels'}: for pairs of texts add --task {task}; for one of them "
        f"add --task {single} --source {first}, or --source {second}"
    )


def _choose(sources: Sequence[ColumnSample], answers: Sequence[ColumnSample], where: str) -> DataError:
    if len(answers) > 1:
        tasks = {"label": "a label", "labels": "labels", "number": "a number", "text": "text", "list": "a list"}
        told = ", ".join(f"{c.column!r} ({tasks.get(c.looks, c.looks)})" for c in answers[:MOST])
        return DataError(f"{where}: several columns could be the target: {told}; choose with --target")
    told = ", ".join(repr(c.column) for c in sources[:MOST]) + (" ..." if len(sources) > MOST else "")
    return DataError(f"{where}: several columns hold text: {told}; choose with --source and --target")
