"""Progress of a run: a live line on a terminal, otherwise one line per evaluation."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, track

from windlass.core.errors import as_message
from windlass.core.wording import counted
from windlass.metrics.likelihood import format_metric
from windlass.training.observe import FitResult, MetricsRow, Observer, RunPlan, Step


def format_duration(seconds: float) -> str:
    """Return a human-readable duration.

    >>> format_duration(42.3), format_duration(185), format_duration(7380)
    ('42s', '3m05s', '2h03m')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


def _format_row(row: MetricsRow, unit: str) -> str:
    """An evaluation as one line of text."""
    dev, seconds = row["dev"], row["seconds"]
    assert isinstance(dev, dict)
    assert not isinstance(seconds, dict)
    scores = " ".join(f"{name} {format_metric(name, value)}" for name, value in dev.items())
    if "dev_loss" in row:
        scores = f"loss {row['dev_loss']:.4f} {scores}"
    return (
        f"epoch {row['epoch']:.4g}  step {row['step']}  loss {row['loss']:.4f}  dev {scores}  "
        f"lr {row['lr']:.3g}  {row['tokens_per_second']:,.0f} {unit}/s  {format_duration(seconds)}"
    )


LINE_SECONDS = 60.0
"""Between lines of progress where there is no terminal."""


class RichProgress(Observer):
    """An observer that shows a run on stderr.

    >>> import io
    >>> output = io.StringIO()
    >>> RichProgress(Console(file=output)).note("no new symbols")
    >>> output.getvalue()
    'no new symbols\\n'
    """

    def __init__(self, console: Console | None = None):
        self.console = console or Console(stderr=True)
        self.plan: RunPlan | None = None
        self.live: Progress | None = None
        self.dev = "dev -"
        self.loss = 0.0

    def started(self, plan: RunPlan) -> None:
        """Open the live line on a terminal."""
        self.plan, self.loss = plan, 0.0
        if not self.console.is_terminal:
            return
        columns = (BarColumn(bar_width=20), TextColumn("{task.description}", markup=False))
        self.live = Progress(*columns, console=self.console, transient=True)
        self.live.update(self.live.add_task("starting", total=1.0), completed=plan.done / plan.steps)
        self.live.start()

    def step(self, step: Step) -> None:
        """Update the live line."""
        if self.live is None or self.plan is None:
            return
        self.loss = 0.95 * self.loss + 0.05 * step.loss if self.loss else step.loss
        text = (
            f"epoch {step.epoch:.1f}/{self.plan.epochs}  loss {self.loss:.3f}  {self.dev}  "
            f"{step.tokens_per_second:,.0f} {self.plan.unit}/s  {format_duration(self.plan.seconds_left(step))} left"
        )
        self.live.update(self.live.task_ids[0], completed=self.plan.fraction_done(step), description=text)

    def evaluated(self, row: MetricsRow) -> None:
        """Print the evaluation, and show its score in the live line."""
        dev, metric = row["dev"], self.plan.metric if self.plan else ""
        if isinstance(dev, dict) and metric in dev:
            self.dev = f"dev {metric} {format_metric(metric, dev[metric])}"
        self.note(_format_row(row, self.plan.unit if self.plan else "tokens"))

    def ended(self, result: FitResult) -> None:
        """Close the live line and print the result."""
        self._close()
        metric = self.plan.metric if self.plan else ""
        best = "no evaluation yet"
        if result.best is not None and metric in result.best:
            best = f"best dev {metric} {format_metric(metric, result.best[metric])} at step {result.best_step}"
        why = {
            "epochs": "all epochs done",
            "minutes": "time limit reached",
            "patience": "early stopping",
            "interrupted": "interrupted",
        }[result.reason]
        epochs = f"{result.epochs:.4g} epoch{'' if result.epochs == 1 else 's'}"
        spent = f"{counted(result.steps, 'step')}, {epochs}, {format_duration(result.seconds)}"
        self.note(f"{why}: {spent}; {best}")

    def failed(self) -> None:
        """Close the live line before an error is printed."""
        self._close()

    def _close(self) -> None:
        if self.live is not None:
            self.live.stop()
            self.live = None

    def track(self, numbers: range, count: int, what: str) -> Iterable[int]:
        """Show a bar with the time left on a terminal, elsewhere a line a minute."""
        if not self.console.is_terminal:
            return self._lines(numbers, count, what)
        return track(numbers, what, count, console=self.console, transient=True)

    def _lines(self, numbers: range, count: int, what: str) -> Iterator[int]:
        begun = told = time.monotonic()
        for done, number in enumerate(numbers):
            now = time.monotonic()
            if done and now - told >= LINE_SECONDS:
                left = format_duration((now - begun) / done * (count - done))
                self.note(f"{what}: {done / count:.0%}, {left} left")
                told = now
            yield number

    def note(self, text: str) -> None:
        """Print a note."""
        # soft_wrap: no line breaks in a log, whatever width rich assumes
        self.console.print(as_message(text), markup=False, highlight=False, soft_wrap=True)
