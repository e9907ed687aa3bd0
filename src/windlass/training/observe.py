"""What a run reports, and who listens."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

MetricsRow = dict[str, float | dict[str, float]]
"""A line of metrics.jsonl."""

StopReason = Literal["epochs", "minutes", "patience", "interrupted"]
"""Why a run ended."""


@dataclass(frozen=True)
class RunPlan:
    """The length of a run, as known at its start.

    >>> plan = RunPlan(steps=100, done=0, epochs=10, minutes=None, seconds=0.0, metric="wer")
    >>> step = Step(25, epoch=2.5, loss=1, lr=0.1, grad_norm=1, tokens=9, tokens_per_second=1, seconds=10)
    >>> plan.fraction_done(step), plan.seconds_left(step)
    (0.25, 30.0)
    """

    steps: int  # in total; approximate, because epochs differ by a few batches
    done: int  # steps before a resume
    epochs: int
    minutes: float | None
    seconds: float  # before a resume
    metric: str
    unit: str = "tokens"  # what `Step.tokens` counts: tokens or, for labels and numbers, examples

    def seconds_left(self, step: Step) -> float:
        """Return the remaining time, at most, at the pace since the run was last started."""
        per_step = (step.seconds - self.seconds) / max(1, step.step - self.done)
        left = per_step * max(0, self.steps - step.step)
        limit = math.inf if self.minutes is None else 60 * self.minutes - step.seconds
        return max(0.0, min(left, limit))

    def fraction_done(self, step: Step) -> float:
        """Return how much of a run is done, 0 to 1: by steps or by the time limit, whichever is further."""
        by_time = 0.0 if self.minutes is None else step.seconds / (60 * self.minutes)
        return min(1.0, max(step.step / self.steps, by_time))


@dataclass(frozen=True)
class Step:
    """Measurements of one training step.

    >>> Step(1, epoch=0.5, loss=2.0, lr=0.001, grad_norm=0.7, tokens=40, tokens_per_second=900.0, seconds=0.1).tokens
    40
    """

    step: int  # from 1
    epoch: float  # epochs done, as a fraction
    loss: float  # per token
    lr: float
    grad_norm: float  # before clipping
    tokens: int
    tokens_per_second: float  # since the last evaluation
    seconds: float  # since the start of the run, including the time before a resume


@dataclass(frozen=True)
class FitResult:
    """How a run ended.

    >>> FitResult({"wer": 18.5}, best_step=40, steps=50, epochs=5, seconds=9, reason="epochs").best
    {'wer': 18.5}
    """

    best: dict[str, float] | None  # dev scores of the best evaluation; None if there was no evaluation
    best_step: int
    steps: int
    epochs: float
    seconds: float
    reason: StopReason
    checkpoint: Path | None = None  # the newest


class Observer:
    """Receives the events of a run; this base ignores them. Raising KeyboardInterrupt stops the run as Ctrl-C does.

    >>> Observer().note("not shown")
    """

    def started(self, plan: RunPlan) -> None:
        """The run starts or resumes."""

    def step(self, step: Step) -> None:
        """A training step is done."""

    def diagnosed(self, step: int, scalars: dict[str, float]) -> None:
        """Gradients, updates and attention were measured at a step."""

    def evaluated(self, row: MetricsRow) -> None:
        """The model was evaluated on dev."""

    def ended(self, result: FitResult) -> None:
        """The run ended."""

    def failed(self) -> None:
        """The run was aborted by an error or a second Ctrl-C, which is then raised."""

    def note(self, text: str) -> None:
        """Receive a message for the user."""

    def track(self, numbers: range, count: int, what: str) -> Iterable[int]:
        """Pass on the numbers of some work before training, of which there are `count`."""
        return numbers


class Forwarding(Observer):
    """An observer that passes everything on to another one: the base of those that do something beside it.

    >>> Forwarding(Observer()).note("passed on")
    """

    def __init__(self, inner: Observer):
        self.inner = inner

    def started(self, plan: RunPlan) -> None:
        """Forward."""
        self.inner.started(plan)

    def step(self, step: Step) -> None:
        """Forward."""
        self.inner.step(step)

    def diagnosed(self, step: int, scalars: dict[str, float]) -> None:
        """Forward."""
        self.inner.diagnosed(step, scalars)

    def evaluated(self, row: MetricsRow) -> None:
        """Forward."""
        self.inner.evaluated(row)

    def ended(self, result: FitResult) -> None:
        """Forward."""
        self.inner.ended(result)

    def failed(self) -> None:
        """Forward."""
        self.inner.failed()

    def note(self, text: str) -> None:
        """Forward."""
        self.inner.note(text)

    def track(self, numbers: range, count: int, what: str) -> Iterable[int]:
        """Forward."""
        return self.inner.track(numbers, count, what)


Silent = Observer
"""An observer that ignores everything."""
