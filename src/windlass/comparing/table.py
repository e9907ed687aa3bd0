"""What runs came to, candidate by candidate: mean and standard deviation over seeds, as a table in several forms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from windlass.comparing.picture import Point, draw
from windlass.comparing.trial import Failed, Trial
from windlass.metrics import higher_is_better
from windlass.metrics.likelihood import format_metric
from windlass.training.progress import format_duration


@dataclass(frozen=True)
class Spread:
    """A mean and the standard deviation over seeds (of a sample: n - 1); 0 where there is but one.

    >>> Spread.of([1.0, 3.0])
    Spread(mean=2.0, deviation=1.4142135623730951)
    """

    mean: float
    deviation: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Of some values."""
        return cls(fmean(values), stdev(values) if len(values) > 1 else 0.0)

    def told(self, write: Callable[[float], str]) -> str:
        """Both for a person.

        >>> Spread(88.25, 0.5).told("{:.1f}".format)
        '88.2 ± 0.5'
        """
        return f"{write(self.mean)} ± {write(self.deviation)}"


@dataclass(frozen=True)
class Row:
    """A candidate.

    >>> Row.__dataclass_fields__["seeds"].type
    'tuple[int, ...]'
    """

    group: str
    name: str
    task: str
    metric: str
    seeds: tuple[int, ...]
    parameters: int
    megabytes: float
    seconds: Spread
    rate: Spread | None
    dev: dict[str, Spread]
    test: dict[str, Spread] | None


def row(trials: Sequence[Trial]) -> Row:
    """The runs of one candidate as a row.

    >>> one = Trial("", "gru", 1, "text", "cer", 900, 0.1, 2.0, 50, 5.0, 90.0, {"cer": 9.5}, None, "copy", {})
    >>> row([one, one]).dev["cer"]
    Spread(mean=9.5, deviation=0.0)
    """
    first = trials[0]
    rates = [t.rate for t in trials if t.rate is not None]
    tests = [t.test for t in trials if t.test is not None]
    return Row(
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
    """Everything that was compared: all runs, and the same as rows, a table, a picture.

    >>> Comparison((), (Failed("", "gru", 1, "no training data"),)).failed[0].error
    'no training data'
    """

    trials: tuple[Trial, ...]
    failed: tuple[Failed, ...] = ()

    @property
    def rows(self) -> list[Row]:
        """The candidates that have a run, in the order they were named."""
        names = dict.fromkeys((t.group, t.name) for t in self.trials)
        return [row([t for t in self.trials if (t.group, t.name) == name]) for name in names]

    @property
    def groups(self) -> list[str]:
        """The groups, in order."""
        return list(dict.fromkeys(t.group for t in self.trials))

    def best(self, group: str = "") -> str:
        """The candidate of a group that does best on dev, by the figure that is chosen by.

        >>> one = Trial("", "gru", 1, "text", "cer", 9, 0.1, 2.0, 50, 5.0, None, {"cer": 9.5}, None, "copy", {})
        >>> Comparison((one,)).best()
        'gru'
        """
        mine = [r for r in self.rows if r.group == group]
        sign = 1 if higher_is_better(mine[0].metric) else -1
        return max(mine, key=lambda r: sign * r.dev[r.metric].mean).name

    def cells(self, group: str, every: bool = False) -> tuple[list[str], list[list[str]]]:
        """Headings and cells of a group's table, the baseline last; with `every`, all figures, else the chosen one."""
        mine = [r for r in self.rows if r.group == group]
        first = next(t for t in self.trials if t.group == group)
        names = [first.metric, *([n for n in first.dev if n != first.metric] if every else [])]
        tested = any(r.test is not None for r in mine)
        headings = ["", "seeds", "parameters", "MB", "training", "a second"]
        headings += [f"dev {n}" for n in names] + ([f"test {n}" for n in names] if tested else [])
        table = []
        for r in mine:
            parts = [r.dev, *([r.test or {}] if tested else [])]
            figures = [_figure(part, name) for part in parts for name in names]
            rate = "-" if r.rate is None else f"{r.rate.mean:,.0f}"
            seconds = r.seconds.told(format_duration)
            size = [f"{r.parameters:,}", f"{r.megabytes:.2f}"]
            table.append([r.name, str(len(r.seeds)), *size, seconds, rate, *figures])
        cheap = [format_metric(n, first.baseline_dev[n]) if n in first.baseline_dev else "-" for n in names]
        blank = ["-"] * len(names) if tested else []
        return headings, [*table, [f"baseline: {first.baseline}", "", "", "", "", "", *cheap, *blank]]

    def markdown(self) -> str:
        """A page with a table for every group.

        >>> one = Trial("", "gru", 1, "text", "cer", 9, 0.1, 2.0, 50, 5.0, None, {"cer": 9.5}, None, "copy", {})
        >>> print(Comparison((one,)).markdown().splitlines()[4])
        | gru | 1 | 9 | 0.10 | 2s ± 0s | - | 9.50 ± 0.00 |
        """
        lines = ["# Comparison", ""]
        for group in self.groups:
            headings, table = self.cells(group, every=True)
            lines += [f"## {group}", ""] if group else []
            lines.append("| " + " | ".join(headings) + " |")
            lines.append("|---" + "|---:" * (len(headings) - 1) + "|")
            lines += ["| " + " | ".join(cells) + " |" for cells in table]
            lines += ["", f"Best on dev by {self._metric(group)}: {self.best(group)}.", ""]
        for one in self.failed:
            lines.append(f"- {_label(one)} failed: {one.error}")
        lines += ["", "Mean ± standard deviation over seeds. Training is wall-clock time, evaluations among it."]
        return "\n".join(lines) + "\n"

    def _metric(self, group: str) -> str:
        return next(t.metric for t in self.trials if t.group == group)

    def to_json(self) -> dict[str, Any]:
        """Rows and runs as plain JSON values.

        >>> Comparison(()).to_json()["rows"]
        []
        """
        return {
            "rows": [asdict(r) for r in self.rows],
            "best": {group: self.best(group) for group in self.groups},
            "runs": [asdict(t) for t in self.trials],
            "failed": [asdict(one) for one in self.failed],
        }

    def draw(self, path: str | Path) -> Path:
        """Draw score against training time, a panel a group.

        >>> import tempfile
        >>> one = Trial("", "gru", 1, "text", "cer", 9, 0.1, 2.0, 50, 5.0, None, {"cer": 9.5}, None, "copy", {})
        >>> Comparison((one,)).draw(Path(tempfile.mkdtemp()) / "c.png").stat().st_size > 5000
        True
        """
        panels: dict[str, list[Point]] = {}
        for r in self.rows:
            runs = [t for t in self.trials if (t.group, t.name) == (r.group, r.name)]
            points = tuple((t.seconds, t.dev[t.metric]) for t in runs)
            score = r.dev[r.metric]
            point = Point(
                r.name, r.metric, r.seconds.mean, score.mean, r.seconds.deviation, score.deviation, points, r.parameters
            )
            panels.setdefault(r.group or r.task, []).append(point)
        return draw(panels, Path(path))


def _figure(part: dict[str, Spread], name: str) -> str:
    return part[name].told(lambda value: format_metric(name, value)) if name in part else "-"


def _label(one: Trial | Failed) -> str:
    return f"{one.group + ': ' if one.group else ''}{one.name}, seed {one.seed}"
