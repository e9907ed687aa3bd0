"""Learning rate schedules and scheduled sampling: options, each with its formula."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from windlass.core.fitting import Needs, Refuses, Term
from windlass.core.options import Options, named


@dataclass(frozen=True)
class PlateauState:
    """The state of a plateau schedule; the other schedules do not use it.

    >>> PlateauState().scale
    1.0
    """

    scale: float = 1.0  # multiplier of the learning rate
    bad: int = 0  # evaluations since the last improvement or reduction


class _Schedule(Options):
    spans_run: ClassVar[bool] = False
    """Whether the learning rate follows the length of the run."""

    kind: str
    warmup: int = Field(0, ge=0, description="steps of linear warm-up from 0")

    @abstractmethod
    def rate(self, base: float, step: int, epoch: int, total: int, plateau: PlateauState) -> float:
        """The learning rate of step `step` (from 1) of `total`, in epoch `epoch` (from 0); `base` is the peak."""

    def evaluated(self, state: PlateauState, better: bool) -> PlateauState:
        """The state after an evaluation."""
        return state


def _rise(warmup: int, step: int) -> float:
    """The warm-up factor of a step (from 1)."""
    return min(1.0, step / warmup) if warmup else 1.0


class Constant(_Schedule):
    """A constant learning rate after the warm-up.

    >>> Constant(warmup=100).warmup
    100
    """

    kind: Literal["constant"] = "constant"

    def rate(self, base: float, step: int, epoch: int, total: int, plateau: PlateauState) -> float:
        """The learning rate of a step."""
        return base * _rise(self.warmup, step)


class Plateau(_Schedule):
    """lr * factor after `patience` evaluations in a row without improvement on dev, but at least `minimum`.

    >>> Plateau(factor=0.5, patience=1).evaluated(PlateauState(), better=False)
    PlateauState(scale=0.5, bad=0)
    """

    kind: Literal["plateau"] = "plateau"
    factor: float = Field(0.5, gt=0, lt=1, description="multiplier of the learning rate at each reduction")
    patience: int = Field(2, ge=1, description="evaluations without improvement before the learning rate is reduced")
    minimum: float = Field(1e-6, ge=0, description="lower bound of the learning rate")

    def rate(self, base: float, step: int, epoch: int, total: int, plateau: PlateauState) -> float:
        """The learning rate of a step."""
        return max(self.minimum, base * plateau.scale) * _rise(self.warmup, step)

    def evaluated(self, state: PlateauState, better: bool) -> PlateauState:
        """The state after an evaluation."""
        if better:
            return replace(state, bad=0)
        if state.bad + 1 >= self.patience:
            return PlateauState(state.scale * self.factor, 0)
        return replace(state, bad=state.bad + 1)


class Cosine(_Schedule):
    """Cosine annealing from lr to `minimum`, over all steps after the warm-up (Loshchilov and Hutter 2017).

    The schedule spans all `epochs`: a run that `minutes` ends early does not reach `minimum`.

    >>> [Cosine(warmup=2).rate(1.0, step, 0, 4, PlateauState()) for step in (1, 2, 3)]
    [0.5, 1.0, 1.0]
    """

    spans_run: ClassVar[bool] = True

    kind: Literal["cosine"] = "cosine"
    minimum: float = Field(0.0, ge=0, description="final learning rate")

    def rate(self, base: float, step: int, epoch: int, total: int, plateau: PlateauState) -> float:
        """The learning rate of a step."""
        done = (step - 1 - self.warmup) / max(1, total - self.warmup)
        wave = (1 + math.cos(math.pi * min(1.0, max(0.0, done)))) / 2
        return (self.minimum + (base - self.minimum) * wave) * _rise(self.warmup, step)


class Exponential(_Schedule):
    """Exponential decay: lr * gamma^epoch.

    >>> Exponential(gamma=0.9).gamma
    0.9
    """

    kind: Literal["exponential"] = "exponential"
    gamma: float = Field(0.95, gt=0, lt=1, description="multiplier of the learning rate after every epoch")

    def rate(self, base: float, step: int, epoch: int, total: int, plateau: PlateauState) -> float:
        """The learning rate of a step."""
        return base * self.gamma**epoch * _rise(self.warmup, step)


class InverseSqrt(_Schedule):
    """lr * sqrt(warmup / step) after the warm-up (Vaswani et al. 2017).

    >>> InverseSqrt(warmup=400).warmup
    400
    """

    kind: Literal["inverse_sqrt"] = "inverse_sqrt"
    warmup: int = Field(500, ge=1, description="steps of linear warm-up from 0")

    def rate(self, base: float, step: int, epoch: int, total: int, plateau: PlateauState) -> float:
        """The learning rate of a step."""
        return base * min(_rise(self.warmup, step), math.sqrt(self.warmup / step))


ScheduleOptions = Annotated[Constant | Plateau | Cosine | Exponential | InverseSqrt, Field(discriminator="kind"), named]
"""All learning rate schedules."""


class _Sampling(Options):
    @abstractmethod
    def probability(self, step: int, epoch: float) -> float:
        """The probability that the decoder is fed its own last output, after `step` steps and `epoch` epochs."""


class _Feeding(_Sampling):
    def _terms(self, at: str) -> Iterator[Term]:
        yield Needs("model.decoder.feedback", f"{at} has no use where nothing written is fed back: leave it out")
        yield Refuses("train.chunk", f"{at} has no use with train.chunk, where a chunk goes through at once")


class NoSampling(_Sampling):
    """Teacher forcing: the decoder input is always the gold token.

    >>> from windlass.recipe.train import TrainOptions
    >>> TrainOptions(sampling="none").sampling == NoSampling()
    True
    """

    kind: Literal["none"] = "none"

    def probability(self, step: int, epoch: float) -> float:
        """0."""
        return 0.0


class ConstantSampling(_Feeding):
    """Scheduled sampling with a constant probability.

    >>> ConstantSampling(chance=0.1).chance
    0.1
    """

    kind: Literal["constant"] = "constant"
    chance: float = Field(
        0.1, gt=0, le=1, description="probability that the decoder input is its own last output, not the gold token"
    )

    def probability(self, step: int, epoch: float) -> float:
        """The constant."""
        return self.chance


class LinearSampling(_Feeding):
    """Scheduled sampling with a probability that changes linearly from `first` to `last`, then stays there.

    >>> LinearSampling(last=0.3, epochs=5).first
    0.0
    """

    kind: Literal["linear"] = "linear"
    first: float = Field(0.0, ge=0, le=1, description="sampling probability at the start")
    last: float = Field(0.25, ge=0, le=1, description="sampling probability after `epochs`")
    epochs: float = Field(10, gt=0, description="epochs over which it changes")

    @model_validator(mode="after")
    def _all_used(self) -> LinearSampling:
        if self.first == self.last:
            raise ValueError("first and last are equal: use kind constant")
        return self

    def probability(self, step: int, epoch: float) -> float:
        """Linear from `first` to `last`."""
        return self.first + (self.last - self.first) * min(1.0, epoch / self.epochs)


class InverseSigmoidSampling(_Feeding):
    """Scheduled sampling with the probability 1 - k / (k + exp(step / k)) (Bengio et al. 2015).

    >>> InverseSigmoidSampling(k=500).k
    500.0
    """

    kind: Literal["inverse_sigmoid"] = "inverse_sigmoid"
    k: float = Field(1000.0, ge=1, description="the higher k, the later the probability rises")

    def probability(self, step: int, epoch: float) -> float:
        """Rises with `step`."""
        return 1 / (1 + self.k * math.exp(-step / self.k))  # = 1 - k / (k + exp(step / k)), without overflow


SamplingOptions = Annotated[
    NoSampling | ConstantSampling | LinearSampling | InverseSigmoidSampling, Field(discriminator="kind"), named
]
"""Scheduled sampling: how often the decoder is fed its own output in training."""
