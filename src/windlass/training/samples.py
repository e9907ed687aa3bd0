"""What a language model writes at four stages of its training, as one who watches it learn."""

from __future__ import annotations

from pathlib import Path

from windlass.bundle import Bundle
from windlass.decoding.options import Sample
from windlass.inference.generate import generate
from windlass.training.observe import Fitted, Observer, Plan, Row, Step
from windlass.training.progress import share_done

STAGES = (0.01, 0.1, 0.4, 1.0)
"""Shares of the steps (or minutes) after which a sample is written."""


class Stages:
    """Hands everything on to another observer and adds samples to a file, with the weights as they stand.

    Nothing of the training changes by it: samples draw no random numbers of the run's.

    >>> STAGES[-1]
    1.0
    """

    def __init__(self, inner: Observer, bundle: Bundle, path: Path, tokens: int):
        self.inner, self.bundle, self.path, self.tokens = inner, bundle, path, tokens
        self.plan = Plan(1, 0, 1, None, 0.0, "")
        self.coming: list[float] = []
        self.last: Step | None = None

    def _write(self, stage: float, step: int, loss: float) -> None:
        training = self.bundle.model.training
        options = Sample(seed=1, length_plus=self.tokens)
        try:
            text = "".join(generate([self.bundle], "", options, endless=True))
        finally:
            self.bundle.model.train(training)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"=== {stage:.0%} of training, step {step}, loss {loss:.3f} ===\n{text}\n\n")

    def started(self, plan: Plan) -> None:
        """A run that goes on has written what it passed."""
        self.plan = plan
        began = Step(plan.done, epoch=0, loss=0, rate=0, norm=0, tokens=0, speed=0, seconds=plan.seconds)
        self.coming = [stage for stage in STAGES if not plan.done or stage > share_done(plan, began)]
        self.inner.started(plan)

    def step(self, step: Step) -> None:
        """Write a sample where a stage is reached; the last one is written at the end."""
        self.last = step
        if len(self.coming) > 1 and share_done(self.plan, step) >= self.coming[0]:
            self._write(self.coming.pop(0), step.step, step.loss)
        self.inner.step(step)

    def evaluated(self, row: Row) -> None:
        """Nothing of its own."""
        self.inner.evaluated(row)

    def ended(self, fitted: Fitted) -> None:
        """The last sample, with the best weights."""
        if fitted.reason != "interrupted" and self.last is not None:
            self._write(STAGES[-1], fitted.best_step, self.last.loss)
        self.inner.ended(fitted)

    def failed(self) -> None:
        """Nothing of its own."""
        self.inner.failed()

    def note(self, text: str) -> None:
        """Nothing of its own."""
        self.inner.note(text)
