"""What is compared: recipes that a user names, and what varies between them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from windlass.core.errors import RecipeError, WindlassError
from windlass.recipe import Recipe, compose, override

Vary = tuple[tuple[str, ...], tuple[Any, ...]]
"""Keys of a recipe that change together, and the values they take."""


@dataclass(frozen=True)
class Candidate:
    """A recipe under the name that tables and pictures give it.

    >>> Candidate("lstm", Recipe(task="pronounce")).folder
    'lstm'
    >>> Candidate("size=64", Recipe(), group="text: pairs.tsv").folder
    'text-pairs.tsv-size-64'
    """

    name: str
    recipe: Recipe
    group: str = ""  # of candidates that have task and data in common; blank where there is but one group
    test: str | None = None  # a file to score on besides dev

    @property
    def folder(self) -> str:
        """Its name as that of a folder."""
        return re.sub(r"[^\w.]+", "-", f"{self.group} {self.name}").strip("-.") or "candidate"


def varied(text: str) -> Vary:
    """Read `model.encoder.cell=gru,lstm`; keys that change together are joined by +.

    >>> varied("model.encoder.cell+model.decoder.cell=gru,{kind: gru, reset: after}")
    (('model.encoder.cell', 'model.decoder.cell'), ('gru', {'kind': 'gru', 'reset': 'after'}))
    """
    keys, equals, values = text.partition("=")
    names = tuple(key.strip() for key in keys.split("+"))
    if not equals or not all(names) or not values.strip():
        raise RecipeError(f"--vary {text}: write it as key=value,value, such as --vary model.encoder.cell=gru,lstm")
    try:
        found = tuple(yaml.safe_load(value) for value in _cut(values))
    except yaml.YAMLError:
        raise RecipeError(f"--vary {text}: a value is not valid YAML; quote it if it is text") from None
    return names, found


def _cut(text: str) -> list[str]:
    """Cut at commas that stand in no bracket."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "{[") - (letter in "}]")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def candidates(
    recipes: Sequence[str | Path] = (),
    task: str | None = None,
    settings: Sequence[dict[str, Any]] = (),
    vary: Sequence[Vary] = (),
    tests: Sequence[str | Path] = (),
) -> list[Candidate]:
    """Every recipe, or the task's own, with every combination of what varies.

    `settings` go over every recipe. `tests` are as many as the recipes, or one for all.

    >>> [c.name for c in candidates(task="pronounce", vary=[(("model.encoder.size",), (64, 128))])]
    ['size=64', 'size=128']
    """
    if not recipes and task is None:
        raise WindlassError("name what to compare: recipe files, or --task NAME with --vary KEY=VALUE,VALUE")
    if len(tests) not in (0, 1, max(1, len(recipes))):
        raise WindlassError(f"{len(tests)} test files for {len(recipes)} recipes: give one for all, or one for each")
    bases: list[Path | None] = [Path(path) for path in recipes] or [None]
    found = []
    for n, base in enumerate(bases):
        test = str(tests[n if len(tests) > 1 else 0]) if tests else None
        for choice in product(*(values for _, values in vary)):
            over = [override(key, value) for (keys, _), value in zip(vary, choice, strict=True) for key in keys]
            recipe = compose(task, base, [*settings, *over])
            said = ", ".join(_said(keys, value) for (keys, _), value in zip(vary, choice, strict=True))
            stem = base.stem if base is not None else str(task)
            found.append((stem, said, Candidate(said or stem, recipe, test=test)))
    groups = {_shared(candidate.recipe) for _, _, candidate in found}
    alone = len(groups) == len(bases)  # every recipe has data of its own: what varies tells its candidates apart
    return grouped([c if alone or not said else replace(c, name=f"{stem}, {said}") for stem, said, c in found])


def grouped(found: Sequence[Candidate]) -> list[Candidate]:
    """Name the groups of candidates that share task and data, and refuse names that are there twice.

    >>> two = [Candidate("a", Recipe(task="pronounce")), Candidate("b", Recipe(task="text"))]
    >>> [c.group for c in grouped(two)], [c.group for c in grouped(two[:1])]
    (['pronounce', 'text'], [''])
    """
    shared = {_shared(c.recipe): c.recipe for c in found}
    tasks = [recipe.task for recipe in shared.values()]

    def label(recipe: Recipe) -> str:
        if len(shared) == 1:
            return ""
        if tasks.count(recipe.task) == 1:
            return recipe.task
        return f"{recipe.task}: {', '.join(Path(path).name for path in recipe.data.train)}"

    named = [c if c.group else replace(c, group=label(c.recipe)) for c in found]
    folders = [c.folder.lower() for c in named]
    for candidate, folder in zip(named, folders, strict=True):
        if folders.count(folder) > 1:
            raise WindlassError(f"two candidates are called {candidate.name!r}: give recipes other names")
    return named


def _shared(recipe: Recipe) -> str:
    """What candidates must have in common for their scores to stand side by side."""
    return recipe.model_dump_json(include={"task", "data"}) + str(recipe.train.chunk is None)


def _said(keys: tuple[str, ...], value: Any) -> str:
    """A value for a person: the name of a part as it is, anything else behind the end of its key."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and "kind" in value:
        rest = " ".join(f"{k}={v}" for k, v in value.items() if k != "kind")
        return f"{value['kind']} {rest}".strip()
    return f"{keys[0].split('.')[-1]}={value}"


def of(recipes: Mapping[str, Recipe], tests: Mapping[str, str | Path]) -> list[Candidate]:
    """Candidates of recipes that are already there, by name.

    >>> of({"small": Recipe()}, {})[0].name
    'small'
    """
    for name in tests:
        if name not in recipes:
            raise WindlassError(f"a test file for {name!r}, but no recipe is called so")
    return grouped([Candidate(n, r, test=str(tests[n]) if n in tests else None) for n, r in recipes.items()])
