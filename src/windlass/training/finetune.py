"""Training a model further: what must stay as it was, and how its vocabulary grows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from windlass.bundle import Bundle
from windlass.core.errors import RecipeError
from windlass.data.examples import Example
from windlass.recipe import Recipe

Note = Callable[[str], None]


def flat(content: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested options by their whole names.

    >>> flat({"train": {"epochs": 5}, "seed": 1})
    {'train.epochs': 5, 'seed': 1}
    """
    found: dict[str, Any] = {}
    for key, value in content.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return found


def same_model(before: Recipe, now: Recipe, what: str) -> None:
    """Refuse a change that weights cannot follow: of tokens or of the network, dropout apart.

    >>> same_model(Recipe(), Recipe(vocabulary="joint"), "a run that is resumed")
    Traceback (most recent call last):
    windlass.core.errors.RecipeError: vocabulary: separate is now joint, but a run that is resumed keeps its own: ...
    """
    parts = {"task", "source", "target", "vocabulary", "model"}
    old, new = (flat(recipe.model_dump(mode="json", include=parts)) for recipe in (before, now))
    for key in [*new, *old]:
        if old.get(key) != new.get(key) and not key.endswith("dropout"):
            raise RecipeError(f"{key}: {old.get(key)} is now {new.get(key)}, but {what} keeps its own: set it back")


def extended(base: Bundle, recipe: Recipe, train: Sequence[Example], note: Note) -> Bundle:
    """A bundle ready to be trained further: symbols it has never seen get new, random rows at the end of its tables.

    >>> from windlass.data import Sides
    >>> from windlass.data.examples import Place
    >>> base = Bundle.new(Recipe(), Sides.tiny())
    >>> grown = extended(base, Recipe(), [Example("z", ("b",), None, Place("pairs.tsv", 1))], print)
    new symbols: source 'z'
    >>> grown.sides.source.sizes
    {'source': 8}
    """
    same_model(base.recipe, recipe, "a model that is trained further")
    sides, new_source, new_target = base.sides.extend(train, recipe.vocabulary == "joint")
    said = [
        f"{side} {', '.join(map(repr, new[:8]))}{' ...' if len(new) > 8 else ''}"
        for side, new in (("source", new_source), ("target", new_target))
        if new
    ]
    note(f"new symbols: {'; '.join(said)}" if said else "no new symbols: the vocabulary stays as it is")
    grown = Bundle.new(recipe, sides)
    before = dict(base.model.named_parameters()) | dict(base.model.named_buffers())
    with torch.no_grad():
        for name, tensor in [*grown.model.named_parameters(), *grown.model.named_buffers()]:
            tensor[tuple(slice(n) for n in before[name].shape)] = before[name]
    return grown
