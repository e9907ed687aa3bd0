"""What a run tells, and to whom."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

Row = dict[str, float | dict[str, float]]
"""A line of metrics.jsonl."""

Reason = Literal["epochs", "minutes", "patience", "interrupted"]
"""Why a run ended."""


@dataclass(frozen=True)
class Plan:
    """What a run is going to do.

    >>> Plan(steps=100, done=0, epochs=10, minutes=None, seconds=0.0, metric="wer").steps
    100
    """

    steps: int  # in all; epochs differ by a few, so this is close, not exact
    done: int  # steps made before a resume
    epochs: int
    minutes: float | None
    seconds: float  # spent before a resume
    metric: str


@dataclass(frozen=True)
class Step:
    """A step that has been made.

    >>> Step(step=1, epoch=0.5, loss=2.0, rate=0.001, norm=0.7, tokens=40, speed=900.0, seconds=0.1).tokens
    40
    """

    step: int  # steps made, this one among them
    epoch: float  # epochs done, with fraction
    loss: float  # a token
    rate: float
    norm: float  # of the gradient, before clipping
    tokens: int
    speed: float  # tokens a second since the last evaluation
    seconds: float  # since the run began, time before a resume included


@dataclass(frozen=True)
class Fitted:
    """How a run ended.

    >>> Fitted({"wer": 18.5}, best_step=40, steps=50, epochs=5, seconds=9, reason="epochs").best
    {'wer': 18.5}
    """

    best: dict[str, float] | None  # dev scores of the best evaluation; None where there was none
    best_step: int
    steps: int
    epochs: float
    seconds: float
    reason: Reason
    checkpoint: Path | None = None  # the newest


class Observer(Protocol):
    """Someone who watches a run. One that raises KeyboardInterrupt ends it as Ctrl-C does.

    >>> watcher: Observer = Silent()
    >>> watcher.note("nothing is shown")
    """

    def started(self, plan: Plan) -> None:
        """The run begins, or goes on."""

    def step(self, step: Step) -> None:
        """A step was made."""

    def evaluated(self, row: Row) -> None:
        """The model was evaluated."""

    def ended(self, fitted: Fitted) -> None:
        """The run is over."""

    def failed(self) -> None:
        """An error, or a second Ctrl-C, breaks the run off; whoever called `fit` gets it next."""

    def note(self, text: str) -> None:
        """Something a user should know."""


class Silent:
    """An observer that shows nothing.

    >>> Silent().note("nothing is shown")
    """

    def started(self, plan: Plan) -> None:
        """Nothing."""

    def step(self, step: Step) -> None:
        """Nothing."""

    def evaluated(self, row: Row) -> None:
        """Nothing."""

    def ended(self, fitted: Fitted) -> None:
        """Nothing."""

    def failed(self) -> None:
        """Nothing."""

    def note(self, text: str) -> None:
        """Nothing."""
