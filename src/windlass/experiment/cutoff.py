"""Choose the cutoff of a decision on the validation data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from windlass.bundle import Bundle
from windlass.data.examples import Example
from windlass.heads.cutoff import Cutoff
from windlass.inference.evaluate import evaluate
from windlass.metrics import higher_is_better
from windlass.training.finetune import Note

ENOUGH = 100
"""Examples of dev data that are enough to choose by; with fewer, the cutoff stays where it starts."""


def choose_cutoff(bundle: Bundle, dev: Sequence[Example], metric: str, note: Note) -> Bundle:
    """Return the bundle with the cutoff that is best on dev and its scores, if the recipe leaves it to training.

    >>> from windlass.data import Sides
    >>> from windlass.recipe import Recipe
    >>> bundle = Bundle.new(Recipe(), Sides.tiny())
    >>> choose_cutoff(bundle, [], "cer", print) is bundle  # text has none
    True
    """
    cutoff = next((part for part in bundle.model.modules() if isinstance(part, Cutoff) and part.choices), None)
    if cutoff is None or len(dev) < ENOUGH:
        return bundle
    sign = 1 if higher_is_better(metric) else -1
    found = {}
    for value in sorted({cutoff.start, *cutoff.choices}, key=lambda value: abs(math.log(value / cutoff.start))):
        cutoff.value = value
        found[value] = evaluate([bundle], dev).metrics
    best = max(found, key=lambda value: sign * found[value][metric])  # of equals, the nearest to the start
    cutoff.value = best
    told = f"{metric} {found[best][metric]:.1f} on dev"
    if best == cutoff.start:
        note(f"model.head.{cutoff.option}: {best:g}, the default, is best: {told}")
    else:
        default = f"{found[cutoff.start][metric]:.1f} with {cutoff.start:g}, the default"
        note(f"model.head.{cutoff.option}: {best:g} is best: {told}, {default}")
    return replace(bundle, scores=found[best])
