"""The training and dev data of an experiment, from files or from memory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from windlass.core.errors import DataError
from windlass.data.doctor import Report
from windlass.data.examples import Example, Pairs, expand
from windlass.data.readers import DataOptions, ReadResult
from windlass.data.sides import SideOptions
from windlass.data.store import Keep, View, joined_views, keeping
from windlass.recipe import Recipe
from windlass.tasks import TASKS


@dataclass(frozen=True)
class Data:
    """Training and dev examples, and the report on their quality.

    >>> from windlass.data.doctor import survey
    >>> Data((), (), survey([])).train
    ()
    """

    train: Sequence[Example]
    dev: Sequence[Example]
    report: Report


def read_data(recipe: Recipe) -> Data:
    """Read the files of a recipe; without a dev file, hold out a part of the training data.

    >>> read_data(Recipe())
    Traceback (most recent call last):
    windlass.core.errors.DataError: no training data: name a file, as in windlass train pairs.tsv
    """
    files = recipe.data
    if not files.train:
        raise DataError("no training data: name a file, as in windlass train pairs.tsv")
    reader, keep = TASKS[recipe.task].reader, keeping(files.train, files.store)
    train = [read_examples(recipe, path, keep=keep) for path in files.train]
    dev = [read_examples(recipe, files.dev)] if files.dev else []
    report = reader.survey(train, dev)
    examples = joined_views([result.examples for result in train])
    if dev:
        return Data(_expanded(examples), dev[0].examples, report)
    train_part, held = reader.split(examples, files.dev_fraction, recipe.train.chunk is not None)
    return Data(_expanded(train_part), held if isinstance(held, View) else tuple(held), report)


def _expanded(examples: Sequence[Example]) -> Sequence[Example]:
    return examples.expanded() if isinstance(examples, View) else tuple(expand(examples))


def read_examples(
    recipe: Recipe, path: str | Path, options: DataOptions | None = None, keep: Keep = tuple
) -> ReadResult:
    """Read a file with the recipe's data options, or with `options`; `keep` stores the examples.

    >>> read_examples(Recipe(), "no-such-file.tsv")
    Traceback (most recent call last):
    windlass.core.errors.DataError: no-such-file.tsv: no such file; ...
    """
    reader, whole = TASKS[recipe.task].reader, recipe.train.chunk is not None
    return reader.read(path, options or recipe.data, sides_of(recipe), whole, keep).usable()


def sides_of(recipe: Recipe) -> SideOptions:
    """Return the options of a recipe's two sides.

    >>> sides_of(Recipe()).source.kind
    'text'
    """
    return SideOptions(source=recipe.source, target=recipe.target)


def as_data(train: Pairs | Sequence[str], dev: Pairs | Sequence[str] | None, recipe: Recipe) -> Data:
    """Make data from pairs in memory; for a language model, from texts.

    >>> data = as_data([("a", "b"), ("c", "d")], [("e", "f")], Recipe())
    >>> data.train[1].source, len(data.dev)
    ('c', 1)
    """
    reader, sides = TASKS[recipe.task].reader.in_memory, sides_of(recipe)
    first = reader.from_memory(train, "train", sides)
    if dev is not None:
        second = reader.from_memory(dev, "dev", sides)
        return Data(first.examples, second.examples, reader.survey([first], [second]))
    train_part, held = reader.split(first.examples, recipe.data.dev_fraction, recipe.train.chunk is not None)
    return Data(tuple(train_part), tuple(held), reader.survey([first]))


def fingerprint(data: Data, recipe: Recipe) -> str:
    """Return a hash of the examples, so that a run is not resumed on other data.

    >>> fingerprint(as_data([("a", "b")], [("c", "d")], Recipe()), Recipe())[:8]
    'f83c3a1c'
    """
    sides, sha = sides_of(recipe), hashlib.sha256()
    for part in (data.train, data.dev):
        for e in part:
            targets = map(sides.target_side.digest, e.targets)
            alignment = json.dumps(e.alignment).encode()
            sha.update(b"[%s]" % b", ".join([sides.source_side.digest(e.source), *targets, alignment]))
        sha.update(b"|")
    return sha.hexdigest()
