"""What there is to learn from: read from files, or taken from memory, with a part set aside to choose by."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from windlass.core.errors import DataError
from windlass.data.dialogs import read_dialogs
from windlass.data.doctor import Report, survey
from windlass.data.documents import DocumentOptions
from windlass.data.examples import Example, Place, Source, Split, aside, cut, expand, joined, split
from windlass.data.readers import DataOptions, ReadResult, read
from windlass.data.running import from_memory, read_texts, split_end, survey_texts
from windlass.data.store import Keep, View, joined_views, keeping
from windlass.recipe import Recipe
from windlass.tasks import TASKS

SPLIT_SEED = 1
"""The dev set does not depend on the recipe's seed, so that models of several seeds can be compared and joined."""

TENTH, ENOUGH = 0.1, 10_000
"""Where nothing is told, a tenth of the examples is set aside, but no more than so many: all are judged every epoch."""

Pairs = Sequence[tuple[Source, str]]


@dataclass(frozen=True)
class Data:
    """What there is to learn from and to choose by.

    >>> from windlass.data.doctor import survey
    >>> Data((), (), survey([])).train
    ()
    """

    train: Sequence[Example]
    dev: Sequence[Example]
    report: Report


def read_data(recipe: Recipe) -> Data:
    """Read the files of a recipe; where no dev file is named, set a part of the training data aside.

    >>> read_data(Recipe())
    Traceback (most recent call last):
    windlass.core.errors.DataError: no training data: name a file, such as: windlass train pairs.tsv
    """
    files = recipe.data
    if not files.train:
        raise DataError("no training data: name a file, such as: windlass train pairs.tsv")
    task = TASKS[recipe.task]
    if task.reads_nothing:
        return _texts(recipe, [examples_of(recipe, path) for path in files.train], files.dev)
    keep = keeping(files.train, files.store)
    train = [examples_of(recipe, path, keep=keep) for path in files.train]
    dev = [examples_of(recipe, files.dev)] if files.dev else []
    report = survey(train, dev)
    examples = joined_views([result.examples for result in train])
    if dev:
        return Data(_expanded(examples), dev[0].examples, report)
    if isinstance(examples, View):
        out = aside((e.text for e in examples), len(examples), _share(recipe, len(examples)), SPLIT_SEED, disk=True)
        learned_view, held_view = examples.parted(out)
        return Data(_expanded(learned_view), held_view, report)
    whole = [str(e.place) for e in examples] if task.turns else None  # no dialog is on both sides
    learned, held = split(examples, _share(recipe, len(examples)), SPLIT_SEED, whole)
    return Data(_expanded(learned), tuple(held), report)


def _share(recipe: Recipe, count: int) -> float:
    """How much of so many examples to set aside."""
    return recipe.data.dev_fraction or min(TENTH, ENOUGH / max(1, count))


def _expanded(examples: Sequence[Example]) -> Sequence[Example]:
    return examples.expanded() if isinstance(examples, View) else tuple(expand(examples))


def examples_of(recipe: Recipe, path: str | Path, options: DataOptions | None = None, keep: Keep = tuple) -> ReadResult:
    """Read a file as a model's own data was read, or as `options` say; `keep` holds its examples.

    >>> examples_of(Recipe(), "no-such-file.tsv")
    Traceback (most recent call last):
    windlass.core.errors.DataError: no-such-file.tsv: no such file; ...
    """
    task = TASKS[recipe.task]
    if task.reads_nothing:
        return read_texts(path, options or recipe.data, whole=recipe.train.chunk is not None)
    if task.turns:
        return read_dialogs(path, options or recipe.data)
    return read(path, options or recipe.data, task.target, splitter(recipe), keep)


def splitter(recipe: Recipe) -> Split | None:
    """What cuts a source into sentences, where it is a document.

    >>> splitter(Recipe()) is None
    True
    """
    return recipe.source.splitter.split if isinstance(recipe.source, DocumentOptions) else None


def _texts(recipe: Recipe, train: Sequence[ReadResult], dev: str | ReadResult | None) -> Data:
    """Texts keep their order, and what is set aside is their end: never lines from among the others."""
    examples = [e for result in train for e in result.examples]
    if dev is not None:
        held = examples_of(recipe, dev) if isinstance(dev, str) else dev
        return Data(tuple(examples), held.examples, survey_texts(train, [held]))
    if recipe.train.chunk is None:
        last = max(1, round(len(examples) * _share(recipe, len(examples))))
        if last >= len(examples):
            raise DataError(f"cannot set lines aside of {len(examples)}; give a dev file")
        return Data(tuple(examples[:-last]), tuple(examples[-last:]), survey_texts(train))
    learned, end = split_end(examples, recipe.data.dev_fraction or TENTH)
    return Data(tuple(learned), tuple(end), survey_texts(train))


def as_data(train: Pairs | Sequence[str], dev: Pairs | Sequence[str] | None, recipe: Recipe) -> Data:
    """Make the same of pairs in memory; for a language model, of texts.

    >>> data = as_data([("a", "b"), ("c", "d")], [("e", "f")], Recipe())
    >>> data.train[1].source, len(data.dev)
    ('c', 1)
    """

    kind, two = TASKS[recipe.task].target, recipe.source.kind == "pair"
    if TASKS[recipe.task].reads_nothing:
        given = None if dev is None else from_memory(_all_texts(dev), "dev")
        return _texts(recipe, [from_memory(_all_texts(train), "train")], given)
    train, dev = _all_pairs(train), None if dev is None else _all_pairs(dev)

    def examples(pairs: Pairs, name: str) -> ReadResult:
        for n, (source, target) in enumerate(pairs, 1):
            blank = "source" if not joined(source).strip() else "target" if not target.strip() else ""
            if blank:
                raise DataError(f"{name} pair {n}: the {blank} is blank: leave it out")
            if two and (isinstance(source, str) or len(source) != 2 or not all(text.strip() for text in source)):
                raise DataError(f"{name} pair {n}: the source must be two texts, (premise, hypothesis), neither blank")
        found = (Example(_source(s), (t,), None, Place(name, n)) for n, (s, t) in enumerate(pairs, 1))
        return ReadResult(tuple(cut(e, kind, splitter(recipe)) for e in found), ())

    first = examples(train, "train")
    if dev is not None:
        second = examples(dev, "dev")
        return Data(first.examples, second.examples, survey([first], [second]))
    learned, held = split(first.examples, _share(recipe, len(train)), SPLIT_SEED)
    return Data(tuple(learned), tuple(held), survey([first]))


def _source(given: Source | list[str]) -> Source:
    return tuple(given) if isinstance(given, list) else given


def _all_texts(given: Pairs | Sequence[str]) -> list[str]:
    texts = [one for one in given if isinstance(one, str)]
    if len(texts) < len(given):
        raise DataError("a language model learns from texts, not from pairs: give a list of texts")
    return texts


def _all_pairs(given: Pairs | Sequence[str]) -> Pairs:
    pairs = [one for one in given if not isinstance(one, str)]
    if len(pairs) < len(given):
        raise DataError("give pairs of a source and a target; a list of texts is for task lm")
    return pairs


def fingerprint(data: Data) -> str:
    """A hash of the examples, so that a run is not resumed on other data.

    >>> fingerprint(as_data([("a", "b")], [("c", "d")], Recipe()))[:8]
    'f83c3a1c'
    """
    sha = hashlib.sha256()
    for part in (data.train, data.dev):
        for e in part:
            sha.update(json.dumps([e.source, *e.targets, e.alignment], ensure_ascii=False).encode())
        sha.update(b"|")
    return sha.hexdigest()
