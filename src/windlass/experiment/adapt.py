"""Adapt the default recipe of a task to the data: its tokens, and parts that suit few examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from windlass.core.wording import counted
from windlass.data.examples import Example
from windlass.experiment.auto import SMALL
from windlass.experiment.recognise import adapt_tokens
from windlass.experiment.whole_targets import whole_targets
from windlass.recipe import Recipe, default, merge, override, parse, small_parts
from windlass.training.checkpoint import flatten


def adapt(
    recipe: Recipe, examples: Sequence[Example], settings: Sequence[dict[str, Any]], note: Callable[[str], None]
) -> Recipe:
    """The recipe, composed from a task's default and a user's settings, for these training examples.

    >>> from windlass.experiment.data import as_data
    >>> from windlass.recipe import compose
    >>> recipe = compose("translate", None)
    >>> data = as_data([("a red house", "ein rotes Haus")] * 300, [("a house", "ein Haus")], recipe)
    >>> adapt(recipe, data.train, [], print).model.encoder.kind
    a GRU encoder, as there are 300 examples; else: --set model.encoder.kind=attention
    'recurrent'
    """
    recipe = adapt_target(adapt_tokens(recipe, examples, settings, note), examples, settings, note)
    return _adapt_parts(recipe, len(examples), settings, note)


def adapt_target(
    recipe: Recipe, examples: Sequence[Example], settings: Sequence[dict[str, Any]], note: Callable[[str], None]
) -> Recipe:
    """Let a model that would write words write characters, if hardly a word of the targets repeats.

    >>> from windlass.experiment.data import as_data
    >>> from windlass.recipe import compose
    >>> recipe = compose("pronounce", None)
    >>> words = [(f"{a}{b}", f"/{a}ɛ{b}/") for a in "bdfgl" for b in "mnrst"]
    >>> adapt_target(recipe, as_data(words, words, recipe).train, [], print).target.tokens.kind
    target: characters, as 100% are one word that never repeats; else: put spaces between phonemes, or --set
    target.tokens=words
    'characters'
    """
    share = None if any("target" in part for part in settings) else whole_targets(recipe, examples)
    if share is None:
        return recipe
    spaces = "put spaces between phonemes, or " if recipe.task == "pronounce" else ""
    note(f"target: characters, as {share}; else: {spaces}--set target.tokens=words")
    return parse(merge(recipe.model_dump(mode="json"), {"target": {"tokens": "characters"}}))


def _adapt_parts(recipe: Recipe, count: int, settings: Sequence[dict[str, Any]], note: Callable[[str], None]) -> Recipe:
    """With few examples, the parts that the task has for them, unless the user chose one of these parts otherwise."""
    if count >= SMALL or "parts" not in recipe.train.auto:
        return recipe
    what, parts = small_parts(recipe.task)
    content, usual = recipe.model_dump(mode="json"), default(recipe.task)
    own = [key for setting in settings for key in flatten(setting)]
    for part in parts:
        if _at(content, part) != _at(usual, part) or any(_overlap(part, key) for key in own):
            return recipe
    first = next(iter(parts))
    otherwise = f"--set {first}.kind={_at(usual, first)['kind']}"
    note(f"{what}, as there are {counted(count, 'example')}; else: {otherwise}")
    return parse(reduce(merge, (override(part, value) for part, value in parts.items()), content))


def _at(content: Any, key: str) -> Any:
    """The value of a dotted key; None where a part on the way has no such option."""
    for name in key.split("."):
        content = content.get(name) if isinstance(content, dict) else None
    return content


def _overlap(one: str, other: str) -> bool:
    """Whether one of two dotted keys is inside the other.

    >>> _overlap("model.encoder", "model.encoder.size"), _overlap("model.encoder", "model.decoder")
    (True, False)
    """
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")
