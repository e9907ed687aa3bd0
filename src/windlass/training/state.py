"""Where a run stands: everything but tensors, as plain data that JSON carries exactly."""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from windlass.core.tensors import atomic_write
from windlass.training.observe import Row
from windlass.training.schedule import PlateauState

EXPLODED = 10.0  # times the loss a token that it began with, or 10 if that is more, over some steps


@dataclass
class Tally:
    """Sums since the last evaluation.

    >>> tally = Tally()
    >>> tally.add({"loss": 6.0}, tokens=3, norm=0.5, seconds=0.1)
    >>> tally.means()
    {'loss': 2.0}
    """

    sums: dict[str, float] = field(default_factory=dict)  # loss, nll and other terms
    tokens: int = 0
    steps: int = 0
    norms: float = 0.0
    seconds: float = 0.0  # in steps, without evaluation

    def add(self, sums: dict[str, float], tokens: int, norm: float, seconds: float) -> None:
        """Count one step."""
        for name, value in sums.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
        self.tokens += tokens
        self.steps += 1
        self.norms += norm
        self.seconds += seconds

    def means(self) -> dict[str, float]:
        """The terms of the loss, a token."""
        return {name: value / max(1, self.tokens) for name, value in self.sums.items()}

    @property
    def speed(self) -> float:
        """Tokens a second."""
        return self.tokens / self.seconds if self.seconds else 0.0


@dataclass
class State:
    """Where a run stands.

    >>> State.of(State(step=3).data()).step
    3
    """

    epoch: int = 0
    batch: int = 0  # batches of this epoch that are done
    step: int = 0
    evaluated: int = 0  # the step of the last evaluation
    seconds: float = 0.0
    evaluation_seconds: float = 0.0  # how long the last evaluation took
    bad: int = 0  # evaluations since the best
    best: dict[str, float] | None = None
    best_step: int = 0
    rate: float = 0.0  # of the last step
    first_loss: float = 0.0
    recent_loss: float = 0.0
    plateau: PlateauState = field(default_factory=PlateauState)
    tally: Tally = field(default_factory=Tally)
    rows: list[Row] = field(default_factory=list)

    def watch(self, loss: float, norm: float) -> str | None:
        """Look at the loss a token and the gradient's norm of an update to come; say what is wrong."""
        self.first_loss = self.first_loss if self.step else loss
        self.recent_loss = 0.9 * self.recent_loss + 0.1 * loss if self.step else loss
        if not math.isfinite(loss):
            return f"the loss is {loss}"
        if not math.isfinite(norm):
            return f"the gradient's norm is {norm}"
        if self.recent_loss > EXPLODED * max(10.0, self.first_loss):
            return f"the loss has exploded from {self.first_loss:.3g} to {self.recent_loss:.3g} a token"
        return None

    def data(self) -> dict[str, Any]:
        """All of it, for a checkpoint."""
        return asdict(self)

    @classmethod
    def of(cls, data: dict[str, Any]) -> State:
        """The state that `data` gave."""
        parts = {"plateau": PlateauState(**data["plateau"]), "tally": Tally(**data["tally"])}
        return cls(**{**data, **parts})


def append_row(path: Path, row: Row) -> None:
    """Add a line to metrics.jsonl.

    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "metrics.jsonl"
    >>> append_row(path, {"step": 3})
    >>> path.read_text()
    '{"step": 3}\\n'
    """
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
        file.flush()
        os.fsync(file.fileno())


def write_rows(path: Path, rows: list[Row]) -> None:
    """Write metrics.jsonl anew: after a resume it holds what the checkpoint knows of, and nothing later.

    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "metrics.jsonl"
    >>> write_rows(path, [{"step": 3}, {"step": 6}])
    >>> len(path.read_text().splitlines())
    2
    """
    atomic_write(path, "".join(json.dumps(row) + "\n" for row in rows).encode())
