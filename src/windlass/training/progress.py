"""What a user sees of a run: a live line on a terminal, a plain line for every evaluation elsewhere."""

from __future__ import annotations

import math

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from windlass.metrics.likelihood import shown
from windlass.training.observe import Fitted, Plan, Row, Silent, Step

__all__ = ["RichProgress", "Silent", "duration", "row_line"]


def duration(seconds: float) -> str:
    """A length of time for a person.

    >>> duration(42.3), duration(185), duration(7380)
    ('42s', '3m05s', '2h03m')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


def row_line(row: Row) -> str:
    """An evaluation in one line.

    >>> row_line({"epoch": 2.0, "step": 40, "loss": 1.25, "dev": {"wer": 18.5}, "lr": 0.001,
    ...           "tokens_per_second": 5120.0, "seconds": 65.0})
    'epoch 2  step 40  loss 1.2500  dev wer 18.50  lr 0.001  5,120 tokens/s  1m05s'
    """
    dev = row["dev"]
    assert isinstance(dev, dict)
    scores = " ".join(f"{name} {shown(name, value)}" for name, value in dev.items())
    return (
        f"epoch {row['epoch']:.4g}  step {row['step']}  loss {row['loss']:.4f}  dev {scores}  "
        f"lr {row['lr']:.3g}  {row['tokens_per_second']:,.0f} tokens/s  {duration(_number(row['seconds']))}"
    )


def seconds_left(plan: Plan, step: Step) -> float:
    """How long a run will go on at most, at the pace it has had since it was last started.

    >>> plan = Plan(steps=100, done=0, epochs=10, minutes=None, seconds=0.0, metric="wer")
    >>> seconds_left(plan, Step(25, epoch=2.5, loss=1, rate=0.1, norm=1, tokens=9, speed=1, seconds=10))
    30.0
    """
    pace = (step.seconds - plan.seconds) / max(1, step.step - plan.done)
    left = pace * max(0, plan.steps - step.step)
    limit = math.inf if plan.minutes is None else 60 * plan.minutes - step.seconds
    return max(0.0, min(left, limit))


def share_done(plan: Plan, step: Step) -> float:
    """How much of a run is done, 0 to 1: by steps or by the clock, whichever ends it first.

    >>> plan = Plan(steps=1000, done=0, epochs=10, minutes=1.0, seconds=0.0, metric="wer")
    >>> share_done(plan, Step(25, epoch=2.5, loss=1, rate=0.1, norm=1, tokens=9, speed=1, seconds=30))
    0.5
    """
    by_clock = 0.0 if plan.minutes is None else step.seconds / (60 * plan.minutes)
    return min(1.0, max(step.step / plan.steps, by_clock))


class RichProgress:
    """Shows a run on stderr.

    >>> import io
    >>> shown = io.StringIO()
    >>> RichProgress(Console(file=shown)).note("going on")
    >>> shown.getvalue()
    'going on\\n'
    """

    def __init__(self, console: Console | None = None):
        self.console = console or Console(stderr=True)
        self.plan: Plan | None = None
        self.live: Progress | None = None
        self.dev = "dev -"
        self.loss = 0.0

    def started(self, plan: Plan) -> None:
        """Open the live line, where there is a terminal."""
        self.plan, self.loss = plan, 0.0
        if not self.console.is_terminal:
            return
        columns = (BarColumn(bar_width=20), TextColumn("{task.description}", markup=False))
        self.live = Progress(*columns, console=self.console, transient=True)
        self.live.update(self.live.add_task("starting", total=1.0), completed=plan.done / plan.steps)
        self.live.start()

    def step(self, step: Step) -> None:
        """Move on."""
        if self.live is None or self.plan is None:
            return
        self.loss = 0.95 * self.loss + 0.05 * step.loss if self.loss else step.loss
        text = (
            f"epoch {step.epoch:.1f}/{self.plan.epochs}  loss {self.loss:.3f}  {self.dev}  "
            f"{step.speed:,.0f} tokens/s  {duration(seconds_left(self.plan, step))} left"
        )
        self.live.update(self.live.task_ids[0], completed=share_done(self.plan, step), description=text)

    def evaluated(self, row: Row) -> None:
        """Print the evaluation, and show its score from now on."""
        dev, metric = row["dev"], self.plan.metric if self.plan else ""
        if isinstance(dev, dict) and metric in dev:
            self.dev = f"dev {metric} {shown(metric, dev[metric])}"
        self._print(row_line(row))

    def ended(self, fitted: Fitted) -> None:
        """Close the live line and say how it ended."""
        self._close()
        metric = self.plan.metric if self.plan else ""
        best = "no evaluation yet"
        if fitted.best is not None and metric in fitted.best:
            best = f"best dev {metric} {shown(metric, fitted.best[metric])} at step {fitted.best_step}"
        why = {
            "epochs": "all epochs done",
            "minutes": "time is up",
            "patience": "no better dev score for a while",
            "interrupted": "interrupted",
        }[fitted.reason]
        self._print(f"{why}: {fitted.steps} steps, {fitted.epochs:.4g} epochs, {duration(fitted.seconds)}; {best}")

    def failed(self) -> None:
        """Close the live line, so that an error can be printed."""
        self._close()

    def _close(self) -> None:
        if self.live is not None:
            self.live.stop()
            self.live = None

    def note(self, text: str) -> None:
        """Print a note."""
        self._print(text)

    def _print(self, text: str) -> None:
        # soft_wrap: a log keeps one line a line, however narrow rich believes it to be
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)


def _number(value: float | dict[str, float]) -> float:
    assert not isinstance(value, dict)
    return value
