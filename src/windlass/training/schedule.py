"""The learning rate and the chance of scheduled sampling, as pure functions of where a run stands."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from windlass.recipe.train import SamplingOptions, ScheduleOptions


@dataclass(frozen=True)
class PlateauState:
    """What a plateau schedule remembers; the other schedules never change it.

    >>> PlateauState().scale
    1.0
    """

    scale: float = 1.0  # what the rate is multiplied by
    bad: int = 0  # evaluations since the last better score or fall of the rate


def learning_rate(
    schedule: ScheduleOptions, base: float, step: int, epoch: int, total: int, plateau: PlateauState
) -> float:
    """The rate of update number `step` (from 1) of `total`, made in `epoch` (from 0); `base` is the highest.

    >>> from windlass.recipe.train import Cosine
    >>> [learning_rate(Cosine(warmup=2), 1.0, step, 0, 4, PlateauState()) for step in (1, 2, 3)]
    [0.5, 1.0, 1.0]
    """
    rise = min(1.0, step / schedule.warmup) if schedule.warmup else 1.0
    if schedule.kind == "constant":
        return base * rise
    if schedule.kind == "plateau":
        return max(schedule.minimum, base * plateau.scale) * rise
    if schedule.kind == "exponential":
        return base * schedule.gamma**epoch * rise
    if schedule.kind == "inverse_sqrt":
        return base * min(rise, math.sqrt(schedule.warmup / step))
    done = (step - 1 - schedule.warmup) / max(1, total - schedule.warmup)
    wave = (1 + math.cos(math.pi * min(1.0, max(0.0, done)))) / 2
    return (schedule.minimum + (base - schedule.minimum) * wave) * rise


def after_evaluation(schedule: ScheduleOptions, state: PlateauState, better: bool) -> PlateauState:
    """What a schedule remembers after an evaluation.

    >>> from windlass.recipe.train import Plateau
    >>> after_evaluation(Plateau(factor=0.5, patience=1), PlateauState(), better=False)
    PlateauState(scale=0.5, bad=0)
    """
    if schedule.kind != "plateau":
        return state
    if better:
        return replace(state, bad=0)
    if state.bad + 1 >= schedule.patience:
        return PlateauState(state.scale * schedule.factor, 0)
    return replace(state, bad=state.bad + 1)


def own_chance(sampling: SamplingOptions, step: int, epoch: float) -> float:
    """The chance that a decoder is fed its own last token after `step` updates, `epoch` (a fraction) epochs.

    >>> from windlass.recipe.train import LinearSampling
    >>> own_chance(LinearSampling(first=0.0, last=0.5, epochs=2), step=10, epoch=1.0)
    0.25
    """
    if sampling.kind == "none":
        return 0.0
    if sampling.kind == "constant":
        return sampling.chance
    if sampling.kind == "linear":
        return sampling.first + (sampling.last - sampling.first) * min(1.0, epoch / sampling.epochs)
    return 1 / (1 + sampling.k * math.exp(-step / sampling.k))  # = 1 - k / (k + exp(step / k)), without overflow
