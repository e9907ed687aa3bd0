"""How to train, as typed options. Each record holds only what its own kind uses."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, model_validator

from windlass.core.fitting import Needs, Term
from windlass.core.options import Options, named
from windlass.recipe.schedule import Constant, NoSampling, SamplingOptions, ScheduleOptions


class _Optimiser(Options):
    @property
    def moments(self) -> int:
        """How many averages it keeps for every weight."""
        return 2

    @property
    def sparse_updates(self) -> bool:
        """Whether rows of a table that a batch has not stay as they are."""
        return False

    @abstractmethod
    def algorithm(self) -> tuple[type[Any], dict[str, Any]]:
        """The optimiser of torch, and its own settings."""


class Adam(_Optimiser):
    """Adam (Kingma and Ba 2015); weight decay is added to the gradient (L2).

    >>> Adam(lr=0.002).betas
    (0.9, 0.999)
    """

    kind: Literal["adam"] = "adam"
    lr: float = Field(1e-3, gt=0, description="learning rate at its highest")
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = Field(
        (0.9, 0.999), description="how slowly the averages of the gradient and of its square move"
    )
    eps: float = Field(1e-8, gt=0, description="added to the root of the second average")
    weight_decay: float = Field(0.0, ge=0, description="L2, on matrices only (not on biases and other vectors)")
    lazy: bool = Field(
        False, description="of embeddings, only the rows that a batch has are updated: another optimiser"
    )

    @property
    def sparse_updates(self) -> bool:
        """Where it is lazy."""
        return self.lazy

    def algorithm(self) -> tuple[type[Any], dict[str, Any]]:
        """Adam."""
        return torch.optim.Adam, {"betas": self.betas, "eps": self.eps}


class AdamW(_Optimiser):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019); without decay it would be Adam.

    >>> AdamW().weight_decay
    0.01
    """

    kind: Literal["adamw"] = "adamw"
    lr: float = Field(1e-3, gt=0, description="learning rate at its highest")
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = Field(
        (0.9, 0.999), description="how slowly the averages of the gradient and of its square move"
    )
    eps: float = Field(1e-8, gt=0, description="added to the root of the second average")
    weight_decay: float = Field(0.01, gt=0, description="matrices shrink by lr * this at every step")

    def algorithm(self) -> tuple[type[Any], dict[str, Any]]:
        """AdamW."""
        return torch.optim.AdamW, {"betas": self.betas, "eps": self.eps}


class SGD(_Optimiser):
    """Stochastic gradient descent, with momentum if told; weight decay is added to the gradient (L2).

    >>> SGD(lr=0.5, momentum=0.9, nesterov=True).nesterov
    True
    """

    kind: Literal["sgd"] = "sgd"
    lr: float = Field(0.1, gt=0, description="learning rate at its highest")
    momentum: float = Field(0.0, ge=0, lt=1, description="how much of the last update goes into the next")
    nesterov: bool = Field(False, description="look ahead along the momentum")
    weight_decay: float = Field(0.0, ge=0, description="L2, on matrices only (not on biases and other vectors)")

    @model_validator(mode="after")
    def _all_used(self) -> SGD:
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov: true changes nothing without momentum: set momentum above 0")
        return self

    @property
    def moments(self) -> int:
        """One, with momentum."""
        return 1 if self.momentum else 0

    def algorithm(self) -> tuple[type[Any], dict[str, Any]]:
        """SGD."""
        return torch.optim.SGD, {"momentum": self.momentum, "nesterov": self.nesterov}


OptimiserOptions = Annotated[Adam | AdamW | SGD, Field(discriminator="kind"), named]
"""The optimisers."""


class _Average(Options):
    @property
    def copies(self) -> int:
        """How many times the weights are held for it."""
        return 0


class NoAverage(_Average):
    """The weights are used as they are.

    >>> NoAverage().kind
    'none'
    """

    kind: Literal["none"] = "none"


