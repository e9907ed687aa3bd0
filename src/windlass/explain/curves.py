"""Draw training curves: the losses and the dev score of one run, or of several runs in one picture."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windlass.core.errors import DataError, WindlassError
from windlass.explain.render import GREY, INK, save
from windlass.metrics import METRICS, higher_is_better
from windlass.metrics.likelihood import format_metric

if TYPE_CHECKING:  # 40 MB, loaded only to draw
    from matplotlib.axes import Axes

COLOURS = ("#08519c", "#d95f0e", "#31a354", "#756bb1", "#636363", "#c51b8a", "#8c6d31", "#17becf")
Rows = Sequence[Mapping[str, float]]
"""The evaluations of a run, as `read_rows` returns them."""
Points = list[tuple[float, float]]


def read_rows(folder: Path) -> list[dict[str, float]]:
    """Read the evaluations of a run from its folder: epoch, step, `best_step` (that of the weights that were kept so
    far), `loss` (of training), `dev_loss` and the dev scores.

    >>> read_rows(Path("no-such-run"))
    Traceback (most recent call last):
    windlass.core.errors.DataError: no-such-run: no training/metrics.jsonl: name the folder of a run
    """
    try:
        lines = (folder / "training" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    except OSError:
        raise DataError(f"{folder}: no training/metrics.jsonl: name the folder of a run") from None
    rows = []
    for line in lines:
        row = json.loads(line)
        dev = row["dev"]
        loss = row.get("dev_loss", dev.get("nats"))  # the loss of a language model
        told = {name: row[name] for name in ("epoch", "step", "best_step", "loss") if name in row}
        rows.append({**told, **({} if loss is None else {"dev_loss": loss}), **dev})
    return rows


def curves(rows: Rows, path: Path | str, score: str | None = None) -> Path:
    """Draw training and dev loss and the dev score of a run as one .png; the best evaluation is marked.

    The score is the named one, or the first column that is a metric (plain, or as `dev_...`); if it is the dev loss
    itself, it is drawn once.

    >>> import tempfile
    >>> rows = [{"epoch": 1, "loss": 2.0, "wer": 80.0}, {"epoch": 2, "loss": 1.0, "wer": 60.0}]
    >>> curves(rows, Path(tempfile.mkdtemp()) / "curves.png").stat().st_size > 5000
    True
    """
    return compare_curves({"": (rows, score)}, path)


def compare_curves(runs: Mapping[str, tuple[Rows, str | None]], path: Path | str) -> Path:
    """Draw several runs by name, each with its score, as one .png: a colour per run, training losses dashed.

    >>> import tempfile
    >>> runs = {name: ([{"epoch": e, "loss": 2 / e, "wer": 80 / e} for e in (1, 2)], "wer") for name in ("gru", "lstm")}
    >>> compare_curves(runs, Path(tempfile.mkdtemp()) / "curves.png").stat().st_size > 5000
    True
    """
    path = Path(path)
    if path.suffix.lower() != ".png":
        raise WindlassError(f"{path}: cannot write {path.suffix!r}: name it .png")
    if not any(rows for rows, _ in runs.values()):
        raise DataError(f"{path}: no epochs to draw")
    panels: dict[str, list[_Line]] = {}
    for number, (name, (rows, score)) in enumerate(runs.items()):
        for line in _lines(name, rows, score, COLOURS[number % len(COLOURS)]):
            panels.setdefault(line.panel, []).append(line)
    if not panels:
        names = dict.fromkeys(name for rows, _ in runs.values() for row in rows for name in row)
        raise DataError(f"{path}: neither a loss nor a score in {', '.join(names)}")
    from matplotlib.figure import Figure

    height = 2.6 * len(panels) + 0.7 + 0.2 * (len(runs) > 1) * -(-len(runs) // 2)
    figure = Figure(figsize=(6.4, height), layout="constrained")
    figure.suptitle("Training" if len(runs) == 1 else f"Training of {len(runs)} models", fontsize=11, color=INK)
    all_axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (panel, lines) in zip(all_axes, panels.items(), strict=True):
        _panel(axes, panel, lines, legend=len(runs) == 1)
    all_axes[-1].set_xlabel("epoch", color=GREY, fontsize=9)
    all_axes[-1].xaxis.get_major_locator().set_params(integer=True)
    if len(runs) > 1:
        solid = {line.run: line for lines in panels.values() for line in lines if not line.dashed}
        handles = [all_axes[0].plot([], [], color=line.colour, lw=1.8)[0] for line in solid.values()]
        figure.legend(handles, list(solid), loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    save(figure, path)
    return path


@dataclass(frozen=True)
class _Line:
    """One curve: its run, the panel it is drawn in (`loss`, or a metric), and its points."""

    run: str
    panel: str
    label: str
    points: Points
    colour: str
    dashed: bool = False
    best: tuple[float, float, str] | None = None  # the evaluation whose weights were kept: where, and its score


def _lines(run: str, rows: Rows, score: str | None, colour: str) -> list[_Line]:
    names = list(dict.fromkeys(name for row in rows for name in row))
    score = score or next((name for name in names if name.removeprefix("dev_") in METRICS), None)
    labels = {"loss": "training loss", "dev_loss": "dev loss"}
    lines = [
        _Line(run, "loss", labels[name], _points(rows, name), colour, dashed=name == "loss")
        for name in labels
        if name in names
    ]
    if score is None or score not in names:
        return lines
    metric, points = score.removeprefix("dev_"), _points(rows, score)
    best = _best(rows, score, metric)
    if lines and lines[-1].points == points:  # a language model, which is chosen by its dev loss
        return [*lines[:-1], replace(lines[-1], best=best)]
    return [*lines, _Line(run, metric, f"dev {metric.replace('_', ' ')}", points, colour, best=best)]


def _best(rows: Rows, score: str, metric: str) -> tuple[float, float, str]:
    """The evaluation whose weights the run kept; if that is not known, the first of those with the best score."""
    kept = [row for row in rows if "step" in row and row["step"] == rows[-1].get("best_step")]
    points = _points(kept, score) or _points(rows, score)
    epoch, value = (max if higher_is_better(metric) else min)(points, key=lambda point: point[1])
    return epoch, value, f"best {format_metric(metric, value)}"


def _points(rows: Rows, name: str) -> Points:
    return [(row.get("epoch", number), row[name]) for number, row in enumerate(rows, 1) if name in row]


def _panel(axes: Axes, panel: str, lines: Sequence[_Line], legend: bool) -> None:
    for line in lines:
        style: dict[str, Any] = {"ls": "--", "alpha": 0.7} if line.dashed else {"marker": "o", "ms": 3}
        axes.plot(*zip(*line.points, strict=True), color=line.colour, lw=1.6, label=line.label, **style)
        if line.best is not None:
            _mark(axes, *line.best)
    if panel == "loss":
        dashed = "" if legend else " (training dashed, dev solid)"
        axes.set_title(f"loss per token{dashed}", fontsize=10, color=INK)
        axes.set_ylabel("nats", color=GREY, fontsize=9)
    else:
        better = "higher" if higher_is_better(panel) else "lower"
        axes.set_title(f"dev {panel.replace('_', ' ')}, {better} is better", fontsize=10, color=INK)
        axes.set_ylabel(panel.replace("_", " "), color=GREY, fontsize=9)
    axes.tick_params(labelsize=8)
    axes.grid(color="#e3e8ed")
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(y=0.15)
    if legend and panel == "loss":
        axes.legend(frameon=False, fontsize=9)


def _mark(axes: Axes, epoch: float, value: float, text: str) -> None:
    axes.plot([epoch], [value], "o", ms=9, mfc="none", mec=INK)
    axes.annotate(text, (epoch, value), (0, 9), textcoords="offset points", ha="center", size=8, color=INK)
