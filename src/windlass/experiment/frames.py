"""How many outputs of every place a CTC model needs for the targets of its data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from windlass.bundle import Bundle
from windlass.core.errors import DataError
from windlass.core.records import Batch
from windlass.heads.ctc import CtcHead, CtcHeadOptions
from windlass.recipe import Recipe

SHARE = 0.99
"""Of the training targets, that must fit."""
ROOM = 1.5
"""Frames per frame that is needed: letters that write two tokens are next to letters that write one."""
MOST = 20
"""Frames per place, at most: targets that are much longer than their inputs are not written from left to right."""


def with_frames(bundle: Bundle, batches: Callable[[], Iterable[Batch]], note: Callable[[str], None]) -> Bundle:
    """The bundle with the frames that the targets of some batches need, if the recipe leaves them to the data.

    >>> from windlass.data import Sides
    >>> bundle = Bundle.new(Recipe(), Sides.tiny())
    >>> with_frames(bundle, list, print) is bundle  # it has a decoder
    True
    """
    options, head = bundle.recipe.model.head, bundle.model.head
    if not isinstance(options, CtcHeadOptions) or options.frames is not None:
        return bundle
    assert isinstance(head, CtcHead)
    needed: list[float] = []
    for batch in batches():
        places = -(-batch.lengths // bundle.model.encoder.joined)
        needed += (head.frames_needed(batch) / places.clamp(min=1)).tolist()
    frames = max(1, math.ceil(ROOM * sorted(needed)[int(SHARE * (len(needed) - 1))]))
    if frames > MOST:
        raise DataError(
            f"targets are much longer than their inputs: CTC would need {frames} outputs for each place, and at most "
            f"{MOST} make sense: set model.head: text, a decoder with attention"
        )
    if frames > 1:
        what = f"{frames} outputs for each place of the source"
        note(f"CTC with {what}, enough for 99 of 100 targets of training (model.head.frames)")
    return Bundle.new(_set(bundle.recipe, options, frames), bundle.sides)


def frames_as_before(recipe: Recipe, before: Recipe) -> Recipe:
    """The recipe of a run that goes on, with the frames that were chosen when it began.

    >>> frames_as_before(Recipe(), Recipe()) == Recipe()
    True
    """
    options, old = recipe.model.head, before.model.head
    if isinstance(options, CtcHeadOptions) and isinstance(old, CtcHeadOptions) and options.frames is None:
        return _set(recipe, options, old.frames)
    return recipe


def _set(recipe: Recipe, options: CtcHeadOptions, frames: int | None) -> Recipe:
    model = recipe.model.model_copy(update={"head": options.model_copy(update={"frames": frames})})
    return recipe.model_copy(update={"model": model})
