"""The figures as pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

OURS, THEIRS = "#c8553d", "#8d99ae"


def draw(rows: list[dict[str, Any]], file: Path) -> None:
    """A panel for every work, a bar for every contestant, the limit as a line."""
    panels: dict[str, list[tuple[str, float, list[float]]]] = {}
    limits: dict[str, float] = {}
    for row in rows:
        for name, rate in row["rates"].items():
            threads = f"{row['threads']} core{'s' * (row['threads'] > 1)}"
            unit = name if row["what"] == "train" else f"{name}, sentences/s"
            title = f"{row['what']} {row['model']}, {threads}: {unit}"
            if row["contestant"] == "limit":
                limits[title] = rate
            else:
                panels.setdefault(title, []).append((row["contestant"], rate, row["spread"][name]))
    columns = 2 if len(panels) < 7 else 3
    lines = -(-len(panels) // columns)
    figure, axes = plt.subplots(lines, columns, figsize=(5.5 * columns, 2.3 * lines), squeeze=False)
    for axis in axes.flat[len(panels) :]:
        axis.axis("off")
    for axis, (title, bars) in zip(axes.flat, panels.items(), strict=False):
        bars = sorted(bars, key=lambda bar: bar[1])
        names, rates = [bar[0] for bar in bars], [bar[1] for bar in bars]
        spread = [[rate - low for _, rate, (low, _) in bars], [high - rate for _, rate, (_, high) in bars]]
        colours = [OURS if name.startswith("windlass") else THEIRS for name in names]
        axis.barh(names, rates, xerr=spread, color=colours, ecolor="#333333", height=0.7)
        if title in limits:
            axis.axvline(limits[title], color="black", linestyle="--", linewidth=1)
            place = axis.get_xaxis_transform()  # across as the data, up as the panel
            axis.text(limits[title], 1.0, "limit ", ha="right", va="bottom", fontsize=8, transform=place)
        axis.set_title(title, fontsize=9, pad=14)
        axis.tick_params(labelsize=8)
        axis.set_xlim(0, 1.05 * max([*(bar[2][1] for bar in bars), limits.get(title, 0)]))
        axis.spines[["top", "right"]].set_visible(False)
    _save(figure, file)


def draw_growth(rows: list[dict[str, Any]], file: Path) -> None:
    """Time and memory over every axis, each contestant a line; both scales are logarithmic."""
    axes_ = list(dict.fromkeys(row["axis"] for row in rows))
    colours = {"windlass": OURS, "careful loop": THEIRS, "limit": "black"}
    figure, panels = plt.subplots(2, len(axes_), figsize=(4 * len(axes_), 6), squeeze=False)
    for column, axis in enumerate(axes_):
        unit = "line" if axis == "corpus" else "token"
        for panel, key, scale, title in zip(
            panels[:, column],
            ("seconds_a_unit", "peak_mb"),
            (1e6, 1),
            (f"microseconds a {unit}", "peak memory, MB"),
            strict=True,
        ):
            for name in dict.fromkeys(row["contestant"] for row in rows):
                mine = [r for r in rows if r["axis"] == axis and r["contestant"] == name and "failed" not in r]
                if mine and not (name == "limit" and key == "peak_mb"):
                    x, y = [r["size"] for r in mine], [scale * r[key] for r in mine]
                    panel.plot(x, y, marker="o", color=colours.get(name), label=name)
            panel.set(xscale="log", yscale="log", xlabel=axis, title=title)
            panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            panel.yaxis.set_major_formatter("{x:,.0f}")
            panel.yaxis.set_minor_locator(NullLocator())
            panel.spines[["top", "right"]].set_visible(False)
        panels[0, column].margins(y=0.3)  # room for the legend
        panels[0, column].legend(fontsize=8)  # a corpus is held in two ways, which are its own lines
    _save(figure, file)


def _save(figure: Figure, file: Path) -> None:
    figure.tight_layout()
    figure.savefig(file, dpi=110)
    plt.close(figure)
    print(f"drawn to {file}")
