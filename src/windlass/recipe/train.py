"""Training options. Each class holds only what its own kind uses."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from windlass.core.options import Options, named


class Adam(Options):
    """Adam (Kingma and Ba 2015). Weight decay is L2 regularisation: it is added to the gradient.

    >>> Adam(lr=0.002).betas
    (0.9, 0.999)
    """

    kind: Literal["adam"] = "adam"
    lr: float = Field(1e-3, gt=0, description="peak learning rate")
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = Field(
        (0.9, 0.999), description="decay rates of the running averages of the gradient and of its square"
    )
    eps: float = Field(1e-8, gt=0, description="added to the denominator, for numerical stability")
    weight_decay: float = Field(0.0, ge=0, description="L2 penalty, on matrices only (not on biases and other vectors)")
    lazy: bool = Field(
        False, description="update only the embedding rows that occur in the batch, as SparseAdam; results differ"
    )


class AdamW(Options):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019). Without decay, use `adam`.

    >>> AdamW().weight_decay
    0.01
    """

    kind: Literal["adamw"] = "adamw"
    lr: float = Field(1e-3, gt=0, description="peak learning rate")
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = Field(
        (0.9, 0.999), description="decay rates of the running averages of the gradient and of its square"
    )
    eps: float = Field(1e-8, gt=0, description="added to the denominator, for numerical stability")
    weight_decay: float = Field(
        0.01, gt=0, description="at every step, matrices are multiplied by 1 - lr * weight_decay"
    )


class SGD(Options):
    """Stochastic gradient descent, optionally with momentum. Weight decay is L2 regularisation.

    >>> SGD(lr=0.5, momentum=0.9, nesterov=True).nesterov
    True
    """

    kind: Literal["sgd"] = "sgd"
    lr: float = Field(0.1, gt=0, description="peak learning rate")
    momentum: float = Field(0.0, ge=0, lt=1, description="momentum factor")
    nesterov: bool = Field(False, description="use Nesterov momentum")
    weight_decay: float = Field(0.0, ge=0, description="L2 penalty, on matrices only (not on biases and other vectors)")

    @model_validator(mode="after")
    def _all_used(self) -> SGD:
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov: true has no effect without momentum: set momentum above 0")
        return self


OptimiserOptions = Annotated[Adam | AdamW | SGD, Field(discriminator="kind"), named]
"""All optimisers."""


class Constant(Options):
    """A constant learning rate after the warm-up.

    >>> Constant(warmup=100).warmup
    100
    """

    kind: Literal["constant"] = "constant"
    warmup: int = Field(0, ge=0, description="steps of linear warm-up from 0")


class Plateau(Options):
    """lr * factor after `patience` evaluations in a row without improvement on dev, but at least `minimum`.

    >>> Plateau().factor
    0.5
    """

    kind: Literal["plateau"] = "plateau"
    warmup: int = Field(0, ge=0, description="steps of linear warm-up from 0")
    factor: float = Field(0.5, gt=0, lt=1, description="multiplier of the learning rate at each reduction")
    patience: int = Field(2, ge=1, description="evaluations without improvement before the learning rate is reduced")
    minimum: float = Field(1e-6, ge=0, description="lower bound of the learning rate")


class Cosine(Options):
    """Cosine annealing from lr to `minimum`, over all steps after the warm-up (Loshchilov and Hutter 2017).

    The schedule spans all `epochs`: a run that `minutes` ends early does not reach `minimum`.

    >>> Cosine(warmup=10).minimum
    0.0
    """

    kind: Literal["cosine"] = "cosine"
    warmup: int = Field(0, ge=0, description="steps of linear warm-up from 0")
    minimum: float = Field(0.0, ge=0, description="final learning rate")


class Exponential(Options):
    """Exponential decay: lr * gamma^epoch.

    >>> Exponential(gamma=0.9).gamma
    0.9
    """

    kind: Literal["exponential"] = "exponential"
    warmup: int = Field(0, ge=0, description="steps of linear warm-up from 0")
    gamma: float = Field(0.95, gt=0, lt=1, description="multiplier of the learning rate after every epoch")


class InverseSqrt(Options):
    """lr * sqrt(warmup / step) after the warm-up (Vaswani et al. 2017).

    >>> InverseSqrt(warmup=400).warmup
    400
    """

    kind: Literal["inverse_sqrt"] = "inverse_sqrt"
    warmup: int = Field(500, ge=1, description="steps of linear warm-up from 0")


ScheduleOptions = Annotated[Constant | Plateau | Cosine | Exponential | InverseSqrt, Field(discriminator="kind"), named]
"""All learning rate schedules."""


class NoAverage(Options):
    """No averaging.

    >>> TrainOptions(average="none").average == NoAverage()
    True
    """

    kind: Literal["none"] = "none"


