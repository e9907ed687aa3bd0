"""The candidates of a comparison: recipes, and the variations of a recipe."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from windlass.core.errors import DataError, RecipeError, WindlassError
from windlass.data.frames import Frame
from windlass.experiment.recognise import compose_for
from windlass.recipe import Recipe, compose, override

Variation = tuple[tuple[str, ...], tuple[Any, ...]]
"""Recipe keys that change together, and their values."""


@dataclass(frozen=True)
class Candidate:
    """A recipe and its name in tables and plots.

    >>> Candidate("size=64", Recipe(), group="text: pairs.tsv").folder
    'text-pairs.tsv-size-64'
    """

    name: str
    recipe: Recipe
    group: str = ""  # candidates with the same task and data; empty if there is only one group
    test: str | Frame | None = None  # a file, or data in memory, to score on in addition to dev
    adaptable: bool = False  # the default of a task, whose tokens are still to suit the data
    settings: tuple[dict[str, Any], ...] = ()  # of a user, which stay
    error: str | None = None  # why its data cannot be read

    @property
    def folder(self) -> str:
        """The name of its folder."""
        return re.sub(r"[^\w.]+", "-", f"{self.group} {self.name}").strip("-.") or "candidate"


def parse_vary(text: str) -> Variation:
    """Parse `model.encoder.cell=gru,lstm`; keys that change together are joined by +.

    >>> parse_vary("model.encoder.cell+model.decoder.cell=gru,{kind: gru, reset: after}")
    (('model.encoder.cell', 'model.decoder.cell'), ('gru', {'kind': 'gru', 'reset': 'after'}))
    """
    keys, equals, values = text.partition("=")
    names = tuple(key.strip() for key in keys.split("+"))
    if not equals or not all(names) or not values.strip():
        raise RecipeError(f"--vary {text}: write it as key=value,value, such as --vary model.encoder.cell=gru,lstm")
    try:
        parsed = tuple(yaml.safe_load(value) for value in _split_commas(values))
    except yaml.YAMLError:
        raise RecipeError(f"--vary {text}: a value is not valid YAML; quote it if it is a string") from None
    return names, parsed


def _split_commas(text: str) -> list[str]:
    """Split at commas outside of brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "{[") - (character in "}]")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def candidates(
    recipes: Sequence[str | Path] = (),
    task: str | None = None,
    settings: Sequence[dict[str, Any]] = (),
    vary: Sequence[Variation] = (),
    tests: Sequence[str | Path] = (),
    note: Callable[[str], None] = lambda text: None,
) -> list[Candidate]:
    """Return every recipe, or the task's default, with every combination of the variations.

    `settings` override every recipe. `tests` has one file for all recipes, or one for each. A task that is not named
    and columns that are not chosen are recognised as for a single run, and noted once.

    >>> [c.name for c in candidates(task="pronounce", vary=[(("model.encoder.size",), (64, 128))])]
    ['size=64', 'size=128']
    """
    if not recipes and task is None and not any("task" in p or p.get("data", {}).get("train") for p in settings):
        raise WindlassError("nothing to compare: give recipe files, or data with --vary KEY=VALUE,VALUE")
    if len(tests) not in (0, 1, max(1, len(recipes))):
        raise WindlassError(f"{len(tests)} test files for {len(recipes)} recipes: give one for all, or one for each")
    varied = [key for keys, _ in vary for key in keys]
    if twice := next((key for key in varied if varied.count(key) > 1), None):
        raise RecipeError(f"--vary {twice}: given twice: put all its values into one, as in --vary {twice}=A,B,C")
    bases: list[Path | None] = [Path(path) for path in recipes] or [None]
    named: list[tuple[str, str, Candidate]] = []
    note_once = once(note)
    choices = [
        (choice, [override(key, value) for (keys, _), value in zip(vary, choice, strict=True) for key in keys])
        for choice in product(*(values for _, values in vary))
    ]
    if not recipes and task is None:  # one for all candidates
        recognised = compose_for(None, None, [*settings, *choices[0][1]], note_once)
        task, settings = recognised.task, (*settings, {"data": recognised.data.model_dump(mode="json")})
    for n, base in enumerate(bases):
        test = str(tests[n if len(tests) > 1 else 0]) if tests else None
        for choice, overrides in choices:
            own = (*settings, *overrides)
            try:
                recipe, error = compose_for(task, base, own, note_once), None
            except DataError as wrong:  # which fails only the candidates of this recipe
                recipe, error = compose(task, base, own), str(wrong)
            variant = ", ".join(_describe(keys, value) for (keys, _), value in zip(vary, choice, strict=True))
            stem = base.stem if base is not None else str(task)
            named.append((stem, variant, Candidate(variant or stem, recipe, "", test, base is None, own, error)))
    if all(error := candidate.error for _, _, candidate in named) and error:
        raise DataError(error)
    groups = {data_key(candidate.recipe) for _, _, candidate in named}
    unique = len(groups) == len(bases)  # every recipe is its own group, in which the variant is name enough
    return assign_groups([c if unique or not v else replace(c, name=f"{stem}, {v}") for stem, v, c in named])


