"""Training options. Each class holds only what its own kind uses."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, model_validator

from windlass.core.fitting import Needs, Refuses, Term
from windlass.core.options import Options, named
from windlass.recipe.schedule import Constant, NoSampling, SamplingOptions, ScheduleOptions


class _Optimiser(Options):
    @property
    def moments(self) -> int:
        """The number of running averages per weight."""
        return 2

    @property
    def sparse_updates(self) -> bool:
        """Whether embedding rows that are not in a batch stay unchanged."""
        return False

    @abstractmethod
    def algorithm(self) -> tuple[type[Any], dict[str, Any]]:
        """Return the torch optimiser and its arguments."""


class _Adam(_Optimiser):
    kind: str
    lr: float = Field(1e-3, gt=0, description="peak learning rate")
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = Field(
        (0.9, 0.999), description="decay rates of the running averages of the gradient and of its square"
    )
    eps: float = Field(1e-8, gt=0, description="added to the denominator, for numerical stability")


class Adam(_Adam):
    """Adam (Kingma and Ba 2015). Weight decay is L2 regularisation: it is added to the gradient.

    >>> Adam(lr=0.002).betas
    (0.9, 0.999)
    """

    kind: Literal["adam"] = "adam"
    weight_decay: float = Field(0.0, ge=0, description="L2 penalty, on matrices only (not on biases and other vectors)")
    lazy: bool = Field(
        False, description="update only the embedding rows that occur in the batch, as SparseAdam; results differ"
    )

    @property
    def sparse_updates(self) -> bool:
        """If `lazy`."""
        return self.lazy

    def algorithm(self) -> tuple[type[Any], dict[str, Any]]:
        """Adam."""
        return torch.optim.Adam, {"betas": self.betas, "eps": self.eps}


class AdamW(_Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019). Without decay, use `adam`.

    >>> AdamW().weight_decay
    0.01
    """

    kind: Literal["adamw"] = "adamw"
    weight_decay: float = Field(
        0.01, gt=0, description="at every step, matrices are multiplied by 1 - lr * weight_decay"
    )

    def algorithm(self) -> tuple[type[Any], dict[str, Any]]:
        """AdamW."""
        return torch.optim.AdamW, {"betas": self.betas, "eps": self.eps}


class SGD(_Optimiser):
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

    @property
    def moments(self) -> int:
        """One, with momentum."""
        return 1 if self.momentum else 0

    def algorithm(self) -> tuple[type[Any], dict[str, Any]]:
        """SGD."""
        return torch.optim.SGD, {"momentum": self.momentum, "nesterov": self.nesterov}


OptimiserOptions = Annotated[Adam | AdamW | SGD, Field(discriminator="kind"), named]
"""All optimisers."""


class _Average(Options):
    @property
    def copies(self) -> int:
        """The number of copies of the weights that it needs."""
        return 0


class NoAverage(_Average):
    """No averaging.

    >>> TrainOptions(average="none").average == NoAverage()
    True
    """

    kind: Literal["none"] = "none"


class Ema(_Average):
    """Exponential moving average of the weights, updated after every step: a = d * a + (1 - d) * w.

    d = min(decay, (1 + n) / (10 + n)) after n steps, so that the initial weights are soon forgotten.

    >>> Ema(decay=0.99).decay
    0.99
    """

    kind: Literal["ema"] = "ema"
    decay: float = Field(0.999, gt=0, lt=1, description="decay rate of the average")

    @property
    def copies(self) -> int:
        """The average, and the weights while the average is evaluated."""
        return 2


class Checkpoints(_Average):
    """Checkpoint averaging: the mean of the weights at the last `count` evaluations.

    >>> Checkpoints(count=3).count
    3
    """

    kind: Literal["checkpoints"] = "checkpoints"
    count: int = Field(5, ge=2, description="number of evaluations averaged")

    @property
    def copies(self) -> int:
        """The weights of earlier evaluations, and their mean."""
        return self.count


AverageOptions = Annotated[NoAverage | Ema | Checkpoints, Field(discriminator="kind"), named]
"""Weight averaging: which weights are evaluated and saved."""


