"""Targets that are cut into words but hold none: each is a symbol of its own, which no model can learn to write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import islice

from windlass.data.examples import Example, as_text
from windlass.data.sniff import SAMPLE
from windlass.experiment.data import sides_of
from windlass.recipe import Recipe

FEW, MOST = 20, 0.9
"""Targets too few to judge, and the share that is nearly all."""


def whole_targets(recipe: Recipe, train: Sequence[Example]) -> float | None:
    """Return the share of targets of words that are one token each that never repeats; None if they are not nearly all.

    >>> from windlass.experiment.data import as_data
    >>> from windlass.recipe import compose
    >>> recipe = compose("pronounce", None)
    >>> words = [(f"{a}{b}", f"/{a}ɛ{b}/") for a in "bdfgl" for b in "mnrst"]
    >>> whole_targets(recipe, as_data(words, words, recipe).train)
    1.0
    """
    tokens = getattr(recipe.target, "tokens", None)
    if getattr(tokens, "kind", None) != "words" or not sides_of(recipe).target_side.written:
        return None
    targets = Counter(as_text(example.target) for example in islice(train, SAMPLE))
    total = targets.total()
    single = sum(count == 1 and len(target) > 1 and len(target.split()) == 1 for target, count in targets.items())
    return None if total < FEW or single < MOST * total else single / total


def describe_whole_targets(recipe: Recipe, train: Sequence[Example]) -> str | None:
    """Say that nearly all targets of words are one token each that never repeats, and how to mend it.

    >>> from windlass.experiment.data import as_data
    >>> from windlass.recipe import compose
    >>> recipe = compose("pronounce", None)
    >>> words = [(f"{a}{b}", f"/{a}ɛ{b}/") for a in "bdfgl" for b in "mnrst"]
    >>> describe_whole_targets(recipe, as_data(words, words, recipe).train)
    'target: 100% are one token that never repeats, which cannot be learned: put spaces between phonemes, or add
    --set target.tokens=characters or --task transliterate'
    """
    if (share := whole_targets(recipe, train)) is None:
        return None
    spaces = f"put spaces between {'phonemes' if recipe.task == 'pronounce' else 'symbols'}"
    other = " or --task transliterate" if recipe.task == "pronounce" else ""
    return (
        f"target: {share:.0%} are one token that never repeats, which cannot be learned: {spaces}, or add "
        f"--set target.tokens=characters{other}"
    )
