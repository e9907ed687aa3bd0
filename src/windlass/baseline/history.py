"""What a run has done and how it ended, from what its folder keeps."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windlass.inference.info import OUTCOME
from windlass.recipe.train import TrainOptions


@dataclass(frozen=True)
class History:
    """How far a run came, and in what time.

    >>> history = History(examples=90, scores=({"cer": 80.0},), steps=20, epochs=2.0, seconds=70.0, reason="minutes")
    >>> history.minutes(12)
    7
    """

    examples: int  # of training
    scores: tuple[dict[str, float], ...]  # of every evaluation on dev; those of the network alone
    steps: int
    epochs: float  # done, as a fraction
    seconds: float | None  # None if that is not known
    reason: str | None  # a `StopReason`; None if the run ended without telling
    evaluation: float = 0.0  # seconds of an evaluation
    improving: bool | None = None  # whether the last evaluation was the best one; None if that is not known

    def minutes(self, epochs: int, evaluate_steps: int | None = None) -> int | None:
        """The time limit in minutes that lets so many epochs end, rounded up to two digits; None if it is not known."""
        if self.seconds is None or not self.epochs:
            return None
        each = max(0.0, self.seconds - self.evaluation * len(self.scores)) / self.epochs
        evaluations = epochs if evaluate_steps is None else epochs * self.steps / self.epochs / evaluate_steps
        # A time limit reserves the time of one evaluation more.
        needed = max(1, math.ceil((each * epochs + self.evaluation * (evaluations + 1)) / 60))
        unit: int = 10 ** max(0, len(str(needed)) - 2)
        return math.ceil(needed / unit) * unit


def read_history(folder: Path, options: TrainOptions) -> History | None:
    """Read the log of a run and how it ended; None if the folder does not keep them.

    >>> read_history(Path("/nowhere"), TrainOptions())
    """
    training = folder / "training"
    try:
        examples = int(json.loads((training / "data.json").read_text())["train"])
        log = [json.loads(line) for line in (training / "metrics.jsonl").read_text().splitlines()]
        scores, last = tuple(row["dev"] for row in log), log[-1]
        steps, epochs = int(last["step"]), float(last.get("epoch", options.epochs))
        seconds = None if "seconds" not in last else float(last["seconds"])
        evaluation = float(last.get("evaluation_seconds", 0.0))
    except (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError):
        return None
    outcome, improving = _outcome(folder), None
    if int(outcome.get("steps", steps)) >= steps:  # else it is that of the run before this one was resumed
        improving = outcome["best_step"] >= steps if "best_step" in outcome else None
        steps, epochs = int(outcome.get("steps", steps)), float(outcome.get("epochs", epochs))
        seconds = outcome.get("seconds", seconds)
        reason = outcome.get("reason")
    else:
        reason = None
    if reason in (None, "interrupted", "epochs") and epochs < options.epochs:
        limit = math.inf if options.minutes is None else 60 * options.minutes
        reason = "minutes" if seconds is not None and seconds + evaluation >= limit else "interrupted"
    return History(examples, scores, steps, epochs, seconds, reason, evaluation, improving)


def _outcome(folder: Path) -> dict[str, Any]:
    """How a run ended; empty if it does not say so in a form that can be read."""
    try:
        content = json.loads((folder / OUTCOME).read_text())
        numbers = [content[name] for name in ("steps", "epochs", "seconds", "best_step") if name in content]
    except (OSError, ValueError, TypeError):
        return {}
    return content if isinstance(content, dict) and all(type(n) in (int, float) for n in numbers) else {}
