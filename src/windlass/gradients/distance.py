"""The norm of d h_T / d h_t over the distance T - t, exactly: how much of the past a gradient reaches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from windlass.bundle import Bundle
from windlass.core.errors import WindlassError
from windlass.core.wording import counted
from windlass.data.examples import Value
from windlass.gradients.reading import ONE_STEP, Reading, read, spectral_norm
from windlass.gradients.result import COLOURS, Result, Table, chosen, number, style
from windlass.gradients.transformer import transformer_jacobians, transformer_layers
from windlass.nn.cell import Cell
from windlass.nn.fast.switch import disabled
from windlass.nn.recurrence import Stack

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VANISHED, EXPLODED = 1e-2, 1e2
"""Below or above this share of what arrives one step back, a gradient has vanished or exploded, for a sentence."""
HOLDS = 0.95
"""The factor a step that a cell keeps which holds: 1 % is left after 90 steps."""


@dataclass(frozen=True)
class Flow:
    """The norms of one cell: entry k is the distance k, from 0.

    >>> flow = Flow("rnn", (1.0, 0.5, 0.25, 0.125))
    >>> flow.rate, flow.below(0.3)
    (0.5, 2)
    """

    name: str
    output: tuple[float, ...]  # | d h_T / d h_t |, with the rest of the state at t held fixed
    state: tuple[float, ...] = ()  # | d h_T / d s_t |, of cells whose state s has more parts than h
    tokens: tuple[str, ...] = field(default=())
    recurrent: bool = True  # else transformer layers: d y_T / d x_t

    @property
    def whole(self) -> tuple[float, ...]:
        """With respect to the whole state."""
        return self.state or self.output

    @property
    def rate(self) -> float:
        """The factor per step, averaged (geometrically) from one step back to the last that anything reaches."""
        far = max((k for k, norm in enumerate(self.whole) if norm > 0), default=0)
        return float((self.whole[far] / self.whole[1]) ** (1 / (far - 1))) if far > 1 else 0.0

    def below(self, least: float) -> int | None:
        """The smallest distance from which on all norms are below `least`; None: there is none."""
        left = [k for k, norm in enumerate(self.whole) if norm >= least]
        first = (left[-1] + 1) if left else 0
        return first if first < len(self.whole) else None

    def above(self, most: float) -> int | None:
        """The smallest distance whose norm is above `most`; None: there is none."""
        return next((k for k, norm in enumerate(self.whole) if norm > most), None)


def flow(reading: Reading, truncate: int | None = None, clip: float | None = None) -> Flow:
    """Measure | d h_T / d h_t |, the largest singular value, at every distance T - t, by exact back-propagation.

    `truncate` is the number of steps of truncated BPTT. `clip` is the largest norm of a gradient: of all
    gradients of norm 1 at h_T, none arrives larger.

    >>> from windlass.gradients.reading import fresh
    >>> from windlass.nn.cells import RNN
    >>> linear = fresh(RNN.Options(activation="identity"), size=3, steps=9, gain=0.5)
    >>> [round(norm, 6) for norm in flow(linear).output[:4]]  # an orthogonal matrix, times 1/2
    [1.0, 0.5, 0.25, 0.125]
    """
    cell, steps = reading.cell, reading.steps
    cut = () if truncate is None else (steps - truncate,)
    rows: list[list[torch.Tensor]] = [[] for _ in range(steps)]  # by distance
    for units in torch.eye(cell.size, dtype=torch.float64).split(reading.block):
        states = reading.unroll(len(units), cut)[1:]
        parts = [part for state in states for part in state]
        with disabled():
            found = torch.autograd.grad((states[-1][0] * units).sum(), parts, allow_unused=True)
        for n in range(steps):
            here = found[n * cell.parts : (n + 1) * cell.parts]
            filled = [units.new_zeros(len(units), cell.size) if part is None else part for part in here]
            rows[steps - 1 - n].append(torch.cat(filled, 1))
    jacobians = [torch.cat(blocks) for blocks in rows]  # (H, parts * H) each
    if truncate is not None:  # what lies beyond the cut is not reached
        jacobians = [j if k < truncate else torch.zeros_like(j) for k, j in enumerate(jacobians)]
    output = _norms([j[:, : cell.size] for j in jacobians], clip)
    state = _norms(jacobians, clip) if cell.parts > 1 else ()
    return Flow(reading.name, output, state, reading.tokens)


def model_distances(
    bundle: Bundle,
    text: Value,
    target: str | None = None,
    truncate: int | None = None,
    clip: float | None = None,
) -> Distances:
    """Measure all recurrent layers of a trained model that read a text, and all transformer layers.

    Of transformer layers it is the norm of d y_T / d x_t, from their last output to their inputs.

    >>> from windlass.inference.likelihood import tiny_lm
    >>> [flow.name for flow in model_distances(tiny_lm(), "abcab").flows]
    ['decoder']
    """
    transformers = transformer_layers(bundle.model)
    recurrent = any(isinstance(module, Stack) for module in bundle.model.modules())
    readings = read(bundle, text, target) if recurrent or not transformers else []
    longest = max((reading.steps for reading in readings), default=0)
    if truncate is not None and truncate >= longest:
        why = f"there are only {longest} steps; lower it" if readings else "a transformer has no steps; leave it out"
        raise WindlassError(f"--truncate {truncate} has no use: {why}")
    found = distances(readings, truncate, clip)
    others = tuple(
        Flow(name, _norms(jacobians, clip), (), tokens, recurrent=False)
        for name, jacobians, tokens in (transformer_jacobians(bundle, text, target) if transformers else ())
        if len(jacobians) > 1
    )
    if not (flows := (*found.flows, *others)):
        raise WindlassError(ONE_STEP)
    return Distances(flows, truncate, clip, found.gated)


def _norms(jacobians: Sequence[torch.Tensor], clip: float | None) -> tuple[float, ...]:
    for k, jacobian in enumerate(jacobians):
        if not bool(jacobian.isfinite().all()):
            raise WindlassError(f"the gradient overflows at {k} steps back: lower the gain, or take fewer steps")
    norms = [spectral_norm(jacobian) for jacobian in jacobians]
    return tuple(norm if clip is None else min(norm, clip) for norm in norms)


@dataclass(frozen=True)
class Distances(Result):
    """The norms of several cells over distance.

    >>> from windlass.gradients.reading import fresh
    >>> from windlass.nn.cells import GRU, RNN
    >>> found = distances([fresh(RNN.Options(), 8, 40), fresh(GRU.Options(), 8, 40)])
    >>> print(found.words()[0])
    rnn vanishes: ...
    """

    flows: tuple[Flow, ...]
    truncate: int | None = None
    clip: float | None = None
    gated: bool = False  # whether all cells have gates

    def tables(self) -> list[Table]:
        """A row a distance, a column a cell; two for a cell whose state has more than h."""
        most = max(len(flow.output) for flow in self.flows) - 1
        columns: dict[str, tuple[float, ...]] = {}
        for flow in self.flows:
            columns[flow.name] = flow.output
            if flow.state:
                columns[f"{flow.name}, whole state"] = flow.state
        tokens = self.flows[0].tokens if len({flow.tokens for flow in self.flows}) == 1 else ()
        rows = [
            (
                str(k),
                *((repr(tokens[-1 - k]),) if tokens else ()),
                *(number(norms[k]) if k < len(norms) else "" for norms in columns.values()),
            )
            for k in chosen(most)
        ]
        title = "| d h_T / d h_t |, the largest singular value, by the distance T - t"
        title += "\n(of transformer layers: of their last output with respect to their inputs)" * (
            not all(f.recurrent for f in self.flows)
        )
        headings = ("distance", *(("token",) if tokens else ()), *columns)
        return [Table(title, headings, rows, 2 if tokens else 1)]

    def words(self) -> list[str]:
        """Where it vanishes or explodes, and what to do."""
        said = [_say(flow, self.truncate) for flow in self.flows]
        todo = []
        if any("vanishes" in sentence for sentence in said):
            gated = "" if self.gated else "a gated cell (lstm, gru) can learn to keep its state, and "
            todo.append(
                f"Vanishing: {gated}an LSTM with a larger "
                "forget_bias keeps its state from the start; attention reaches every step directly. Clipping does not "
                "help: it only makes gradients smaller."
            )
        if any("explodes" in sentence for sentence in said):
            todo.append(
                "Exploding: clip the gradient (train.clip), lower the learning rate, or start from smaller recurrent "
                "weights (orthogonal: true)."
            )
        if self.truncate is not None:
            todo.append(
                f"Truncated after {self.truncate} steps: what lies further back is read, but never learned from."
            )
        return [*said, *todo]

    def to_json(self) -> dict[str, Any]:
        """The norms of every cell."""
        flows = [asdict(flow) | {"rate": flow.rate} for flow in self.flows]
        return {"what": "distance", "truncate": self.truncate, "clip": self.clip, "cells": flows}

    def draw(self, figure: Figure) -> None:
        """A line a cell, on a logarithmic scale."""
        from matplotlib.ticker import MaxNLocator

        axes = figure.subplots()
        floor = 1e-12
        for n, flow in enumerate(self.flows):
            colour = COLOURS[n % len(COLOURS)]
            reached = [(k, norm) for k, norm in enumerate(flow.output) if norm > floor]
            if len(reached) > 1:
                axes.plot(*zip(*reached, strict=True), color=colour, lw=1.8, label=flow.name)
            if flow.state:
                reached = [(k, norm) for k, norm in enumerate(flow.state) if norm > floor]
                axes.plot(*zip(*reached, strict=True), color=colour, lw=1.8, ls="--", label=f"{flow.name}, whole state")
        axes.set_yscale("log")
        axes.axhline(1, color="#5b6875", lw=0.8, ls=":")
        style(axes, "How much of a gradient arrives", "distance T - t, in steps", "norm of d h_T / d h_t")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.tick_params(axis="y", which="minor", labelsize=8)
        axes.legend(frameon=False, fontsize=8)


def _say(flow: Flow, truncate: int | None) -> str:
    far = len(flow.whole) - 1 if truncate is None else min(truncate, len(flow.whole)) - 1
    if not flow.recurrent:
        left = number(flow.whole[far] / (flow.whole[0] or 1.0))
        what = f"{counted(far, 'token')} back, the gradient has {left} of its norm at the last token"
        return f"{flow.name} is a transformer: {what}. That depends on its attention, not on distance."
    near = flow.whole[1] or 1.0  # the state may have another scale than h
    exploded, vanished = flow.above(EXPLODED * near), flow.below(VANISHED * near)
    if exploded is not None:
        return f"{flow.name} explodes: {exploded} steps back, {EXPLODED:.0f} times as much arrives as one step back."
    if vanished is not None and vanished <= far:
        return f"{flow.name} vanishes: from {vanished} steps back on, less than 1 % arrives of what does one step back."
    arrives = f"{counted(far, 'step')} back, a factor of {number(flow.whole[far])} arrives"
    if far < 2 or flow.rate >= HOLDS:
        rate = f" ({flow.rate:.3f} a step)" if far > 1 else ""
        return f"{flow.name} holds: {arrives}{rate}."
    lasting = f"at {flow.rate:.3f} a step, 1 % is left after {math.log(VANISHED) / math.log(flow.rate):.0f}"
    return f"{flow.name} shrinks: {arrives}; {lasting}."


def distances(readings: Sequence[Reading], truncate: int | None = None, clip: float | None = None) -> Distances:
    """Measure several cells.

    >>> from windlass.gradients.reading import fresh
    >>> from windlass.nn.cells import LSTM
    >>> found = distances([fresh(LSTM.Options(), 8, 12)], truncate=4)
    >>> found.flows[0].output[4]
    0.0
    """
    gated = all(type(reading.cell).gates is not Cell.gates for reading in readings)
    return Distances(tuple(flow(reading, truncate, clip) for reading in readings), truncate, clip, gated=gated)
