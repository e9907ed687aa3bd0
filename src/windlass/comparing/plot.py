"""Plot of score against training time, with error bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from windlass.core.errors import DataError, WindlassError
from windlass.explain.curves import compare_curves, read_rows
from windlass.explain.render import GREY, INK, save
from windlass.metrics import higher_is_better

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from windlass.comparing.table import CandidateRow, Comparison
    from windlass.comparing.trial import Trial

COLOURS = ("#08519c", "#d95f0e", "#31a354", "#756bb1", "#636363", "#c51b8a", "#8c6d31", "#17becf")
MARKERS = "osD^vP*X"
COLUMNS = 3
"""Panels per row."""


def plot(panels: Mapping[str, Sequence[tuple[CandidateRow, Sequence[Trial]]]], path: Path) -> Path:
    """Plot a panel for every group, of candidates with their trials; the same name has the same colour and marker.

    Large markers are means with one standard deviation, small ones are single seeds; labels are parameter counts.

    >>> plot({}, Path("c.png"))
    Traceback (most recent call last):
    windlass.core.errors.DataError: c.png: nothing to plot
    """
    if path.suffix.lower() != ".png":
        raise WindlassError(f"{path}: cannot write {path.suffix!r}: use .png")
    if not panels:
        raise DataError(f"{path}: nothing to plot")
    names = list(dict.fromkeys(row.name for candidates in panels.values() for row, _ in candidates))
    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    legend = 0.35 + 0.22 * -(-len(names) // (3 * columns))
    from matplotlib.figure import Figure

    figure = Figure(figsize=(max(5.4, 4.1 * columns), 3.5 * rows + legend), layout="constrained")
    all_axes = figure.subplots(rows, columns, squeeze=False).flatten()
    for axes in all_axes[len(panels) :]:
        axes.set_visible(False)
    for axes, (title, candidates) in zip(all_axes, panels.items(), strict=False):
        _panel(axes, title, candidates, names)
    handles: dict[str, Artist] = {}
    for axes in all_axes[: len(panels)]:
        artists, labels = axes.get_legend_handles_labels()
        handles |= dict(zip(labels, artists, strict=True))
    ordered, legend_columns = [handles[name] for name in names], min(len(names), 3 * columns)
    figure.legend(ordered, names, loc="outside lower center", ncols=legend_columns, frameon=False, fontsize=9)
    save(figure, path)
    return path


def _panel(
    axes: Axes, title: str, candidates: Sequence[tuple[CandidateRow, Sequence[Trial]]], names: Sequence[str]
) -> None:
    longest = max(trial.seconds for _, trials in candidates for trial in trials)
    unit, unit_name = (60.0, "minutes") if longest >= 180 else (1.0, "seconds")
    for row, trials in candidates:
        index, score = names.index(row.name), row.dev[row.metric]
        colour, marker = COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)]
        xs, ys = zip(*((trial.seconds / unit, trial.dev[row.metric]) for trial in trials), strict=True)
        axes.plot(xs, ys, marker, ms=4, color=colour, alpha=0.35, mew=0, ls="none")
        x, y, xerr, yerr = row.seconds.mean / unit, score.mean, row.seconds.deviation / unit, score.deviation
        axes.errorbar(x, y, yerr, xerr, fmt=marker, ms=8, color=colour, elinewidth=1.4, capsize=4, label=row.name)
        size = f"{row.parameters / 1e6:.1f}M" if row.parameters >= 1e5 else f"{row.parameters:,}"
        side, ha = (-8, "right") if x > 0.6 * longest / unit else (8, "left")
        axes.annotate(f"{size} parameters", (x, y), (side, 5), textcoords="offset points", size=7.5, color=GREY, ha=ha)
    metric = candidates[0][0].metric
    better = "higher" if higher_is_better(metric) else "lower"
    axes.set_title(title, fontsize=10, color=INK)
    axes.set_xlabel(f"training, {unit_name}", color=GREY, fontsize=9)
    axes.set_ylabel(f"dev {metric.replace('_', ' ')} ({better} is better)", color=GREY, fontsize=9)
    axes.tick_params(labelsize=8)
    axes.margins(y=0.15)
    axes.set_xlim(0, 1.2 * longest / unit)
    axes.grid(color="#e3e8ed")
    axes.spines[["top", "right"]].set_visible(False)


def draw_curves(comparison: Comparison, folders: Mapping[tuple[str, str], Path], path: Path) -> Path | None:
    """Draw the training curves of all runs in one picture; `folders` hold the runs of a group and name, by seed.

    >>> from windlass.comparing.table import Comparison
    >>> draw_curves(Comparison(()), {}, Path("curves.png"))
    """
    runs = {}
    for trial in comparison.trials:
        folder = folders[trial.group, trial.name] / str(trial.seed)
        if (folder / "training").is_dir():  # a finished run may have been deleted
            runs[f"{trial.group} {trial.name}, seed {trial.seed}".strip()] = read_rows(folder), trial.metric
    return compare_curves(runs, path) if runs else None
