"""The learning rate over a run, and scheduled sampling: options, each with its own formula."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field, model_validator

from windlass.core.fitting import Needs, Refuses, Term
from windlass.core.options import Options, named


@dataclass(frozen=True)
class PlateauState:
    """What a plateau schedule remembers; the other schedules never change it.

    >>> PlateauState().scale
    1.0
    """

    scale: float = 1.0  # what the rate is multiplied by
    bad: int = 0  # evaluations since the last better score or fall of the rate


class _Schedule(Options):
    @abstractmethod
    def rate(self, base: float, step: int, epoch: int, total: int, plateau: PlateauState) -> float:
        """The rate of update number `step` (from 1) of `total`, made in `epoch` (from 0); `base` is the highest."""

    def evaluated(self, state: PlateauState, better: bool) -> PlateauState:
        """What to remember after an evaluation."""
        return state


def rise(warmup: int, step: int) -> float:
    """The share of the full rate at a step of the warm-up, from 1.

    >>> rise(4, 1), rise(4, 9), rise(0, 1)
    (0.25, 1.0, 1.0)
    """
    return min(1.0, step / warmup) if warmup else 1.0


class Constant(_Schedule):
    """lr, after the warm-up.

    >>> Constant(warmup=100).warmup
    100
    """

    kind: Literal["constant"] = "constant"
    warmup: int = Field(0, ge=0, description="steps over which the rate rises in a line from 0")

    def rate(self, base: float, step: int, epoch: int, total: int, plateau: PlateauState) -> float:
        """The rate of an update."""
        return base * rise(self.warmup, step)


class Plateau(_Schedule):
    """lr * factor after `patience` evaluations in a row without a better dev score; never under `minimum`.

    >>> Plateau().factor
    0.5
    """

    kind: Literal["plateau"] = "plateau"
    warmup: int = Field(0, ge=0, description="steps over which the rate rises in a line from 0")
    factor: float = Field(0.5, gt=0, lt=1, description="what the rate is multiplied by when it falls")
    patience: int = Field(2, ge=1, description="evaluations without a better dev score before the rate falls")
    minimum: float = Field(1e-6, ge=0, description="the lowest learning rate")

    def rate(self, base: float, step: int, epoch: int, total: int, plateau: PlateauState) -> float:
        """The rate of an update."""
        return max(self.minimum, base * plateau.scale) * rise(self.warmup, step)

    def evaluated(self, state: PlateauState, better: bool) -> PlateauState:
        """What to remember after an evaluation.

        >>> Plateau(factor=0.5, patience=1).evaluated(PlateauState(), better=False)
        PlateauState(scale=0.5, bad=0)
        """
        if better:
            return replace(state, bad=0)
        if state.bad + 1 >= self.patience:
            return PlateauState(state.scale * self.factor, 0)
        return replace(state, bad=state.bad + 1)


class Cosine(_Schedule):
    """Half a cosine from lr down to `minimum`, over all steps of the run after the warm-up.

    The run is its epochs: one that `minutes` ends early stops on the way down.

    >>> Cosine(warmup=10).minimum
    0.0
    """

    kind: Literal["cosine"] = "cosine"
    warmup: int = Field(0, ge=0, description="steps over which the rate rises in a line from 0")
    minimum: float = Field(0.0, ge=0, description="the learning rate at the end")

    def rate(self, base: float, step: int, epoch: int, total: int, plateau: PlateauState) -> float:
        """The rate of an update.

        >>> [Cosine(warmup=2).rate(1.0, step, 0, 4, PlateauState()) for step in (1, 2, 3)]
        [0.5, 1.0, 1.0]
        """
        done = (step - 1 - self.warmup) / max(1, total - self.warmup)
        wave = (1 + math.cos(math.pi * min(1.0, max(0.0, done)))) / 2
        return (self.minimum + (base - self.minimum) * wave) * rise(self.warmup, step)


class Exponential(_Schedule):
    """lr * gamma^epoch.

    >>> Exponential(gamma=0.9).gamma
    0.9
    """

    kind: Literal["exponential"] = "exponential"
    warmup: int = Field(0, ge=0, description="steps over which the rate rises in a line from 0")
    gamma: float = Field(0.95, gt=0, lt=1, description="what the rate is multiplied by after every epoch")

    def rate(self, base: float, step: int, epoch: int, total: int, plateau: PlateauState) -> float:
        """The rate of an update."""
        return base * self.gamma**epoch * rise(self.warmup, step)


class InverseSqrt(_Schedule):
    """lr * sqrt(warmup / step), after the warm-up (Vaswani et al. 2017).

    >>> InverseSqrt(warmup=400).warmup
    400
    """

    kind: Literal["inverse_sqrt"] = "inverse_sqrt"
    warmup: int = Field(500, ge=1, description="steps over which the rate rises in a line from 0")

    def rate(self, base: float, step: int, epoch: int, total: int, plateau: PlateauState) -> float:
        """The rate of an update."""
        return base * min(rise(self.warmup, step), math.sqrt(self.warmup / step))


ScheduleOptions = Annotated[Constant | Plateau | Cosine | Exponential | InverseSqrt, Field(discriminator="kind"), named]
"""The learning rate schedules."""


class _Sampling(Options):
    @abstractmethod
    def probability(self, step: int, epoch: float) -> float:
        """The probability that a decoder is fed its own last token, after `step` updates, `epoch` epochs."""


class _Feeding(_Sampling):
    def _terms(self, at: str) -> Iterator[Term]:
        yield Needs("model.decoder.feedback", f"{at} has no use where nothing written is fed back: leave it out")
        yield Refuses("train.chunk", f"{at} has no use with train.chunk, where a chunk goes through at once")


class NoSampling(_Sampling):
    """Teacher forcing: the decoder is always fed the right token.

    >>> NoSampling().kind
    'none'
    """

    kind: Literal["none"] = "none"

    def probability(self, step: int, epoch: float) -> float:
        """Never."""
        return 0.0


class ConstantSampling(_Feeding):
    """With this chance a decoder is fed its own last token.

    >>> ConstantSampling(chance=0.1).chance
    0.1
    """

    kind: Literal["constant"] = "constant"
    chance: float = Field(0.1, gt=0, le=1, description="of its own last token instead of the right one")

    def probability(self, step: int, epoch: float) -> float:
        """Always the same."""
        return self.chance


class LinearSampling(_Feeding):
    """The chance goes in a line from `first` to `last` over `epochs` epochs, and stays there.

    >>> LinearSampling(last=0.3, epochs=5).first
    0.0
    """

    kind: Literal["linear"] = "linear"
    first: float = Field(0.0, ge=0, le=1, description="the chance at the start")
    last: float = Field(0.25, ge=0, le=1, description="the chance at the end")
    epochs: float = Field(10, gt=0, description="how long the way from first to last takes")

    @model_validator(mode="after")
    def _all_used(self) -> LinearSampling:
        if self.first == self.last:
            raise ValueError("first and last are the same: use kind constant")
        return self

    def probability(self, step: int, epoch: float) -> float:
        """On the way from first to last.

        >>> LinearSampling(first=0.0, last=0.5, epochs=2).probability(step=10, epoch=1.0)
        0.25
        """
        return self.first + (self.last - self.first) * min(1.0, epoch / self.epochs)


class InverseSigmoidSampling(_Feeding):
    """The chance is 1 - k / (k + exp(step / k)) (Bengio et al. 2015).

    >>> InverseSigmoidSampling(k=500).k
    500.0
    """

    kind: Literal["inverse_sigmoid"] = "inverse_sigmoid"
    k: float = Field(1000.0, ge=1, description="the higher, the later the chance rises")

    def probability(self, step: int, epoch: float) -> float:
        """Rises with the steps."""
        return 1 / (1 + self.k * math.exp(-step / self.k))  # = 1 - k / (k + exp(step / k)), without overflow


SamplingOptions = Annotated[
    NoSampling | ConstantSampling | LinearSampling | InverseSigmoidSampling,
    Field(discriminator="kind"),
    named,
]
"""Scheduled sampling: how often a decoder is fed its own last token in training."""
