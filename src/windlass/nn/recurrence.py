"""Recurrent layers over whole sequences: stacked, uni- or bidirectional, with residual or highway connections."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from windlass.core.options import Options
from windlass.core.records import CellState, Record
from windlass.nn import fast
from windlass.nn.cell import Cell
from windlass.nn.cells import LSTM, CellOptions
from windlass.nn.dropout import drop, drop_mask
from windlass.nn.fast.stack import InferenceStack
from windlass.nn.linear import Linear
from windlass.nn.product import Product


class StackOptions(Options):
    """A stack of recurrent layers.

    >>> StackOptions(cell="gru", size=8).cell.build(3, 8).size
    8
    """

    cell: CellOptions = Field(LSTM.Options(), description="the recurrent cell")
    size: int = Field(256, ge=1, description="units per layer and direction")
    layers: int = Field(1, ge=1, le=100, description="number of layers")
    connect: Literal["plain", "residual", "highway"] = Field("plain", description="connections around a layer")
    dropout: float = Field(0.0, ge=0, lt=1, description="on the output of every layer, before it is connected")
    locked: bool = Field(False, description="one dropout mask for all steps of a sequence (variational dropout)")

    @model_validator(mode="after")
    def _all_used(self) -> StackOptions:
        if self.connect != "plain" and self.layers == 1:
            raise ValueError(f"connect: {self.connect} changes nothing with one layer: set layers to 2 or more")
        if self.locked and not self.dropout:
            raise ValueError("locked: true changes nothing without dropout: set dropout above 0")
        return self


class BidirectionalOptions(StackOptions):
    """A stack of recurrent layers, bidirectional unless it is set otherwise.

    >>> options = BidirectionalOptions(cell="gru", size=4)
    >>> Stack(3, options, options.bidirectional)(torch.randn(2, 5, 3))[0].shape
    torch.Size([2, 5, 8])
    """

    bidirectional: bool = Field(True, description="read in both directions")


def run(
    cell: Cell, x: Tensor, mask: Tensor | None = None, state: CellState | None = None, reverse: bool = False
) -> tuple[Tensor, CellState]:
    """Run a cell over sequences x (B, S, I); return its outputs (B, S, H) and last state.

    Padding keeps the state and outputs zeros. So more padding changes nothing, in either direction, and the last state
    of a row is the one at its end.

    >>> from windlass.nn.cells import GRU
    >>> outputs, (h,) = run(GRU.Options().build(3, 4), torch.randn(2, 5, 3))
    >>> torch.equal(outputs[:, -1], h)
    True
    """
    if not x.size(1):
        return x.new_zeros(x.size(0), 0, cell.size), cell.zero_state(x.size(0), x) if state is None else state
    real = None if mask is None or bool(mask.all()) else mask.t()[..., None]  # (S, B, 1)
    x = x.transpose(0, 1)
    outputs, last = fast.fused(cell, x, state, real, reverse) or stepwise(cell, x, state, real, reverse)
    return (outputs if real is None else outputs * real).transpose(0, 1), last


def stepwise(
    cell: Cell, x: Tensor, state: CellState | None, real: Tensor | None, reverse: bool
) -> tuple[Tensor, CellState]:
    """Run a cell step by step over inputs (S, B, I): the reference for every fast path.

    >>> from windlass.nn.cells import RNN
    >>> outputs, (h,) = stepwise(RNN.Options().build(3, 4), torch.randn(5, 2, 3), None, None, reverse=True)
    >>> torch.equal(outputs[0], h)
    True
    """
    state = cell.zero_state(x.size(1), x) if state is None else state
    steps, products = cell.project(x).unbind(0), cell.products()  # one product for all inputs
    full = [True] * len(steps) if real is None else real.flatten(1).all(1).tolist()
    outputs: list[Tensor] = list(steps)  # each is replaced below
    for t in reversed(range(len(steps))) if reverse else range(len(steps)):
        new = cell.step(steps[t], state, products)
        if real is not None and not full[t]:
            new = tuple(torch.where(real[t], n, o) for n, o in zip(new, state, strict=True))
        state = new
        outputs[t] = state[0]
    return torch.stack(outputs), state


@dataclass(frozen=True)
class StackState(Record):
    """The state of a unidirectional stack: that of every layer, and what is fixed for a sequence.

    >>> StackState(((torch.zeros(2, 3),),)).top.shape
    torch.Size([2, 3])
    """

    layers: tuple[CellState, ...]
    masks: tuple[Tensor, ...] = ()  # (B, H) for every layer, with locked dropout
    products: tuple[tuple[Product, ...], ...] = ()  # with the state, for every layer
    below: tuple[Product, ...] = ()  # with the input, for every layer but the first

    @property
    def top(self) -> Tensor:
        """The last layer's h."""
        return self.layers[-1][0]


def _cells(cells: Iterable[Cell]) -> Sequence[Cell]:
    return nn.ModuleList(cells)  # type: ignore[return-value]


