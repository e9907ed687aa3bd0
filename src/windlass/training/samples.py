"""Text that a language model generates at four stages of its training."""

from __future__ import annotations

from pathlib import Path

from windlass.bundle import Bundle
from windlass.decoding.options import Sample
from windlass.inference.generate import generate
from windlass.training.observe import FitResult, Forwarding, Observer, RunPlan, Step

STAGES = (0.01, 0.1, 0.4, 1.0)
"""Fractions of the run (of its steps, or of its time limit) at which a sample is written."""


class SampleWriter(Forwarding):
    """An observer that appends samples to a file, made with the current weights, and forwards every event.

    Training is not affected: samples draw from a random number generator of their own.

    >>> writer = SampleWriter(Observer(), None, Path("samples.txt"), tokens=5)
    >>> writer.started(RunPlan(steps=100, done=20, epochs=10, minutes=None, seconds=9.0, metric="bpc"))
    >>> writer.pending  # resumed after 20 of 100 steps
    [0.4, 1.0]
    """

    def __init__(self, inner: Observer, bundle: Bundle, path: Path, tokens: int):
        super().__init__(inner)
        self.bundle, self.path, self.tokens = bundle, path, tokens
        self.plan = RunPlan(1, 0, 1, None, 0.0, "")
        self.pending: list[float] = []
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

    def started(self, plan: RunPlan) -> None:
        """Find the stages to come; a resumed run has written those before it."""
        self.plan = plan
        begin = Step(plan.done, 0, loss=0, lr=0, grad_norm=0, tokens=0, tokens_per_second=0, seconds=plan.seconds)
        self.pending = [stage for stage in STAGES if not plan.done or stage > plan.fraction_done(begin)]
        super().started(plan)

    def step(self, step: Step) -> None:
        """Write a sample if a stage is reached; the last one is written at the end."""
        self.last = step
        if len(self.pending) > 1 and self.plan.fraction_done(step) >= self.pending[0]:
            self._write(self.pending.pop(0), step.step, step.loss)
        super().step(step)

    def ended(self, result: FitResult) -> None:
        """Write the last sample, with the best weights."""
        if result.reason != "interrupted" and self.last is not None:
            self._write(STAGES[-1], result.best_step, self.last.loss)
        super().ended(result)