class Ema(_Average):
    """A moving average of the weights after every step: a = d * a + (1 - d) * w.

    d = min(decay, (1 + n) / (10 + n)) after n steps, so that the random start is soon forgotten.

    >>> Ema(decay=0.99).decay
    0.99
    """

    kind: Literal["ema"] = "ema"
    decay: float = Field(0.999, gt=0, lt=1, description="how slowly the average moves")

    @property
    def copies(self) -> int:
        """The average, and the weights while it is evaluated."""
        return 2


class Checkpoints(_Average):
    """The mean of the weights at the last `count` evaluations.

    >>> Checkpoints(count=3).count
    3
    """

    kind: Literal["checkpoints"] = "checkpoints"
    count: int = Field(5, ge=2, description="how many evaluations back the mean goes")

    @property
    def copies(self) -> int:
        """The weights of earlier evaluations, and their mean."""
        return self.count


AverageOptions = Annotated[NoAverage | Ema | Checkpoints, Field(discriminator="kind"), named]
"""What is evaluated and kept: the weights, or an average of them."""


class TrainOptions(Options):
    """How to train.

    >>> TrainOptions(optimiser="sgd", schedule={"kind": "cosine", "warmup": 50}).optimiser.lr
    0.1
    """

    optimiser: OptimiserOptions = Field(Adam(), description="how gradients become updates")
    schedule: ScheduleOptions = Field(Constant(), description="how the learning rate moves over the run")
    clip: float | None = Field(1.0, gt=0, description="gradients longer than this are scaled down to it")
    epochs: int = Field(30, ge=1, description="passes over the data")
    minutes: float | None = Field(
        None,
        gt=0,
        description="stop in time for the last evaluation to end by then; time before a resume counts",
    )
    batch_tokens: int = Field(2048, ge=1, description="the most a batch may hold: rows x its longest sequence")
    chunk: int | None = Field(
        None,
        ge=1,
        description="running text: tokens of a row at once, the state is carried on; none: whole texts, a line each",
    )
    evaluate_steps: int | None = Field(None, ge=1, description="evaluate every so many steps, not every epoch")
    patience: int = Field(10, ge=0, description="stop after so many evaluations without a better one; 0: never")
    average: AverageOptions = Field(NoAverage(), description="what is evaluated and kept")
    sampling: SamplingOptions = Field(NoSampling(), description="how often the decoder is fed its own last token")
    checkpoint_minutes: float = Field(2.0, gt=0, description="checkpoint this often, and at each evaluation")
    threads: int | None = Field(None, ge=1, description="CPU threads; the result is exact for one number of them")
    processes: Literal["auto"] | Annotated[int, Field(ge=1)] = Field(
        "auto", description="on the CPU, each with its rows of every batch and one thread; auto: tried where it may pay"
    )

    @model_validator(mode="after")
    def _all_used(self) -> TrainOptions:
        if self.chunk is not None and self.chunk > self.batch_tokens:
            raise ValueError(
                f"chunk: {self.chunk} is more than batch_tokens: {self.batch_tokens}, which are rows x chunk: lower it"
            )
        if self.optimiser.sparse_updates and self.processes not in ("auto", 1):
            raise ValueError(f"processes: {self.processes} share whole gradients: leave optimiser.lazy out, or set 1")
        if self.threads not in (None, 1) and self.processes not in ("auto", 1):
            raise ValueError(f"processes: {self.processes} have a thread each: leave threads: {self.threads} out")
        lr, minimum = self.optimiser.lr, getattr(self.schedule, "minimum", 0.0)
        waits = getattr(self.schedule, "patience", 0)
        if 0 < self.patience <= waits:
            raise ValueError(
                f"schedule.patience: {waits} changes nothing, as the run stops after patience: {self.patience}: set it "
                "lower than that"
            )
        if minimum >= lr:
            raise ValueError(f"schedule.minimum: {minimum} is not below optimiser.lr: {lr}: set it lower")
        return self

    def _terms(self, at: str) -> Iterator[Term]:
        if self.chunk is not None:
            yield Needs(
                "source nothing", f"{at}.chunk: {self.chunk} is for a language model: leave it out, or set task: lm"
            )