class Stack(nn.Module):
    """Stacked layers of one kind of cell.

    plain:     y = R(x)
    residual:  y = x + R(x)
    highway:   y = g * R(x) + (1 - g) * x,  g = sigmoid(W x + b)      (Srivastava et al. 2015)

    The first layer, whose input may have another size, is always plain. The output of a bidirectional layer is
    [forward; backward] (Schuster and Paliwal 1997). Dropout is applied to the output of every layer; if locked, with
    one mask for all steps (Gal and Ghahramani 2016). The initial state is zeros, unless it is given or learned.

    >>> stack = Stack(3, StackOptions(cell="lstm", size=4, layers=2), bidirectional=True)
    >>> outputs, final = stack(torch.randn(2, 5, 3))
    >>> outputs.shape, final[0][1].shape
    (torch.Size([2, 5, 8]), torch.Size([2, 8]))
    """

    def __init__(
        self, input_size: int, options: StackOptions, bidirectional: bool = False, learned_start: bool = False
    ):
        super().__init__()
        self.options = options
        self.size = options.size * (2 if bidirectional else 1)
        widths = [input_size] + [self.size] * (options.layers - 1)
        self.cells = _cells(options.cell.build(w, options.size) for w in widths)
        self.backward_cells = _cells(options.cell.build(w, options.size) for w in widths if bidirectional)
        self.gates = nn.ModuleList(
            Linear(self.size, self.size) for _ in range(options.layers - 1) if options.connect == "highway"
        )
        shape = (2 if bidirectional else 1, options.layers, self.first.parts, options.size)
        self.start = nn.Parameter(torch.randn(shape) * 0.1) if learned_start else None

    def forward(
        self, x: Tensor, mask: Tensor | None = None, state: StackState | None = None
    ) -> tuple[Tensor, tuple[CellState, ...]]:
        """Run over sequences x (B, S, I); return outputs (B, S, D) and the last state of every layer."""
        final: list[CellState] = []
        for layer, cell in enumerate(self.cells):
            x = x.transpose(0, 1).contiguous().transpose(0, 1)  # the layout of `run`: one copy for both directions
            y, last = run(cell, x, mask, state.layers[layer] if state else self._start(0, layer, x))
            if self.backward_cells:
                y_back, last_back = run(self.backward_cells[layer], x, mask, self._start(1, layer, x), reverse=True)
                y = torch.cat([y, y_back], dim=-1)
                last = tuple(torch.cat(pair, dim=-1) for pair in zip(last, last_back, strict=True))
            final.append(last)
            drop = state.masks[layer] if state and state.masks else self._mask(y)
            x = self.connect(layer, x, self._drop(y, None if drop is None else drop[:, None]))
        return x, tuple(final)

    def _start(self, direction: int, layer: int, x: Tensor) -> CellState | None:
        """The learned initial state of a layer for sequences x (B, S, I); None: zeros."""
        if self.start is None:
            return None
        return tuple(part.expand(x.size(0), -1) for part in self.start[direction, layer].unbind(0))

    def inference(self, int8: bool = False) -> InferenceStack | None:
        """The stack with packed weights, if all cells have a tape."""
        return InferenceStack.of(self, int8)

    def begin(self, layers: tuple[CellState, ...]) -> StackState:
        """Start from a state; with locked dropout, draw the masks for the sequences."""
        masks = [self._mask(cell_state[0]) for cell_state in layers]
        products, below = (cell.products() for cell in self.cells), (Product(cell.weight_x) for cell in self.cells[1:])
        return StackState(layers, tuple(m for m in masks if m is not None), tuple(products), tuple(below))

    def step(self, projected: Tensor, state: StackState) -> tuple[Tensor, StackState]:
        """Take one step, with an input that the first cell has projected; return the output (B, H)."""
        layers: list[CellState] = []
        x = projected
        for layer, cell in enumerate(self.cells):
            if layer:
                projected = state.below[layer - 1](x)
                projected = projected if cell.bias is None else projected + cell.bias
            now = cell.step(projected, state.layers[layer], state.products[layer])
            layers.append(now)
            x = self.connect(layer, x, self._drop(now[0], state.masks[layer] if state.masks else None))
        return x, StackState(tuple(layers), state.masks, state.products, state.below)

    @property
    def first(self) -> Cell:
        """The first layer's cell, which projects the inputs of `step`."""
        return self.cells[0]

    def connect(self, layer: int, x: Tensor, y: Tensor) -> Tensor:
        """Connect the output y of a layer to its input x."""
        if layer == 0 or self.options.connect == "plain":
            return y
        if self.options.connect == "residual":
            return x + y
        return torch.lerp(x, y, torch.sigmoid(self.gates[layer - 1](x)))

    def _mask(self, like: Tensor) -> Tensor | None:
        """A mask (B, H) for locked dropout; None without it."""
        if not (self.options.locked and self.training):
            return None
        return drop_mask(like, (like.size(0), like.size(-1)), self.options.dropout)

    def _drop(self, y: Tensor, mask: Tensor | None) -> Tensor:
        return drop(y, self.options.dropout, self.training) if mask is None else y * mask
