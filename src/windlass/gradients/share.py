"""From how many steps back a loss gradient arrives, under full and under truncated BPTT.

    dE/dW = sum over k of G_k,    G_k = sum over t of dE_t/dh_t  dh_t/ds_{t-k}  ds_{t-k}/dW

where the last factor is the immediate derivative: s_{t-k-1} is held fixed. W is every weight of the cell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from windlass.core.errors import WindlassError
from windlass.gradients.reading import Reading
from windlass.gradients.result import COLOURS, Result, Table, chosen, number, style
from windlass.nn.fast.switch import disabled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FLOOR = 1e-15
"""Smaller norms are not drawn: they are rounding."""


@dataclass(frozen=True)
class Share:
    """The loss gradient of one cell by the number of steps that it came back.

    >>> from windlass.gradients.reading import fresh
    >>> from windlass.nn.cells import GRU
    >>> found = share(fresh(GRU.Options(), size=8, steps=20), truncate=5)
    >>> round(sum(found.portions), 9), max(k for k, norm in enumerate(found.truncated) if norm > 0)
    (1.0, 4)
    """

    name: str
    full: tuple[float, ...]  # |G_k|, k from 0
    portions: tuple[float, ...]  # G_k along the whole gradient, as a share of it: these sum to 1
    total: float  # |dE/dW|
    difference: float  # between the sum of all G_k and autograd's gradient, at most in any weight
    truncate: int | None = None
    truncated: tuple[float, ...] = ()  # |G_k| in chunks of `truncate` steps
    cosine: float | None = None  # between the truncated gradient and the full one
    truncated_total: float | None = None
    clip: float | None = None

    def clipped(self, total: float) -> float:
        """The factor by which clipping multiplies a gradient of this norm.

        >>> Share("rnn", (), (), 4.0, 0.0, clip=1.0).clipped(4.0)
        0.25
        """
        return 1.0 if self.clip is None else min(1.0, self.clip / max(total, 1e-300))

    def within(self, steps: int) -> float:
        """The share of the gradient from less than a given number of steps back."""
        return sum(self.portions[:steps])

    def words(self) -> list[str]:
        """What the shares say."""
        most = next(k for k in range(len(self.portions)) if self.within(k + 1) >= 0.95 or k == len(self.portions) - 1)
        said = [
            f"{self.name}: 95 % of the gradient comes from at most {most} step{'s' * (most != 1)} back. All G_k sum to "
            f"autograd's gradient (norm {number(self.total)}; largest difference {self.difference:.0e})."
        ]
        if self.truncate is not None and self.cosine is not None and self.truncated_total is not None:
            said.append(
                f"{self.name} in chunks of {self.truncate}: {self.truncated_total / max(self.total, 1e-300):.0%} of "
                f"the norm, and a cosine of {self.cosine:.3f} with the full gradient."
            )
            if self.cosine < 0.9:
                said.append("Truncation changes what is learned here: use longer chunks (train.chunk).")
        if self.clip is not None:
            factor = self.clipped(self.total)
            said.append(
                f"{self.name}: clipping to {self.clip:g} multiplies all of it by {number(factor)}, near and far alike."
                if factor < 1
                else f"{self.name}: clipping to {self.clip:g} changes nothing: the gradient is smaller than that."
            )
        return said

    def table(self) -> Table:
        """A row a distance."""
        f, g = self.clipped(self.total), self.clipped(self.truncated_total or 0.0)
        headings = ["steps back", "|G_k|", "share", "share up to here"]
        headings += [f"|G_k| in chunks of {self.truncate}"] if self.truncated else []
        rows = []
        for k in (0, *chosen(len(self.full) - 1)):
            row = [str(k), number(self.full[k] * f), _percent(self.portions[k]), _percent(self.within(k + 1))]
            rows.append(row + ([number(self.truncated[k] * g)] if self.truncated else []))
        after = "" if self.clip is None else f", clipped to a norm of {self.clip:g}"
        return Table(f"{self.name}: the loss gradient by the steps that it came back{after}", headings, rows)


def _percent(x: float) -> str:
    return f"{round(100 * x, 1) + 0.0:.1f} %"  # no -0.0


@dataclass(frozen=True)
class Shares(Result):
    """The loss gradients of several cells.

    >>> from windlass.gradients.reading import fresh
    >>> from windlass.nn.cells import GRU, RNN
    >>> found = shares([fresh(cell.Options(), size=8, steps=20) for cell in (RNN, GRU)], clip=1.0)
    >>> print(found.words()[1])
    rnn: clipping to 1 multiplies all of it by ..., near and far alike.
    """

    each: tuple[Share, ...]

    def tables(self) -> list[Table]:
        """One a cell."""
        return [one.table() for one in self.each]

    def words(self) -> list[str]:
        """What the shares say."""
        return [sentence for one in self.each for sentence in one.words()]

    def to_json(self) -> dict[str, Any]:
        """All figures."""
        return {"what": "share", "cells": [asdict(one) | {"factor": one.clipped(one.total)} for one in self.each]}

    def draw(self, figure: Figure) -> None:
        """The norms on a logarithmic scale, those in chunks dashed."""
        axes = figure.subplots()
        for n, one in enumerate(self.each):
            colour, f, g = COLOURS[n % len(COLOURS)], one.clipped(one.total), one.clipped(one.truncated_total or 0.0)
            points = [(k, norm * f) for k, norm in enumerate(one.full) if norm > FLOOR]
            axes.plot(*zip(*points, strict=True), color=colour, lw=1.8, label=one.name)
            points = [(k, norm * g) for k, norm in enumerate(one.truncated) if norm > FLOOR]
            if points:
                label = f"{one.name}, chunks of {one.truncate}"
                axes.plot(*zip(*points, strict=True), marker="o", ms=3, color=colour, lw=1.2, ls="--", label=label)
        axes.set_yscale("log")
        style(axes, "From how many steps back the loss gradient comes", "steps back, k", "norm of G_k")
        axes.legend(frameon=False, fontsize=8)


def shares(readings: Sequence[Reading], truncate: int | None = None, clip: float | None = None) -> Shares:
    """Split the loss gradients of several cells; layers that no loss reaches directly are left out.

    >>> from windlass.gradients.reading import fresh
    >>> from windlass.nn.cells import RNN
    >>> len(shares([fresh(RNN.Options(), size=4, steps=9)], truncate=3).each[0].truncated)
    9
    """
    reached = [reading for reading in readings if reading.upstream is not None]
    if not reached:
        raise WindlassError("no loss reaches these layers directly, only through a decoder: ask for the distance")
    return Shares(tuple(share(reading, truncate, clip) for reading in reached))


def share(reading: Reading, truncate: int | None = None, clip: float | None = None) -> Share:
    """Split the loss gradient of a cell's weights by the steps that it came back.

    >>> from windlass.gradients.reading import fresh
    >>> from windlass.nn.cells import LSTM
    >>> share(fresh(LSTM.Options(), size=4, steps=9)).difference < 1e-12
    True
    """
    if reading.upstream is None:
        raise WindlassError(f"{reading.name}: no loss reaches this layer directly: choose the last layer of a stack")
    steps, whole = reading.steps, _autograd(reading)
    size = (whole @ whole).clamp(min=1e-300)
    full, portions, truncated = list[float](), list[float](), list[float]()
    total, less = torch.zeros_like(whole), None if truncate is None else torch.zeros_like(whole)
    for part in _by_distance(reading, torch.zeros(steps, dtype=torch.long)):
        full.append(float(part.norm()))
        portions.append(float(part @ whole / size))
        total += part
    if less is not None and truncate is not None:
        for part in _by_distance(reading, torch.arange(steps) // truncate):
            truncated.append(float(part.norm()))
            less += part
    return Share(
        name=reading.name,
        full=tuple(full),
        portions=tuple(portions),
        total=float(whole.norm()),
        difference=float((total - whole).abs().max()),
        truncate=truncate,
        truncated=tuple(truncated),
        cosine=None if less is None else float(torch.cosine_similarity(less, whole, 0)),
        truncated_total=None if less is None else float(less.norm()),
        clip=clip,
    )


def _flat(reading: Reading, gradients: tuple[Tensor | None, ...]) -> Tensor:
    pairs = zip(reading.cell.parameters(), gradients, strict=True)
    return torch.cat([(torch.zeros_like(weight) if g is None else g).flatten() for weight, g in pairs])


def _autograd(reading: Reading) -> Tensor:
    """The gradient of all weights, by one backward pass through all steps."""
    states = reading.unroll()[1:]
    outputs = torch.cat([state[0] for state in states])  # (S, H)
    with disabled():
        found = torch.autograd.grad(outputs, list(reading.cell.parameters()), reading.upstream, allow_unused=True)
    return _flat(reading, found)


def _by_distance(reading: Reading, chunk: Tensor) -> Iterator[Tensor]:
    """G_k for every k from 0, from pairs of steps in the same chunk; `chunk` (S,) says in which one a step is."""
    cell, steps, upstream = reading.cell, reading.steps, reading.upstream
    assert upstream is not None
    parameters = list(cell.parameters())
    blocks = []
    for rows in torch.arange(steps).split(reading.block):  # row r is for the loss of step r
        states = reading.unroll(len(rows))
        losses = torch.stack([states[r + 1][0][n] for n, r in enumerate(rows.tolist())])
        nodes = [part for state in states[1:] for part in state]
        with disabled():
            found = torch.autograd.grad((losses * upstream[rows]).sum(), nodes, allow_unused=True)
        filled = [torch.zeros_like(node) if g is None else g for node, g in zip(nodes, found, strict=True)]
        blocks.append(torch.stack(filled).detach())
    reached = torch.cat(blocks, 1).unflatten(0, (steps, cell.parts))  # (S, parts, S, H): d E_r / d s_i at [i, :, r]
    states = reading.unroll()
    with disabled():
        before = tuple(torch.stack([state[p][0].detach() for state in states[:-1]]) for p in range(cell.parts))
        after = cell.step(cell.project(reading.inputs), before, cell.products())  # all steps at once, as rows
    moving = [p for p, part in enumerate(after) if part.requires_grad]  # a cell may detach a normaliser
    ends = [after[p] for p in moving]
    for k in range(steps):
        here, there = torch.arange(steps - k), torch.arange(k, steps)
        kept = reached[here, :, there] * (chunk[here] == chunk[there])[:, None, None]  # (S - k, parts, H)
        cotangents = [torch.cat([kept[:, p], kept.new_zeros(k, cell.size)]) for p in moving]
        found = torch.autograd.grad(ends, parameters, cotangents, retain_graph=True, allow_unused=True)
        yield _flat(reading, found)
