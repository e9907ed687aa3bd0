"""Run the long-distance test over problems, cells and seeds; report accuracy against the gap."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from windlass.distance.probe import Outcome, Training, probe
from windlass.distance.problems import PROBLEMS
from windlass.gradients.result import COLOURS, Result, Table, style
from windlass.nn.cells import CellOptions

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEAST = 0.9
"""A cell carries what it has read over a gap if its accuracy is at least this."""


@dataclass(frozen=True)
class Report(Result):
    """The accuracy of several cells at every gap.

    >>> rows = [Outcome("copying", "rnn", False, seed, {2: 1.0, 8: 0.8 + seed / 10}, 9, 1.0) for seed in (1, 2)]
    >>> print(Report(tuple(rows), Training(gaps=(2, 8), further=())).text())
    copying three symbols: accuracy in % at every gap, mean of 2 seeds
    cell      2      8  below 90 % at
    rnn   100.0   95.0  -, -
    """

    outcomes: tuple[Outcome, ...]
    training: Training

    @property
    def problems(self) -> list[str]:
        """The names of the problems."""
        return list(dict.fromkeys(one.problem for one in self.outcomes))

    @property
    def seeds(self) -> list[int]:
        """The seeds."""
        return sorted({one.seed for one in self.outcomes})

    @property
    def size(self) -> tuple[float, float]:  # type: ignore[override]
        """Two panels a row."""
        return (8.6, 3.4 * -(-len(self.problems) // 2) + 0.6) if len(self.problems) > 1 else (6.4, 4.4)

    def lines(self, problem: str) -> dict[tuple[str, bool], list[Outcome]]:
        """The outcomes of a problem, by cell and attention, a seed each."""
        found: dict[tuple[str, bool], list[Outcome]] = {}
        for one in self.outcomes:
            if one.problem == problem:
                found.setdefault((one.cell, one.attention), []).append(one)
        return {key: found[key] for key in sorted(found, key=lambda key: key[1])}

    def tables(self) -> list[Table]:
        """One a problem: a row a cell, a column a gap, and the gap where it falls below 90 %, for every seed."""
        made = []
        for problem in self.problems:
            lines = self.lines(problem)
            gaps = sorted(next(iter(lines.values()))[0].accuracy)
            rows = []
            for key, ones in lines.items():
                means = (100 * fmean(one.accuracy[gap] for one in ones) for gap in gaps)
                falls = ", ".join("-" if (gap := one.falls(LEAST)) is None else str(gap) for one in ones)
                rows.append((_name(*key), *(f"{mean:.1f}" for mean in means), falls))
            several = f"mean of {len(self.seeds)} seeds" if len(self.seeds) > 1 else "one seed"
            title = f"{PROBLEMS[problem].title}: accuracy in % at every gap, {several}"
            made.append(Table(title, ("cell", *map(str, gaps), "below 90 % at"), rows))
        return made

    def to_json(self) -> dict[str, Any]:
        """Every run, and how it was trained."""
        runs = [one.to_json() | {"below_90": one.falls(LEAST)} for one in self.outcomes]
        return {"what": "distance", "training": asdict(self.training), "runs": runs}

    def draw(self, figure: Figure) -> None:
        """A panel a problem: accuracy against the gap, a colour a cell, dashed with attention."""
        columns = min(2, len(self.problems))
        axes = figure.subplots(-(-len(self.problems) // columns), columns, squeeze=False).flatten()
        cells = list(dict.fromkeys(one.cell for one in self.outcomes))
        for panel in axes[len(self.problems) :]:
            panel.set_visible(False)
        for panel, problem in zip(axes, self.problems, strict=False):
            self._panel(panel, problem, cells)
        handles: dict[str, Artist] = {}
        for panel in axes[: len(self.problems)]:
            artists, labels = panel.get_legend_handles_labels()
            handles |= dict(zip(labels, artists, strict=True))
        shape: dict[str, Any] = {"loc": "outside lower center", "ncols": 4, "fontsize": 8, "handlelength": 3.6}
        figure.legend(list(handles.values()), list(handles), frameon=False, **shape)

    def _panel(self, axes: Axes, problem: str, cells: Sequence[str]) -> None:
        lines = self.lines(problem)
        gaps = sorted(next(iter(lines.values()))[0].accuracy)
        places = range(len(gaps))
        for key, ones in lines.items():
            colour, dashed = COLOURS[cells.index(key[0]) % len(COLOURS)], "--" if key[1] else "-"
            means = [100 * fmean(one.accuracy[gap] for one in ones) for gap in gaps]
            axes.plot(places, means, "o", ls=dashed, ms=3, lw=1.6, color=colour, label=_name(*key))
            for one in ones if len(ones) > 1 else ():
                axes.plot(places, [100 * one.accuracy[gap] for gap in gaps], color=colour, ls=dashed, lw=0.6, alpha=0.3)
        axes.axhline(100 * LEAST, color="#5b6875", lw=0.8, ls=":")
        axes.axhline(100 * PROBLEMS[problem].chance, color="#5b6875", lw=0.8, ls=":")
        axes.text(-0.2, 100 * PROBLEMS[problem].chance - 1, "chance", va="top", size=7, color="#5b6875")
        further = sum(gap > max(self.training.gaps) for gap in gaps)
        if further:
            axes.axvspan(len(gaps) - further - 0.5, len(gaps) - 0.5, color="#5b6875", alpha=0.08, lw=0)
        axes.set_xlim(-0.3, len(gaps) - 0.5)
        axes.set_xticks(places, [str(gap) for gap in gaps])
        axes.set_ylim(0, 104)
        style(
            axes,
            PROBLEMS[problem].title,
            "gap, in steps (grey: longer than trained)" if further else "gap, in steps",
            "accuracy, %",
        )


def _name(cell: str, attention: bool) -> str:
    return f"{cell} + attention" if attention else cell


def measure(
    cells: Mapping[str, CellOptions],
    problems: Sequence[str] = tuple(PROBLEMS),
    attention: Sequence[bool] = (False, True),
    seeds: Sequence[int] = (1,),
    training: Training | None = None,
    note: Callable[[Outcome], None] = lambda outcome: None,
) -> Report:
    """Put cells through problems, with and without attention; `note` hears of every run that is done.

    >>> from windlass.nn.cells import GRU
    >>> training = Training(size=4, updates=2, gaps=(0, 2), further=(4,), tested=8)
    >>> len(measure({"gru": GRU.Options()}, ["copying", "adding"], training=training).outcomes)
    4
    """
    how, outcomes = training or Training(), []
    for seed in seeds:
        for problem in problems:
            for name, cell in cells.items():
                for with_attention in attention:
                    outcome = probe(PROBLEMS[problem], name, cell, with_attention, seed, how)
                    outcomes.append(outcome)
                    note(outcome)
    return Report(tuple(outcomes), how)
