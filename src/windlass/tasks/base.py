"""What a task is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from windlass.metrics import METRICS


@dataclass(frozen=True)
class Task:
    """A cell of the table of what goes in and what comes out.

    >>> task = Task("spell", "sounds to letters", metrics=("wer",), metric="wer")
    >>> task.measure(["cat", "dog"], [["cat"], ["dock", "dog"]])
    {'wer': 0.0}
    """

    name: str
    about: str
    metrics: tuple[str, ...]  # what is reported
    metric: str  # what is chosen by, on dev
    several_answers: bool = False  # rows of the same source are right answers to one question

    @property
    def higher_is_better(self) -> bool:
        """Which way is up for the metric that is chosen by."""
        return METRICS[self.metric].higher_is_better

    def measure(self, predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
        """The figures of this task, in percent."""
        found: dict[str, float] = {}
        for name in self.metrics:
            if name not in found:
                found |= METRICS[name].function(predictions, references)
        return {name: found[name] for name in self.metrics}