def recipes_and_data(files: Sequence[str | Path]) -> tuple[list[Path], list[str]]:
    """Tell recipes, which end in .yaml or .yml, from files of training data.

    >>> recipes_and_data(["small.yaml", "pairs.tsv"])
    ([PosixPath('small.yaml')], ['pairs.tsv'])
    """
    paths = [Path(file) for file in files]
    recipes = [path for path in paths if path.suffix in (".yaml", ".yml")]
    return recipes, [str(path) for path in paths if path not in recipes]


def assign_groups(ungrouped: Sequence[Candidate]) -> list[Candidate]:
    """Group candidates by task and data; raise WindlassError if two have the same name.

    >>> two = [Candidate("a", Recipe(task="pronounce")), Candidate("b", Recipe(task="text"))]
    >>> [c.group for c in assign_groups(two)], [c.group for c in assign_groups(two[:1])]
    (['pronounce', 'text'], [''])
    """
    groups = {data_key(c.recipe): c.recipe for c in ungrouped}
    tasks = [recipe.task for recipe in groups.values()]

    def label(recipe: Recipe) -> str:
        if len(groups) == 1:
            return ""
        if tasks.count(recipe.task) == 1:
            return recipe.task
        return f"{recipe.task}: {', '.join(Path(path).name for path in recipe.data.train)}"

    grouped = [c if c.group else replace(c, group=label(c.recipe)) for c in ungrouped]
    folders = [c.folder.lower() for c in grouped]
    for candidate, folder in zip(grouped, folders, strict=True):
        if folders.count(folder) > 1:
            raise WindlassError(f"two candidates are called {candidate.name!r}: rename a recipe")
    return grouped


def data_key(recipe: Recipe) -> str:
    """Return a key of task and data: scores of recipes with the same key are comparable.

    >>> data_key(Recipe(task="text")) == data_key(Recipe(task="text", seed=2))
    True
    """
    return recipe.model_dump_json(include={"task", "data"}) + str(recipe.train.chunk is None)


def once(note: Callable[[str], None]) -> Callable[[str], None]:
    """Note every text once: candidates that read the same data have the same notes.

    >>> note = once(print)
    >>> note("columns: 1 and 2"), note("columns: 1 and 2")
    columns: 1 and 2
    (None, None)
    """
    noted = set[str]()

    def note_once(text: str) -> None:
        if text not in noted:
            noted.add(text)
            note(text)

    return note_once


def _describe(keys: tuple[str, ...], value: Any) -> str:
    """Return the name of a variant: the kind of a component, or `key=value`."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and "kind" in value:
        rest = " ".join(f"{k}={v}" for k, v in value.items() if k != "kind")
        return f"{value['kind']} {rest}".strip()
    return f"{keys[0].split('.')[-1]}={value}"
