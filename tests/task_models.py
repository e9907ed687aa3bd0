"""A small model of every task, not trained, and an input for it."""

from __future__ import annotations

from typing import Any

import torch

from windlass.bundle import Bundle
from windlass.data.examples import Example, Place, Value
from windlass.data.sides import SOURCES, TARGETS, Sides
from windlass.experiment.loaders import fit_sides
from windlass.recipe import compose

CTC = {
    "model": {"head": {"kind": "ctc", "frames": 4}, "decoder": None},
    "loss": {"label_smoothing": 0.0},
    "search": {"kind": "beam", "length_penalty": 0.0},
}
"""What makes a model that writes write by CTC."""
SIZES = {"size": 8, "layers": 2}


def smaller(options: dict[str, Any]) -> dict[str, Any]:
    """The same options with small networks."""
    found = {name: smaller(value) if isinstance(value, dict) else value for name, value in options.items()}
    return found | {name: min(found[name], most) for name, most in SIZES.items() if isinstance(found.get(name), int)}


def task_model(task: str, seed: int = 0, **changes: Any) -> tuple[Bundle, Value]:
    """A model of a task with its default recipe, made small, and an input; changes are of the recipe."""
    recipe = compose(task, None)
    content = recipe.model_dump(mode="json")
    own = changes.pop("model", {})
    content["model"] = smaller(content["model"]) | ({"head": {"kind": "text"}} if "decoder" in own else {}) | own
    content |= changes
    for side in ("source", "target"):
        if content[side].get("tokens", {}).get("kind") in ("bpe", "unigram"):
            content[side]["tokens"] = {"kind": "words", "min_count": 1}
    made = compose(task, None, [content])
    kind = "tree" if getattr(getattr(recipe.target, "tokens", None), "kind", "") == "tree" else recipe.target.kind
    source, values = SOURCES[recipe.source.kind].tiny()
    target, answers = TARGETS[kind].tiny()
    if getattr(getattr(recipe.source, "tokens", None), "kind", "") == "tree":
        values = TARGETS["tree"].tiny()[1]
    torch.manual_seed(seed)
    if recipe.source.kind in ("text", "words", "document", "pair"):
        pairs = zip(values * 3, answers * 3, strict=False)
        examples = [Example(value, (answer,), None, Place("x", n)) for n, (value, answer) in enumerate(pairs)]
        return Bundle.new(made, fit_sides(made, examples)), values[0]
    return Bundle.new(made, Sides(source, target)), values[0]
