"""What there is to learn from: read from files, or taken from memory, with a part set aside to choose by."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from windlass.core.errors import DataError
from windlass.data.doctor import Report, survey
from windlass.data.examples import Example, Place, Source, cut, expand, joined, split
from windlass.data.readers import ReadResult, read
from windlass.recipe import Recipe
from windlass.tasks import TASKS

SPLIT_SEED = 1
"""The dev set does not depend on the recipe's seed, so that models of several seeds can be compared and joined."""

Pairs = Sequence[tuple[Source, str]]


@dataclass(frozen=True)
class Data:
    """What there is to learn from and to choose by.

    >>> from windlass.data.doctor import survey
    >>> Data((), (), survey([])).train
    ()
    """

    train: tuple[Example, ...]
    dev: tuple[Example, ...]
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
    train = [read(path, files, task.target) for path in files.train]
    dev = [read(files.dev, files, task.target)] if files.dev else []
    report = survey(train, dev)
    examples = [e for result in train for e in result.examples]
    if dev:
        return Data(tuple(expand(examples)), dev[0].examples, report)
    learned, held = split(examples, files.dev_fraction, SPLIT_SEED)
    return Data(tuple(expand(learned)), tuple(held), report)


def as_data(train: Pairs, dev: Pairs | None, recipe: Recipe) -> Data:
    """Make the same of pairs in memory.

    >>> data = as_data([("a", "b"), ("c", "d")], [("e", "f")], Recipe())
    >>> data.train[1].source, len(data.dev)
    ('c', 1)
    """

    kind = TASKS[recipe.task].target

    def examples(pairs: Pairs, name: str) -> ReadResult:
        for n, (source, target) in enumerate(pairs, 1):
            blank = "source" if not joined(source).strip() else "target" if not target.strip() else ""
            if blank:
                raise DataError(f"{name} pair {n}: the {blank} is blank: leave it out")
        found = (Example(s, (t,), None, Place(name, n)) for n, (s, t) in enumerate(pairs, 1))
        return ReadResult(tuple(cut(e, kind) for e in found), ())

    first = examples(train, "train")
    if dev is not None:
        second = examples(dev, "dev")
        return Data(first.examples, second.examples, survey([first], [second]))
    learned, held = split(first.examples, recipe.data.dev_fraction, SPLIT_SEED)
    return Data(tuple(learned), tuple(held), survey([first]))


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