class Ema(Options):
    """Exponential moving average of the weights, updated after every step: a = d * a + (1 - d) * w.

    d = min(decay, (1 + n) / (10 + n)) after n steps, so that the initial weights are soon forgotten.

    >>> Ema(decay=0.99).decay
    0.99
    """

    kind: Literal["ema"] = "ema"
    decay: float = Field(0.999, gt=0, lt=1, description="decay rate of the average")


class Checkpoints(Options):
    """Checkpoint averaging: the mean of the weights at the last `count` evaluations.

    >>> Checkpoints(count=3).count
    3
    """

    kind: Literal["checkpoints"] = "checkpoints"
    count: int = Field(5, ge=2, description="number of evaluations averaged")


AverageOptions = Annotated[NoAverage | Ema | Checkpoints, Field(discriminator="kind"), named]
"""Weight averaging: which weights are evaluated and saved."""


class NoSampling(Options):
    """Teacher forcing: the decoder input is always the gold token.

    >>> TrainOptions(sampling="none").sampling == NoSampling()
    True
    """

    kind: Literal["none"] = "none"


class ConstantSampling(Options):
    """Scheduled sampling with a constant probability.

    >>> ConstantSampling(chance=0.1).chance
    0.1
    """

    kind: Literal["constant"] = "constant"
    chance: float = Field(
        0.1, gt=0, le=1, description="probability that the decoder input is its own last output, not the gold token"
    )


class LinearSampling(Options):
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


class InverseSigmoidSampling(Options):
    """Scheduled sampling with the probability 1 - k / (k + exp(step / k)) (Bengio et al. 2015).

    >>> InverseSigmoidSampling(k=500).k
    500.0
    """

    kind: Literal["inverse_sigmoid"] = "inverse_sigmoid"
    k: float = Field(1000.0, ge=1, description="the higher k, the later the probability rises")


SamplingOptions = Annotated[
    NoSampling | ConstantSampling | LinearSampling | InverseSigmoidSampling,
    Field(discriminator="kind"),
    named,
]
"""Scheduled sampling: how often the decoder is fed its own output in training."""


class TrainOptions(Options):
    """All training options.

    >>> TrainOptions(optimiser="sgd", schedule={"kind": "cosine", "warmup": 50}).optimiser.lr
    0.1
    """

    optimiser: OptimiserOptions = Field(Adam(), description="the optimiser and its learning rate")
    schedule: ScheduleOptions = Field(Constant(), description="learning rate schedule")
    clip: float | None = Field(1.0, gt=0, description="maximum norm of the gradient; null: no clipping")
    epochs: int = Field(30, ge=1, description="maximum number of epochs")
    minutes: float | None = Field(
        None,
        gt=0,
        description="time limit, including the final evaluation and the time before a resume",
    )
    batch_tokens: int = Field(
        2048, ge=1, description="maximum batch size in tokens, padding included: rows x longest sequence"
    )
    chunk: int | None = Field(
        None,
        ge=1,
        description="truncated BPTT on running text: tokens per chunk; unset: one text per line, no state carried over",
    )
    evaluate_steps: int | None = Field(None, ge=1, description="evaluate every N steps; unset: every epoch")
    patience: int = Field(10, ge=0, description="early stopping after N evaluations without improvement; 0: never")
    average: AverageOptions = Field(NoAverage(), description="weight averaging, for evaluation and the saved model")
    sampling: SamplingOptions = Field(NoSampling(), description="scheduled sampling")
    checkpoint_minutes: float = Field(
        2.0, gt=0, description="minutes between checkpoints; every evaluation writes one too"
    )
    threads: int | None = Field(
        None, ge=1, description="CPU threads; runs are reproducible bit by bit for the same number"
    )
    processes: Literal["auto"] | Annotated[int, Field(ge=1)] = Field(
        "auto", description="data-parallel processes on the CPU, of one thread each; auto: used if measurably faster"
    )

    @model_validator(mode="after")
    def _all_used(self) -> TrainOptions:
        schedule, lr = self.schedule, self.optimiser.lr
        if self.chunk is not None and self.chunk > self.batch_tokens:
            raise ValueError(
                f"chunk: {self.chunk} is more than batch_tokens: {self.batch_tokens} (rows x chunk): lower it"
            )
        if self.optimiser.kind == "adam" and self.optimiser.lazy and self.processes not in ("auto", 1):
            raise ValueError(
                f"processes: {self.processes} exchange dense gradients: remove optimiser.lazy, or set processes: 1"
            )
        if self.threads not in (None, 1) and self.processes not in ("auto", 1):
            raise ValueError(f"processes: {self.processes} have one thread each: remove threads: {self.threads}")
        if schedule.kind == "plateau" and 0 < self.patience <= schedule.patience:
            raise ValueError(
                f"schedule.patience: {schedule.patience} has no effect, because the run stops after patience: "
                f"{self.patience}: set it lower"
            )
        if (schedule.kind == "plateau" or schedule.kind == "cosine") and schedule.minimum >= lr:
            raise ValueError(f"schedule.minimum: {schedule.minimum} is not below optimiser.lr: {lr}: set it lower")
        return self
