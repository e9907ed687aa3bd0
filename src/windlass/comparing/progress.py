"""What a user sees of a comparison: how far it is, and how long it will go on."""

from __future__ import annotations

from statistics import fmean

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from windlass.comparing.trial import Failed, Trial
from windlass.metrics.likelihood import format_metric
from windlass.training.progress import format_duration

Key = tuple[str, str, int]
"""Group, name and seed."""


class Course:
    """Keeps the time of a comparison and shows it on stderr.

    >>> course = Course([("", "gru", 1), ("", "gru", 2), ("", "lstm", 1)], jobs=1, quiet=True)
    >>> course.moved(("", "gru", 1), share=0.5, left=10.0)
    >>> course.left  # 10 s of this run, and twice 20 s
    50.0
    """

    def __init__(self, runs: list[Key], jobs: int, quiet: bool, console: Console | None = None):
        self.runs, self.jobs, self.quiet = runs, jobs, quiet
        self.console = console or Console(stderr=True)
        self.took: dict[tuple[str, str], float] = {}  # seconds of a candidate's last run that was seen whole or in part
        self.going: dict[Key, tuple[float, float]] = {}  # share done and seconds left
        self.over: set[Key] = set()
        self.live: Progress | None = None

    @property
    def left(self) -> float | None:
        """Seconds until all is done; None as long as nothing is known."""
        if not self.took:
            return None
        usual = fmean(self.took.values())
        waiting = [run for run in self.runs if run not in self.over and run not in self.going]
        coming = sum(self.took.get(run[:2], usual) for run in waiting)
        now = [left for _, left in self.going.values()]
        return max([(coming + sum(now)) / self.jobs, *now])

    def begin(self) -> None:
        """Open the live line, where there is a terminal."""
        if self.quiet or not self.console.is_terminal:
            return
        columns = (BarColumn(bar_width=20), TextColumn("{task.description}", markup=False))
        self.live = Progress(*columns, console=self.console, transient=True)
        self.live.add_task("starting", total=len(self.runs))
        self.live.start()

    def moved(self, run: Key, share: float, left: float) -> None:
        """A run has gone on."""
        self.going[run] = share, left
        if share > 0 and not any(key[:2] == run[:2] for key in self.over):
            self.took[run[:2]] = left / max(1e-9, 1 - share) if share < 1 else self.took.get(run[:2], 0.0)
        if self.live is not None:
            done = len(self.over) + sum(part for part, _ in self.going.values())
            running = ", ".join(f"{name} seed {seed} {100 * part:.0f} %" for (_, name, seed), (part, _) in self._now())
            self.live.update(self.live.task_ids[0], completed=done, description=f"{running}  {self._left()}")

    def _now(self) -> list[tuple[Key, tuple[float, float]]]:
        return list(self.going.items())[:3]

    def _left(self) -> str:
        return "" if self.left is None else f"about {format_duration(self.left)} left"

    def ended(self, run: Key, found: Trial | Failed, anew: bool = True) -> None:
        """A run is over; `anew` is False for one that had been done before."""
        self.going.pop(run, None)
        self.over.add(run)
        if isinstance(found, Trial):
            self.took[run[:2]] = found.seconds
        label = f"{len(self.over)}/{len(self.runs)}  {found.group + ': ' if found.group else ''}{found.name}"
        if isinstance(found, Failed):
            self.note(f"{label}, seed {found.seed}: failed: {found.error}")
        else:
            score = f"dev {found.metric} {format_metric(found.metric, found.dev[found.metric])}"
            when = f"in {format_duration(found.seconds)}" if anew else "done before"
            after = f"; {self._left()}" if len(self.over) < len(self.runs) else ""
            self.note(f"{label}, seed {found.seed}: {score} {when}{after}")
        if self.live is not None:
            self.live.update(self.live.task_ids[0], completed=len(self.over))

    def end(self) -> None:
        """Close the live line."""
        if self.live is not None:
            self.live.stop()
            self.live = None

    def note(self, text: str) -> None:
        """Say something."""
        if not self.quiet:
            self.console.print(text, markup=False, highlight=False, soft_wrap=True)
