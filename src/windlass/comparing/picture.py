"""Score against training time, with error bars, as one picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from windlass.core.errors import DataError, WindlassError
from windlass.metrics import higher_is_better

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

INK, GREY = "#1b2733", "#5b6875"
COLOURS = ("#08519c", "#d95f0e", "#31a354", "#756bb1", "#636363", "#c51b8a", "#8c6d31", "#17becf")
MARKERS = "osD^vP*X"
ACROSS = 3
"""Panels side by side."""


@dataclass(frozen=True)
class Point:
    """A candidate in a picture.

    >>> Point("gru", "wer", 60.0, 18.5, 2.0, 0.4, ((60.0, 18.5),), 900_000).name
    'gru'
    """

    name: str
    metric: str
    seconds: float
    score: float
    seconds_deviation: float
    score_deviation: float
    runs: tuple[tuple[float, float], ...]  # every seed's own
    parameters: int


def draw(panels: Mapping[str, Sequence[Point]], path: Path) -> Path:
    """Draw a panel for every group; a candidate of the same name looks the same in all of them.

    Large marks are means with one standard deviation, small ones the seeds; beside a mean is the number of parameters.

    >>> draw({}, Path("c.png"))
    Traceback (most recent call last):
    windlass.core.errors.DataError: c.png: there is nothing to draw
    """
    if path.suffix.lower() != ".png":
        raise WindlassError(f"{path}: cannot write {path.suffix!r}: name it .png")
    if not panels:
        raise DataError(f"{path}: there is nothing to draw")
    names = list(dict.fromkeys(point.name for points in panels.values() for point in points))
    across = min(ACROSS, len(panels))
    down = -(-len(panels) // across)
    legend = 0.35 + 0.22 * -(-len(names) // (3 * across))
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(max(5.4, 4.1 * across), 3.5 * down + legend), layout="constrained")
    places = figure.subplots(down, across, squeeze=False).flatten()
    for axes in places[len(panels) :]:
        axes.set_visible(False)
    for axes, (title, points) in zip(places, panels.items(), strict=False):
        _panel(axes, title, points, names)
    handles: dict[str, Artist] = {}
    for axes in places[: len(panels)]:
        marks, labels = axes.get_legend_handles_labels()
        handles |= dict(zip(labels, marks, strict=True))
    figure.legend(
        [handles[name] for name in names],
        names,
        loc="outside lower center",
        ncols=min(len(names), 3 * across),
        frameon=False,
        fontsize=9,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    FigureCanvasAgg(figure)
    figure.savefig(path, format="png", dpi=150, facecolor="white", metadata={"Software": None})
    return path


def _panel(axes: Axes, title: str, points: Sequence[Point], names: Sequence[str]) -> None:
    longest = max(second for point in points for second, _ in point.runs)
    unit, name = (60.0, "minutes") if longest >= 180 else (1.0, "seconds")
    for point in points:
        place = names.index(point.name)
        colour, marker = COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]
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
        place_of = (point.seconds / unit, point.score)
        axes.annotate(size, place_of, (8, 5), textcoords="offset points", size=7.5, color=GREY)
    metric = points[0].metric
    better = "higher" if higher_is_better(metric) else "lower"
    axes.set_title(title, fontsize=10, color=INK)
    axes.set_xlabel(f"training, {name}", color=GREY, fontsize=9)
    axes.set_ylabel(f"dev {metric.replace('_', ' ')} ({better} is better)", color=GREY, fontsize=9)
    axes.tick_params(labelsize=8)
    axes.margins(y=0.15)
    axes.set_xlim(0, 1.2 * longest / unit)
    axes.grid(color="#e3e8ed")
    axes.spines[["top", "right"]].set_visible(False)
