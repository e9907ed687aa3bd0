"""What there is to learn from: read from files, or taken from memory, with a part set aside to choose by."""

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
    reader, keep = TASKS[recipe.task].reader, keeping(files.train, files.store)
    train = [examples_of(recipe, path, keep=keep) for path in files.train]
    dev = [examples_of(recipe, files.dev)] if files.dev else []
    report = reader.survey(train, dev)
    examples = joined_views([result.examples for result in train])
    if dev:
        return Data(_expanded(examples), dev[0].examples, report)
    learned, held = reader.split(examples, files.dev_fraction, recipe.train.chunk is not None)
    return Data(_expanded(learned), held if isinstance(held, View) else tuple(held), report)


def _expanded(examples: Sequence[Example]) -> Sequence[Example]:
    return examples.expanded() if isinstance(examples, View) else tuple(expand(examples))


def examples_of(recipe: Recipe, path: str | Path, options: DataOptions | None = None, keep: Keep = tuple) -> ReadResult:
    """Read a file as a model's own data was read, or as `options` say; `keep` holds its examples.

    >>> examples_of(Recipe(), "no-such-file.tsv")
    Traceback (most recent call last):
    windlass.core.errors.DataError: no-such-file.tsv: no such file; ...
    """
    reader, whole = TASKS[recipe.task].reader, recipe.train.chunk is not None
    return reader.read(path, options or recipe.data, sides_of(recipe), whole, keep)


def sides_of(recipe: Recipe) -> SideOptions:
    """The options of a recipe's two sides.

    >>> sides_of(Recipe()).source.kind
    'text'
    """
    return SideOptions(source=recipe.source, target=recipe.target)


def as_data(train: Pairs | Sequence[str], dev: Pairs | Sequence[str] | None, recipe: Recipe) -> Data:
    """Make the same of pairs in memory; for a language model, of texts.

    >>> data = as_data([("a", "b"), ("c", "d")], [("e", "f")], Recipe())
    >>> data.train[1].source, len(data.dev)
    ('c', 1)
    """
    reader, sides = TASKS[recipe.task].reader.in_memory, sides_of(recipe)
    first = reader.from_memory(train, "train", sides)
    if dev is not None:
        second = reader.from_memory(dev, "dev", sides)
        return Data(first.examples, second.examples, reader.survey([first], [second]))
    learned, held = reader.split(first.examples, recipe.data.dev_fraction, recipe.train.chunk is not None)
    return Data(tuple(learned), tuple(held), reader.survey([first]))


def fingerprint(data: Data, recipe: Recipe) -> str:
    """A hash of the examples, so that a run is not resumed on other data.

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
