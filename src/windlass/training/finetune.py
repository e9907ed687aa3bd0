"""Finetuning: what must not change, and how the vocabulary grows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from windlass.bundle import Bundle
from windlass.core.errors import RecipeError
from windlass.data.examples import Example
from windlass.recipe import Recipe
from windlass.training.checkpoint import flatten

Note = Callable[[str], None]


def check_same_model(before: Recipe, now: Recipe, what: str) -> None:
    """Refuse a recipe that the weights do not fit: tokens and network must be the same, except for dropout.

    >>> check_same_model(Recipe(), Recipe(vocabulary="joint"), "a resumed run")
    Traceback (most recent call last):
    windlass.core.errors.RecipeError: vocabulary: separate is now joint, but a resumed run cannot change it: ...
    """
    parts = {"task", "source", "target", "vocabulary", "model"}
    old, new = (flatten(recipe.model_dump(mode="json", include=parts)) for recipe in (before, now))
    for key in [*new, *old]:
        if old.get(key) != new.get(key) and not key.endswith("dropout"):
            raise RecipeError(f"{key}: {old.get(key)} is now {new.get(key)}, but {what} cannot change it: set it back")


def extend_bundle(base: Bundle, recipe: Recipe, train: Sequence[Example], note: Note) -> Bundle:
    """Return a bundle ready for finetuning: new symbols get random rows of its embeddings and outputs.

    All that it had before stays: its weights for the old symbols are the same.

    >>> from windlass.data import Sides
    >>> from windlass.data.examples import Place
    >>> base = Bundle.new(Recipe(), Sides.tiny())
    >>> extended = extend_bundle(base, Recipe(), [Example("z", ("b",), None, Place("pairs.tsv", 1))], print)
    new symbols: source 'z'
    a model forgets some of what it learned from data that it no longer sees: to keep it, give the earlier data too
    >>> extended.sides.source.sizes
    {'source': 8}
    """
    check_same_model(base.recipe, recipe, "finetuning")
    sides, new_source, new_target = base.sides.extend(train, recipe.vocabulary == "joint")
    new_symbols = [
        f"{side} {', '.join(map(repr, new[:8]))}{' ...' if len(new) > 8 else ''}"
        for side, new in (("source", new_source), ("target", new_target))
        if new
    ]
    note(f"new symbols: {'; '.join(new_symbols)}" if new_symbols else "no new symbols: the vocabulary is unchanged")
    earlier, now = base.recipe.data.train, {Path(path).resolve() for path in recipe.data.train}
    gone = [path for path in earlier if Path(path).resolve() not in now]
    if gone or not earlier:
        named = f", {', '.join(gone[:3])}{' ...' if len(gone) > 3 else ''}," if gone else ""
        note(
            "a model forgets some of what it learned from data that it no longer sees: to keep it, give the earlier "
            f"data{named} too"
        )
    extended = Bundle.new(recipe, sides)
    before = dict(base.model.named_parameters()) | dict(base.model.named_buffers())
    with torch.no_grad():
        for name, tensor in [*extended.model.named_parameters(), *extended.model.named_buffers()]:
            _copy_rows(before[name], tensor, extended.model.head.output_blocks if name.startswith("head.") else 1)
    return extended


def _copy_rows(before: Tensor, now: Tensor, blocks: int) -> None:
    """Copy a tensor into one that is at least as large; new rows are at the end of every block."""
    if before.dim() and len(before) != len(now):
        before, now = before.unflatten(0, (blocks, -1)), now.unflatten(0, (blocks, -1))
    now[tuple(slice(n) for n in before.shape)] = before
