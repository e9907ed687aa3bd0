"""The figures as one picture: a panel for every work, a bar for every contestant, the limit as a line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

OURS, THEIRS = "#c8553d", "#8d99ae"


def draw(rows: list[dict[str, Any]], file: Path) -> None:
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
        colours = [OURS if name == "windlass" else THEIRS for name in names]
        axis.barh(names, rates, xerr=spread, color=colours, ecolor="#333333", height=0.7)
        if title in limits:
            axis.axvline(limits[title], color="black", linestyle="--", linewidth=1)
            axis.text(limits[title], len(bars) - 0.4, "limit ", ha="right", va="bottom", fontsize=8)
        axis.set_title(title, fontsize=9, pad=14)
        axis.tick_params(labelsize=8)
        axis.set_xlim(0, 1.05 * max([*rates, limits.get(title, 0)]))
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(file, dpi=110)
    plt.close(figure)
    print(f"drawn to {file}")
