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
"""Targets too few to judge, and the share of targets or of words that is nearly all."""


def whole_targets(recipe: Recipe, train: Sequence[Example]) -> str | None:
    """Say what share of targets of words, or of their words, never repeats; None if that is not nearly all.

    A cell may hold several forms. What is between them, such as a slash, is no word.

    >>> from windlass.experiment.data import as_data
    >>> from windlass.recipe import compose
    >>> recipe = compose("pronounce", None)
    >>> words = [(f"{a}{b}", f"/{a}ɛ{b}/") for a in "bdfgl" for b in "mnrst"]
    >>> whole_targets(recipe, as_data(words, words, recipe).train)
    '100% are one word that never repeats'
    >>> several = [(word, f"{sound} ~ {sound[:-1]}ə/") for word, sound in words]
    >>> whole_targets(recipe, as_data(several, several, recipe).train)
    '100% of their words never repeat'
    """
    tokens = getattr(recipe.target, "tokens", None)
    if getattr(tokens, "kind", None) != "words" or not sides_of(recipe).target_side.written:
        return None
    targets = Counter(as_text(example.target) for example in islice(train, SAMPLE))
    total = targets.total()
    if total < FEW:
        return None
    words = Counter(word for target in targets.elements() for word in target.split() if any(map(str.isalnum, word)))
    single = sum(count == 1 and len(target) > 1 and len(target.split()) == 1 for target, count in targets.items())
    if single >= MOST * total:
        return f"{single / total:.0%} are one word that never repeats"
    once = sum(count == 1 and len(word) > 1 for word, count in words.items())
    return f"{once / words.total():.0%} of their words never repeat" if once >= MOST * words.total() > 0 else None


def describe_whole_targets(recipe: Recipe, train: Sequence[Example]) -> str | None:
    """Say that targets of words hold hardly a word that repeats, and how to mend it.

    >>> from windlass.experiment.data import as_data
    >>> from windlass.recipe import compose
    >>> recipe = compose("pronounce", None)
    >>> words = [(f"{a}{b}", f"/{a}ɛ{b}/") for a in "bdfgl" for b in "mnrst"]
    >>> describe_whole_targets(recipe, as_data(words, words, recipe).train)
    'target: 100% are one word that never repeats, which cannot be learned: put spaces between phonemes, or add
    --set target.tokens=characters or --task transliterate'
    """
    if (share := whole_targets(recipe, train)) is None:
        return None
    spaces = f"put spaces between {'phonemes' if recipe.task == 'pronounce' else 'symbols'}"
    other = " or --task transliterate" if recipe.task == "pronounce" else ""
    return f"target: {share}, which cannot be learned: {spaces}, or add --set target.tokens=characters{other}"