AutoSetting = Literal["batch_tokens", "epochs", "evaluate_steps", "warmup", "parts"]
"""What small data can change: settings of training, and parts of the recipe."""


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
        None, gt=0, description="time limit, including the final evaluation and the time before a resume"
    )
    batch_tokens: int = Field(
        2048, ge=1, description="maximum batch size in tokens, padding included: rows x longest sequence"
    )
    chunk: int | None = Field(
        None,
        ge=1,
        description="truncated BPTT on running text: tokens per chunk; unset: one text per line, no state carried over",
    )
    auto: tuple[AutoSetting, ...] = Field(
        (),
        description="what follows the size of the data if it is small: these settings, and parts of the recipe "
        "([small data](small.md)); what you set yourself is kept",
    )
    evaluate_steps: int | None = Field(None, ge=1, description="evaluate every N steps; unset: every epoch")
    patience: int = Field(10, ge=0, description="early stopping after N evaluations without improvement; 0: never")
    average: AverageOptions = Field(NoAverage(), description="weight averaging, for evaluation and the saved model")
    sampling: SamplingOptions = Field(NoSampling(), description="scheduled sampling")
    precision: Literal["float32", "bfloat16"] = Field(
        "float32", description="of matrix products in training; bfloat16: mixed precision, where the processor has it"
    )
    bpe_dropout: float = Field(
        0.0, ge=0, lt=1, description="share of BPE merges left out, anew in every epoch (Provilkov et al. 2020)"
    )
    unigram_sampling: float | None = Field(
        None,
        gt=0,
        le=1000,
        description="draw the subwords of unigram anew in every epoch, by their probability to this power (Kudo 2018)",
    )
    character_noise: float = Field(
        0.0, ge=0, lt=1, description="share of source characters deleted, inserted, replaced or swapped in every epoch"
    )
    checkpoint_minutes: float = Field(
        2.0, gt=0, description="minutes between checkpoints; every evaluation writes one too"
    )
    threads: int | None = Field(
        None, ge=1, description="CPU threads; runs are reproducible bit by bit for the same number"
    )
    track: Literal["none", "tensorboard"] = Field(
        "none", description="tensorboard: also write events to training/events (pip install 'windlass[track]')"
    )
    diagnostics: int | None = Field(
        100,
        ge=1,
        description="every N steps, measure gradients and updates by layer, attention and gates; null: never",
    )
    processes: Literal["auto"] | Annotated[int, Field(ge=1)] = Field(
        "auto", description="data-parallel processes on the CPU, of one thread each; auto: used if measurably faster"
    )

    @model_validator(mode="after")
    def _all_used(self) -> TrainOptions:
        if self.chunk is not None and self.chunk > self.batch_tokens:
            raise ValueError(
                f"chunk: {self.chunk} is more than batch_tokens: {self.batch_tokens} (rows x chunk): lower it"
            )
        if self.optimiser.sparse_updates and self.processes not in ("auto", 1):
            raise ValueError(
                f"processes: {self.processes} exchange dense gradients: remove optimiser.lazy, or set processes: 1"
            )
        if self.threads not in (None, 1) and self.processes not in ("auto", 1):
            raise ValueError(f"processes: {self.processes} have one thread each: remove threads: {self.threads}")
        lr, minimum = self.optimiser.lr, getattr(self.schedule, "minimum", 0.0)
        waits = getattr(self.schedule, "patience", 0)
        if 0 < self.patience <= waits:
            raise ValueError(
                f"schedule.patience: {waits} has no effect, because the run stops after patience: "
                f"{self.patience}: set it lower"
            )
        if minimum >= lr:
            raise ValueError(f"schedule.minimum: {minimum} is not below optimiser.lr: {lr}: set it lower")
        return self

    def _terms(self, at: str) -> Iterator[Term]:
        augmentations = [n for n in ("bpe_dropout", "unigram_sampling", "character_noise") if getattr(self, n)]
        for name in augmentations:
            yield Refuses(
                "source nothing", f"{at}.{name} needs a source text, and a language model has none: leave it out"
            )
        if self.bpe_dropout:
            yield Needs(
                ("source.tokens: bpe", "target.tokens: bpe"), f"{at}.bpe_dropout needs tokens: bpe on a side of text"
            )
        if self.unigram_sampling:
            yield Needs(
                ("source.tokens: unigram", "target.tokens: unigram"),
                f"{at}.unigram_sampling needs tokens: unigram on a side of text",
            )
        if self.character_noise:
            yield Needs(
                ("source.tokens: characters", "source.tokens: graphemes"),
                f"{at}.character_noise needs a source text with tokens: characters or graphemes",
            )
        for name in augmentations:
            yield Needs("source: text", f"{at}.{name} is for source: text, not <source>: leave it out")
            yield Refuses("source.ngrams", f"{at}.{name} does not change n-grams: set source.ngrams: 0")
            for other in ("data.alignment", "model.decoder.copying"):
                yield Refuses(other, f"{at}.{name} moves the tokens that {other} refers to: leave one of them out")
        if self.chunk is not None:
            yield Needs(
                "source nothing", f"{at}.chunk: {self.chunk} is for a language model: leave it out, or set task: lm"
            )
