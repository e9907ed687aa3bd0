"""Score against the length of the source: where a fixed-size summary of the source stops being enough."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean

import numpy as np

from windlass.bundle import Bundle
from windlass.comparing.plot import COLOURS, MARKERS
from windlass.core.errors import DataError
from windlass.data.examples import Example
from windlass.explain.render import GREY, INK, save
from windlass.inference.evaluate import evaluate
from windlass.metrics import higher_is_better
from windlass.metrics.likelihood import format_metric

BINS = 6
"""Ranges of lengths, with about as many examples each."""


@dataclass(frozen=True)
class LengthScores:
    """The scores of the candidates of a group by the length of the source.

    >>> found = LengthScores("", "bleu", "dev", ((2, 9), (10, 30)), (50, 50), {"none": [[20.0, 5.0], [22.0, 7.0]]})
    >>> print(found.markdown())
    |  | 2-9 (50) | 10-30 (50) |
    |---|---:|---:|
    | none | 21.00 | 6.00 |
    """

    group: str
    metric: str
    part: str  # dev or test
    ranges: tuple[tuple[int, int], ...]  # the shortest and the longest source of each
    examples: tuple[int, ...]  # in each range
    scores: dict[str, list[list[float]]]  # of every candidate: for each seed, a score for each range

    def means(self, name: str) -> list[float]:
        """A candidate's mean score over seeds, for each range."""
        return [fmean(column) for column in zip(*self.scores[name], strict=True)]

    def markdown(self) -> str:
        """As a table."""
        columns = [f"{span(*ends)} ({count})" for ends, count in zip(self.ranges, self.examples, strict=True)]
        lines = ["|  | " + " | ".join(columns) + " |", "|---" + "|---:" * len(columns) + "|"]
        for name in self.scores:
            cells = [format_metric(self.metric, mean) for mean in self.means(name)]
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
        return "\n".join(lines)


def span(low: int, high: int) -> str:
    """A range in words.

    >>> span(3, 5), span(4, 4)
    ('3-5', '4')
    """
    return str(low) if low == high else f"{low}-{high}"


def ranges_of(lengths: Sequence[int], bins: int = BINS) -> list[tuple[int, int]]:
    """Cut lengths into at most `bins` ranges with about as many examples each.

    >>> ranges_of([1, 1, 2, 3, 4, 5, 6, 40], bins=3)
    [(1, 1), (2, 4), (5, 40)]
    """
    ordered = np.sort(np.asarray(lengths))
    starts = sorted({int(ordered[len(ordered) * k // bins]) for k in range(bins)})
    edges = [*starts, int(ordered[-1]) + 1]
    found = []
    for low, after in pairwise(edges):
        inside = ordered[(ordered >= low) & (ordered < after)]
        found.append((int(inside[0]), int(inside[-1])))
    return found


def score_by_length(
    group: str,
    metric: str,
    part: str,
    examples: Sequence[Example],
    folders: Mapping[str, Sequence[Path]],
    device: str = "cpu",
    note: Callable[[str], None] = lambda text: None,
) -> LengthScores:
    """Score trained models on examples by the length of the source, in tokens of the first model.

    `folders` are the models of every candidate, one for each seed.

    >>> score_by_length("", "cer", "dev", [], {})
    Traceback (most recent call last):
    windlass.core.errors.DataError: no examples to score by length
    """
    if not examples or not folders:
        raise DataError("no examples to score by length")
    first = Bundle.load(next(iter(folders.values()))[0], device)
    if first.task.language_model:
        raise DataError("no scores by length: a language model has no source")
    source = first.sides.source
    lengths = [source.cost(arrays) for arrays in source.encode_all([e.source for e in examples])]
    ranges = ranges_of(lengths)
    if len(ranges) < 2:
        raise DataError(f"no scores by length: all sources have the same length ({ranges[0][0]})")
    parts = [[e for e, n in zip(examples, lengths, strict=True) if low <= n <= high] for low, high in ranges]
    scores: dict[str, list[list[float]]] = {}
    for name, each in folders.items():
        for folder in each:
            note(f"scoring {name} by the length of the source")
            bundle = Bundle.load(folder, device)
            scores.setdefault(name, []).append([evaluate([bundle], part_).metrics[metric] for part_ in parts])
    return LengthScores(group, metric, part, tuple(ranges), tuple(map(len, parts)), scores)


def draw(found: Sequence[LengthScores], path: Path) -> Path:
    """Draw score against length, a panel for every group, a line for every candidate.

    >>> draw([], Path("lengths.png"))
    Traceback (most recent call last):
    windlass.core.errors.DataError: lengths.png: nothing to plot
    """
    if not found:
        raise DataError(f"{path}: nothing to plot")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.6 * len(found), 3.6), layout="constrained")
    for axes, group in zip(figure.subplots(1, len(found), squeeze=False).flatten(), found, strict=True):
        places = range(len(group.ranges))
        for number, (name, seeds) in enumerate(group.scores.items()):
            colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
            for seed in seeds if len(seeds) > 1 else []:
                axes.plot(places, seed, marker, ms=3, color=colour, alpha=0.35, mew=0, ls="none")
            axes.plot(places, group.means(name), marker=marker, ms=6, color=colour, label=name)
        axes.set_xticks(list(places), [span(*ends) for ends in group.ranges], fontsize=8)
        better = "higher" if higher_is_better(group.metric) else "lower"
        axes.set_title(group.group, fontsize=10, color=INK)
        axes.set_xlabel("length of the source, tokens", color=GREY, fontsize=9)
        axes.set_ylabel(f"{group.part} {group.metric.replace('_', ' ')} ({better} is better)", color=GREY, fontsize=9)
        axes.tick_params(axis="y", labelsize=8)
        axes.grid(color="#e3e8ed")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=9)
    save(figure, path)
    return path
