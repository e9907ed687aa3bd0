"""How to train, as typed options. Each record holds only what its own kind uses."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from windlass.core.options import Options, named


class Adam(Options):
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


class AdamW(Options):
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


class SGD(Options):
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


OptimiserOptions = Annotated[Adam | AdamW | SGD, Field(discriminator="kind"), named]
"""The optimisers."""


class Constant(Options):
    """lr, after the warm-up.

    >>> Constant(warmup=100).warmup
    100
    """

    kind: Literal["constant"] = "constant"
    warmup: int = Field(0, ge=0, description="steps over which the rate rises in a line from 0")


class Plateau(Options):
    """lr * factor after `patience` evaluations in a row without a better dev score; never under `minimum`.

    >>> Plateau().factor
    0.5
    """

    kind: Literal["plateau"] = "plateau"
    warmup: int = Field(0, ge=0, description="steps over which the rate rises in a line from 0")
    factor: float = Field(0.5, gt=0, lt=1, description="what the rate is multiplied by when it falls")
    patience: int = Field(2, ge=1, description="evaluations without a better dev score before the rate falls")
    minimum: float = Field(1e-6, ge=0, description="the lowest learning rate")


class Cosine(Options):
    """Half a cosine from lr down to `minimum`, over all steps of the run after the warm-up.

    The run is its epochs: one that `minutes` ends early stops on the way down.

    >>> Cosine(warmup=10).minimum
    0.0
    """

    kind: Literal["cosine"] = "cosine"
    warmup: int = Field(0, ge=0, description="steps over which the rate rises in a line from 0")
    minimum: float = Field(0.0, ge=0, description="the learning rate at the end")


class Exponential(Options):
    """lr * gamma^epoch.

    >>> Exponential(gamma=0.9).gamma
    0.9
    """

    kind: Literal["exponential"] = "exponential"
    warmup: int = Field(0, ge=0, description="steps over which the rate rises in a line from 0")
    gamma: float = Field(0.95, gt=0, lt=1, description="what the rate is multiplied by after every epoch")


class InverseSqrt(Options):
    """lr * sqrt(warmup / step), after the warm-up (Vaswani et al. 2017).

    >>> InverseSqrt(warmup=400).warmup
    400
    """

    kind: Literal["inverse_sqrt"] = "inverse_sqrt"
    warmup: int = Field(500, ge=1, description="steps over which the rate rises in a line from 0")


ScheduleOptions = Annotated[Constant | Plateau | Cosine | Exponential | InverseSqrt, Field(discriminator="kind"), named]
"""The learning rate schedules."""


class NoAverage(Options):
    """The weights are used as they are.

    >>> NoAverage().kind
    'none'
    """

    kind: Literal["none"] = "none"


class Ema(Options):
    """A moving average of the weights after every step: a = d * a + (1 - d) * w.

    d = min(decay, (1 + n) / (10 + n)) after n steps, so that the random start is soon forgotten.

    >>> Ema(decay=0.99).decay
    0.99
    """

    kind: Literal["ema"] = "ema"
    decay: float = Field(0.999, gt=0, lt=1, description="how slowly the average moves")


class Checkpoints(Options):
    """The mean of the weights at the last `count` evaluations.

    >>> Checkpoints(count=3).count
    3
    """

    kind: Literal["checkpoints"] = "checkpoints"
    count: int = Field(5, ge=2, description="how many evaluations back the mean goes")


AverageOptions = Annotated[NoAverage | Ema | Checkpoints, Field(discriminator="kind"), named]
"""What is evaluated and kept: the weights, or an average of them."""


class NoSampling(Options):
    """Teacher forcing: the decoder is always fed the right token.

    >>> NoSampling().kind
    'none'
    """

    kind: Literal["none"] = "none"


class ConstantSampling(Options):
    """With this chance a decoder is fed its own last token.

    >>> ConstantSampling(chance=0.1).chance
    0.1
    """

    kind: Literal["constant"] = "constant"
    chance: float = Field(0.1, gt=0, le=1, description="of its own last token instead of the right one")


class LinearSampling(Options):
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


class InverseSigmoidSampling(Options):
    """The chance is 1 - k / (k + exp(step / k)) (Bengio et al. 2015).

    >>> InverseSigmoidSampling(k=500).k
    500.0
    """

    kind: Literal["inverse_sigmoid"] = "inverse_sigmoid"
    k: float = Field(1000.0, ge=1, description="the higher, the later the chance rises")


SamplingOptions = Annotated[
    NoSampling | ConstantSampling | LinearSampling | InverseSigmoidSampling,
    Field(discriminator="kind"),
    named,
]
"""Scheduled sampling: how often a decoder is fed its own last token in training."""


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
        schedule, lr = self.schedule, self.optimiser.lr
        if self.chunk is not None and self.chunk > self.batch_tokens:
            raise ValueError(
                f"chunk: {self.chunk} is more than batch_tokens: {self.batch_tokens}, which are rows x chunk: lower it"
            )
        if self.optimiser.kind == "adam" and self.optimiser.lazy and self.processes not in ("auto", 1):
            raise ValueError(f"processes: {self.processes} share whole gradients: leave optimiser.lazy out, or set 1")
        if self.threads not in (None, 1) and self.processes not in ("auto", 1):
            raise ValueError(f"processes: {self.processes} have a thread each: leave threads: {self.threads} out")
        if schedule.kind == "plateau" and 0 < self.patience <= schedule.patience:
            raise ValueError(
                f"schedule.patience: {schedule.patience} changes nothing, as the run stops after patience: "
                f"{self.patience}: set it lower than that"
            )
        if (schedule.kind == "plateau" or schedule.kind == "cosine") and schedule.minimum >= lr:
            raise ValueError(f"schedule.minimum: {schedule.minimum} is not below optimiser.lr: {lr}: set it lower")
        return self
