"""Progress of a comparison, and its remaining time."""

from __future__ import annotations

from statistics import fmean

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from windlass.comparing.trial import FailedTrial, RunKey, Trial
from windlass.metrics.likelihood import format_metric
from windlass.training.progress import format_duration


class ComparisonProgress:
    """Tracks the progress of a comparison and shows it on stderr.

    >>> progress = ComparisonProgress([("", "gru", 1), ("", "gru", 2), ("", "lstm", 1)], jobs=1, quiet=True)
    >>> progress.update(("", "gru", 1), fraction=0.5, left=10.0)
    >>> progress.seconds_left  # 10 s of this run, and two runs of 20 s
    50.0
    """

    def __init__(self, runs: list[RunKey], jobs: int, quiet: bool, console: Console | None = None):
        self.runs, self.jobs, self.quiet = runs, jobs, quiet
        self.console = console or Console(stderr=True)
        self.run_seconds: dict[tuple[str, str], float] = {}  # measured or estimated, by candidate
        self.running: dict[RunKey, tuple[float, float]] = {}  # fraction done and seconds left
        self.finished: set[RunKey] = set()
        self.live: Progress | None = None

    @property
    def seconds_left(self) -> float | None:
        """Seconds until all runs are done; None if unknown."""
        if not self.run_seconds:
            return None
        mean = fmean(self.run_seconds.values())
        pending = [run for run in self.runs if run not in self.finished and run not in self.running]
        pending_seconds = sum(self.run_seconds.get(run[:2], mean) for run in pending)
        running_seconds = [left for _, left in self.running.values()]
        return max([(pending_seconds + sum(running_seconds)) / self.jobs, *running_seconds])

    def start(self) -> None:
        """Open the live line on a terminal."""
        if self.quiet or not self.console.is_terminal:
            return
        columns = (BarColumn(bar_width=20), TextColumn("{task.description}", markup=False))
        self.live = Progress(*columns, console=self.console, transient=True)
        self.live.add_task("starting", total=len(self.runs))
        self.live.start()

    def update(self, run: RunKey, fraction: float, left: float) -> None:
        """Update the progress of a run."""
        self.running[run] = fraction, left
        if fraction > 0 and not any(key[:2] == run[:2] for key in self.finished):
            whole = left / max(1e-9, 1 - fraction) if fraction < 1 else self.run_seconds.get(run[:2], 0.0)
            self.run_seconds[run[:2]] = whole
        if self.live is not None:
            done = len(self.finished) + sum(part for part, _ in self.running.values())
            first = list(self.running.items())[:3]
            text = ", ".join(f"{name} seed {seed} {100 * part:.0f} %" for (_, name, seed), (part, _) in first)
            self.live.update(self.live.task_ids[0], completed=done, description=f"{text}  {self._left()}")

    def _left(self) -> str:
        return "" if self.seconds_left is None else f"about {format_duration(self.seconds_left)} left"

    def ended(self, run: RunKey, trial: Trial | FailedTrial, cached: bool = False) -> None:
        """Record the result of a run; `cached` if it was done before."""
        self.running.pop(run, None)
        self.finished.add(run)
        if isinstance(trial, Trial):
            self.run_seconds[run[:2]] = trial.seconds
        label = f"{len(self.finished)}/{len(self.runs)}  {trial.group + ': ' if trial.group else ''}{trial.name}"
        if isinstance(trial, FailedTrial):
            self.note(f"{label}, seed {trial.seed}: failed: {trial.error}")
        else:
            score = f"dev {trial.metric} {format_metric(trial.metric, trial.dev[trial.metric])}"
            when = "done before" if cached else f"in {format_duration(trial.seconds)}"
            after = f"; {self._left()}" if len(self.finished) < len(self.runs) else ""
            self.note(f"{label}, seed {trial.seed}: {score} {when}{after}")
        if self.live is not None:
            self.live.update(self.live.task_ids[0], completed=len(self.finished))

    def close(self) -> None:
        """Close the live line."""
        if self.live is not None:
            self.live.stop()
            self.live = None

    def note(self, text: str) -> None:
        """Print a message, unless quiet."""
        if not self.quiet:
            self.console.print(text, markup=False, highlight=False, soft_wrap=True)
