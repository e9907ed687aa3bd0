"""Plot of score against training time, with error bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from windlass.core.errors import DataError, WindlassError
from windlass.explain.render import GREY, INK, save
from windlass.metrics import higher_is_better

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

COLOURS = ("#08519c", "#d95f0e", "#31a354", "#756bb1", "#636363", "#c51b8a", "#8c6d31", "#17becf")
MARKERS = "osD^vP*X"
COLUMNS = 3
"""Panels per row."""


@dataclass(frozen=True)
class Point:
    """A candidate in a plot.

    >>> Point("gru", "wer", 60.0, 18.5, 2.0, 0.4, ((60.0, 18.5),), 900_000).name
    'gru'
    """

    name: str
    metric: str
    seconds: float
    score: float
    seconds_deviation: float
    score_deviation: float
    runs: tuple[tuple[float, float], ...]  # (seconds, score) of every seed
    parameters: int


def plot(panels: Mapping[str, Sequence[Point]], path: Path) -> Path:
    """Plot a panel for every group; candidates of the same name have the same colour and marker.

    Large markers are means with one standard deviation, small ones are single seeds; labels are parameter counts.

    >>> plot({}, Path("c.png"))
    Traceback (most recent call last):
    windlass.core.errors.DataError: c.png: nothing to plot
    """
    if path.suffix.lower() != ".png":
        raise WindlassError(f"{path}: cannot write {path.suffix!r}: use .png")
    if not panels:
        raise DataError(f"{path}: nothing to plot")
    names = list(dict.fromkeys(point.name for points in panels.values() for point in points))
    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    legend = 0.35 + 0.22 * -(-len(names) // (3 * columns))
    from matplotlib.figure import Figure

    figure = Figure(figsize=(max(5.4, 4.1 * columns), 3.5 * rows + legend), layout="constrained")
    all_axes = figure.subplots(rows, columns, squeeze=False).flatten()
    for axes in all_axes[len(panels) :]:
        axes.set_visible(False)
    for axes, (title, points) in zip(all_axes, panels.items(), strict=False):
        _panel(axes, title, points, names)
    handles: dict[str, Artist] = {}
    for axes in all_axes[: len(panels)]:
        artists, labels = axes.get_legend_handles_labels()
        handles |= dict(zip(labels, artists, strict=True))
    figure.legend(
        [handles[name] for name in names],
        names,
        loc="outside lower center",
        ncols=min(len(names), 3 * columns),
        frameon=False,
        fontsize=9,
    )
    save(figure, path)
    return path


def _panel(axes: Axes, title: str, points: Sequence[Point], names: Sequence[str]) -> None:
    longest = max(second for point in points for second, _ in point.runs)
    unit, unit_name = (60.0, "minutes") if longest >= 180 else (1.0, "seconds")
    for point in points:
        index = names.index(point.name)
        colour, marker = COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)]
        xs, ys = zip(*((second / unit, score) for second, score in point.runs), strict=True)
        axes.plot(xs, ys, marker, ms=4, color=colour, alpha=0.35, mew=0, ls="none")
        axes.errorbar(
            point.seconds / unit,
            point.score,
            xerr=point.seconds_deviation / unit,
            yerr=point.score_deviation,
            fmt=marker,
            ms=8,
            color=colour,
            elinewidth=1.4,
            capsize=4,
            label=point.name,
        )
        size = f"{point.parameters / 1e6:.1f}M" if point.parameters >= 1e5 else f"{point.parameters:,}"
        position = (point.seconds / unit, point.score)
        axes.annotate(size, position, (8, 5), textcoords="offset points", size=7.5, color=GREY)
    metric = points[0].metric
    better = "higher" if higher_is_better(metric) else "lower"
    axes.set_title(title, fontsize=10, color=INK)
    axes.set_xlabel(f"training, {unit_name}", color=GREY, fontsize=9)
    axes.set_ylabel(f"dev {metric.replace('_', ' ')} ({better} is better)", color=GREY, fontsize=9)
    axes.tick_params(labelsize=8)
    axes.margins(y=0.15)
    axes.set_xlim(0, 1.2 * longest / unit)
    axes.grid(color="#e3e8ed")
    axes.spines[["top", "right"]].set_visible(False)
