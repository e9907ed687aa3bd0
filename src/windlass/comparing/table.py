"""Results by candidate: mean and standard deviation over seeds, as a table, JSON or a plot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from windlass.comparing.by_length import LengthScores
from windlass.comparing.by_length import draw as draw_lengths
from windlass.comparing.plot import plot
from windlass.comparing.trial import FailedTrial, Trial
from windlass.metrics import best_possible, higher_is_better
from windlass.metrics.likelihood import format_metric
from windlass.training.progress import format_duration


@dataclass(frozen=True)
class Spread:
    """Mean and sample standard deviation (n - 1) over seeds; 0 for a single value.

    >>> Spread.of([1.0, 3.0])
    Spread(mean=2.0, deviation=1.4142135623730951)
    """

    mean: float
    deviation: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """From values."""
        return cls(fmean(values), stdev(values) if len(values) > 1 else 0.0)

    def render(self, format_value: Callable[[float], str], seeds: int) -> str:
        """Return both as text; of one seed the value alone."""
        mean = format_value(self.mean)
        return f"{mean} ± {format_value(self.deviation)}" if seeds > 1 else mean


@dataclass(frozen=True)
class CandidateRow:
    """The results of one candidate over its seeds.

    >>> trial = Trial("", "gru", 1, "text", "cer", 900, 0.1, 2.0, 50, 5.0, 90.0, {"cer": 9.5}, None, "copy", {})
    >>> CandidateRow.of([trial, trial]).dev["cer"]
    Spread(mean=9.5, deviation=0.0)
    """

    group: str
    name: str
    task: str
    metric: str
    seeds: tuple[int, ...]
    parameters: int
    megabytes: float
    seconds: Spread
    rate: Spread | None  # predictions per second
    dev: dict[str, Spread]
    test: dict[str, Spread] | None

    @classmethod
    def of(cls, trials: Sequence[Trial]) -> CandidateRow:
        """Summarise the trials of a candidate."""
        first = trials[0]
        rates = [t.rate for t in trials if t.rate is not None]
        tests = [t.test for t in trials if t.test is not None]
        return cls(
            first.group,
            first.name,
            first.task,
            first.metric,
            tuple(t.seed for t in trials),
            first.parameters,
            first.megabytes,
            Spread.of([t.seconds for t in trials]),
            Spread.of(rates) if rates else None,
            {name: Spread.of([t.dev[name] for t in trials]) for name in first.dev},
            {name: Spread.of([t[name] for t in tests]) for name in tests[0]} if len(tests) == len(trials) else None,
        )


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison: all trials, and their summary as rows, a table or a plot.

    >>> trial = Trial("", "gru", 1, "text", "cer", 9, 0.1, 2.0, 50, 5.0, None, {"cer": 9.5}, None, "copy", {})
    >>> print(Comparison((trial,)).markdown().splitlines()[4])
    | gru | 1 | 9 | 0.10 | 2s | - | 9.50 |
    """

    trials: tuple[Trial, ...]
    failed: tuple[FailedTrial, ...] = ()
    lengths: tuple[LengthScores, ...] = ()  # of each group, if asked for

    @property
    def rows(self) -> list[CandidateRow]:
        """One row for each candidate with a finished trial, in order."""
        names = dict.fromkeys((t.group, t.name) for t in self.trials)
        return [CandidateRow.of([t for t in self.trials if (t.group, t.name) == name]) for name in names]

    @property
    def groups(self) -> list[str]:
        """The groups, in order."""
        return list(dict.fromkeys(t.group for t in self.trials))

    @property
    def repeated(self) -> bool:
        """Whether a candidate has several seeds, over which its scores spread."""
        return any(len(r.seeds) > 1 for r in self.rows)

    def best(self, group: str = "") -> str:
        """Return the candidate of a group with the best mean dev score."""
        rows = [r for r in self.rows if r.group == group]
        sign = 1 if higher_is_better(rows[0].metric) else -1
        return max(rows, key=lambda r: sign * r.dev[r.metric].mean).name

    def below_baseline(self) -> list[str]:
        """Say of every group if none of its candidates is better than the baseline."""
        said = []
        for group in self.groups:
            if (scores := self._scores_below(group)) is not None:
                metric, (best, baseline) = self._metric(group), scores
                which = f"{group}: " if group else ""
                told = f"{self.best(group)} has {metric} {best}, {baseline}"
                said.append(f"{which}no candidate is better than the baseline: {told}")
        return said

    def _metric(self, group: str) -> str:
        return next(t.metric for t in self.trials if t.group == group)

    def _scores_below(self, group: str) -> tuple[str, str] | None:
        """The best score of a group, and the baseline with its own, if that is as good."""
        first = next(t for t in self.trials if t.group == group)
        metric, name = first.metric, self.best(group)
        score = next(r for r in self.rows if (r.group, r.name) == (group, name)).dev[metric].mean
        baseline = first.baseline_dev.get(metric)
        if baseline is None or score == baseline == best_possible(metric):
            return None
        if score > baseline if higher_is_better(metric) else score < baseline:
            return None
        return format_metric(metric, score), f"{first.baseline} {format_metric(metric, baseline)}"

    def _best_in_words(self, group: str) -> str:
        said, scores = f"Best on dev by {self._metric(group)}: {self.best(group)}", self._scores_below(group)
        return f"{said} ({scores[0]}), which is not better than the baseline, {scores[1]}." if scores else f"{said}."

    def cells(self, group: str, all_metrics: bool = False) -> tuple[list[str], list[list[str]]]:
        """Return headings and cells of a group's table, the baseline last; with all metrics or only the main one."""
        rows = [r for r in self.rows if r.group == group]
        first = next(t for t in self.trials if t.group == group)
        names = [first.metric, *([n for n in first.dev if n != first.metric] if all_metrics else [])]
        tested = any(r.test is not None for r in rows)
        headings = ["", "seeds", "parameters", "MB", "training", "per second"]
        headings += [f"dev {n}" for n in names] + ([f"test {n}" for n in names] if tested else [])
        table = []
        for r in rows:
            parts = [r.dev, *([r.test or {}] if tested else [])]
            scores = [_cell(part, name, len(r.seeds)) for part in parts for name in names]
            rate = "-" if r.rate is None else f"{r.rate.mean:,.0f}"
            seconds = r.seconds.render(format_duration, len(r.seeds))
            size = [f"{r.parameters:,}", f"{r.megabytes:.2f}"]
            table.append([r.name, str(len(r.seeds)), *size, seconds, rate, *scores])
        baseline = [format_metric(n, first.baseline_dev[n]) if n in first.baseline_dev else "-" for n in names]
        blank = ["-"] * len(names) if tested else []
        return headings, [*table, [f"baseline: {first.baseline}", "", "", "", "", "", *baseline, *blank]]

    def markdown(self) -> str:
        """Return a page with a table for every group."""
        lines = ["# Comparison", ""]
        for group in self.groups:
            headings, table = self.cells(group, all_metrics=True)
            lines += [f"## {group}", ""] if group else []
            lines.append("| " + " | ".join(headings) + " |")
            lines.append("|---" + "|---:" * (len(headings) - 1) + "|")
            lines += ["| " + " | ".join(cells) + " |" for cells in table]
            lines += ["", self._best_in_words(group), ""]
            for found in (each for each in self.lengths if each.group == group):
                heading = f"{found.part} {found.metric} by the length of the source, in tokens (examples)"
                lines += [f"{heading}:", "", found.markdown(), ""]
        for trial in self.failed:
            group = f"{trial.group}: " if trial.group else ""
            lines.append(f"- {group}{trial.name}, seed {trial.seed} failed: {trial.error}")
        spread = "Mean ± standard deviation over seeds. " if self.repeated else ""
        lines += ["", f"{spread}Training is wall-clock time, including evaluation."]
        return "\n".join(lines) + "\n"

    def to_json(self) -> dict[str, Any]:
        """Return rows and runs as JSON values."""
        return {
            "rows": [asdict(r) for r in self.rows],
            "best": {group: self.best(group) for group in self.groups},
            "runs": [asdict(t) for t in self.trials],
            "failed": [asdict(trial) for trial in self.failed],
            **({"by_length": [asdict(found) for found in self.lengths]} if self.lengths else {}),
        }

    def draw(self, path: str | Path) -> Path:
        """Plot score against training time, one panel per group."""
        panels: dict[str, list[tuple[CandidateRow, list[Trial]]]] = {}
        for r in self.rows:
            trials = [t for t in self.trials if (t.group, t.name) == (r.group, r.name)]
            panels.setdefault(r.group or r.task, []).append((r, trials))
        return plot(panels, Path(path))

    def draw_lengths(self, path: str | Path) -> Path:
        """Plot score against the length of the source, one panel per group."""
        return draw_lengths(self.lengths, Path(path))


def _cell(scores: dict[str, Spread], name: str, seeds: int) -> str:
    return scores[name].render(lambda value: format_metric(name, value), seeds) if name in scores else "-"
