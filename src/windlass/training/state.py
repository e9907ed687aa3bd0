"""The state of a run without its tensors, exactly representable as JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from windlass.recipe.schedule import PlateauState
from windlass.training.observe import MetricsRow

DIVERGED = 10.0  # smoothed loss per token, relative to the first loss or to 10 nats, whichever is higher


@dataclass
class Tally:
    """Sums since the last evaluation.

    >>> tally = Tally()
    >>> tally.add({"loss": 6.0}, tokens=3, norm=0.5, seconds=0.1)
    >>> tally.means()
    {'loss': 2.0}
    """

    sums: dict[str, float] = field(default_factory=dict)  # of the loss, nll and other terms
    tokens: int = 0
    steps: int = 0
    norms: float = 0.0
    seconds: float = 0.0  # without evaluation

    def add(self, sums: dict[str, float], tokens: int, norm: float, seconds: float) -> None:
        """Add a step."""
        for name, value in sums.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
        self.tokens += tokens
        self.steps += 1
        self.norms += norm
        self.seconds += seconds

    def means(self) -> dict[str, float]:
        """The terms of the loss per token."""
        return {name: value / max(1, self.tokens) for name, value in self.sums.items()}

    @property
    def tokens_per_second(self) -> float:
        """Training speed."""
        return self.tokens / self.seconds if self.seconds else 0.0


@dataclass
class RunState:
    """Where a run stands. Field names are those of checkpoints on disk.

    >>> RunState(step=3).check_divergence(math.nan, 1.0)
    'the loss is nan'
    """

    epoch: int = 0
    batch: int = 0  # batches done in this epoch
    step: int = 0
    evaluated: int = 0  # the step of the last evaluation
    seconds: float = 0.0
    evaluation_seconds: float = 0.0  # how long the last evaluation took
    bad: int = 0  # evaluations without improvement
    best: dict[str, float] | None = None
    best_step: int = 0
    best_loss: float | None = None  # dev loss of the best evaluation; None in an old checkpoint
    rate: float = 0.0  # learning rate of the last step
    first_loss: float = 0.0
    recent_loss: float = 0.0
    plateau: PlateauState = field(default_factory=PlateauState)
    tally: Tally = field(default_factory=Tally)
    rows: list[MetricsRow] = field(default_factory=list)

    def check_divergence(self, loss: float, grad_norm: float) -> str | None:
        """Return a message if the loss per token or the gradient norm of the next update shows divergence."""
        self.first_loss = self.first_loss if self.step else loss
        self.recent_loss = 0.9 * self.recent_loss + 0.1 * loss if self.step else loss
        if not math.isfinite(loss):
            return f"the loss is {loss}"
        if not math.isfinite(grad_norm):
            return f"the gradient norm is {grad_norm}"
        if self.recent_loss > DIVERGED * max(10.0, self.first_loss):
            return f"the loss has diverged from {self.first_loss:.3g} to {self.recent_loss:.3g} per token"
        return None

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> RunState:
        """The state that `asdict` returned."""
        parts = {"plateau": PlateauState(**data["plateau"]), "tally": Tally(**data["tally"])}
        return cls(**{**data, **parts})
