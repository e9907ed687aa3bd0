"""A stack of recurrent layers over whole sequences, for inference: both directions in one loop, weights laid out.

The two directions of a layer are one recurrence with a state twice as wide, [forward; backward], in which the backward
half reads the places from the last to the first. The gates are in the order [gate][direction][unit], so that a cell of
twice the size takes the step. With few rows, the products of both directions are one, with zeros where a direction does
not see the other: more work, but half the calls. A contract holds it to `Stack.forward`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from windlass.core.records import CellState
from windlass.nn.cells import GRU, LSTM, Cell
from windlass.nn.packed import pack
from windlass.nn.product import Product, Taken
from windlass.nn.recurrence import Stack

FEW = 8
"""Up to so many rows, one call with zeros in it is quicker than two without."""


def suits(stack: Stack) -> bool:
    """Whether a stack is made of cells that can be run so: the usual LSTM, and the GRU with the reset after.

    >>> from windlass.nn.recurrence import StackOptions
    >>> suits(Stack(2, StackOptions(cell="gru"))), suits(Stack(2, StackOptions(cell="rnn")))
    (True, False)
    """
    return all(isinstance(cell, LSTM | GRU) and cell.tape is not None for cell in stack.cells)


def _woven(parts: list[Tensor], gates: int) -> Tensor:
    """Rows of each direction (gates * H, ...) -> in the order [gate][direction][unit]."""
    return torch.stack([part.unflatten(0, (gates, -1)) for part in parts], dim=1).flatten(0, 2)


class _Layer:
    """One layer: its cells, one a direction, as one."""

    def __init__(self, cells: list[Cell], int8: bool):
        first = cells[0]
        self.size, self.ways = first.size, len(cells)
        self.gates = first.weight_h.size(0) // first.size
        bias = None if first.bias is None else _woven([c.bias for c in cells if c.bias is not None], self.gates)
        self.enter = pack(_woven([c.weight_x for c in cells], self.gates), bias, int8)
        zero = torch.zeros_like(first.weight_h)
        wide = [torch.cat([c.weight_h if n == k else zero for k in range(self.ways)], 1) for n, c in enumerate(cells)]
        self.few = pack(_woven(wide, self.gates), int8=int8, bounded=True)  # from zeros, a state stays within -1 .. 1
        self.many = [pack(c.weight_h, int8=int8, bounded=True) for c in cells]
        self.cell: Cell
        with torch.device("meta"):  # only its step is wanted, not its weights
            options = LSTM.Options() if isinstance(first, LSTM) else GRU.Options(reset="after")
            self.cell = options.build(1, self.size * self.ways)
        if isinstance(self.cell, GRU):
            biases: list[Tensor] = [c.bias_h for c in cells if isinstance(c, GRU) and c.bias_h is not None]
            self.cell.bias_h = nn.Parameter(torch.cat(biases), requires_grad=False) if biases else None

    def _multiply(self, h: Tensor) -> Tensor:
        if self.ways == 1 or h.size(0) <= FEW:
            return self.few(h)
        parts = [
            p(x.contiguous()).unflatten(1, (self.gates, -1)) for p, x in zip(self.many, h.chunk(2, 1), strict=True)
        ]
        return torch.stack(parts, dim=2).flatten(1)

    def __call__(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, CellState]:
        """x (S, B, I), mask (S, B, 1) -> outputs (S, B, D) and the last state."""
        S, B = x.shape[:2]
        entering = self.enter(x.flatten(0, 1)).view(S, B, self.gates, self.ways, self.size)
        real = mask
        if self.ways == 2:
            entering = torch.stack([entering[:, :, :, 0], entering[:, :, :, 1].flip(0)], dim=3)
            if mask is not None:
                pair = torch.stack([mask, mask.flip(0)], dim=2)  # (S, B, 2, 1)
                real = pair.expand(-1, -1, -1, self.size).flatten(2)
        full = [True] * S if real is None else real.flatten(1).all(1).tolist()
        state: CellState = tuple(x.new_zeros(B, self.size * self.ways) for _ in range(self.cell.parts))
        sums = isinstance(self.cell, LSTM)
        outputs: list[Tensor] = []
        for t, now in enumerate(entering.flatten(2).unbind(0)):
            taken = self._multiply(state[0])
            products: tuple[Product, ...] = (Taken(taken.add_(now) if sums else taken, whole=sums),)
            new = self.cell.step(now, state, products)
            if real is not None and not full[t]:
                new = tuple(torch.where(real[t], n, o) for n, o in zip(new, state, strict=True))
            state = new
            outputs.append(state[0])
        y = torch.stack(outputs)
        if self.ways == 2:
            y = torch.cat([y[..., : self.size], y[..., self.size :].flip(0)], dim=2)
        return (y if mask is None else y * mask), state


@dataclass(frozen=True)
class QuickStack:
    """A stack made ready for inference, as it is now.

    >>> from windlass.nn.recurrence import StackOptions
    >>> stack = Stack(3, StackOptions(cell="lstm", size=4, layers=2), bidirectional=True).eval()
    >>> x = torch.randn(2, 5, 3)
    >>> torch.allclose(QuickStack.of(stack)(x, None)[0], stack(x)[0], atol=1e-5)
    True
    """

    stack: Stack
    layers: tuple[_Layer, ...]

    @classmethod
    @torch.no_grad()
    def of(cls, stack: Stack, int8: bool = False) -> QuickStack:
        """Lay out the weights of a stack that `suits`."""
        directions = [stack.cells, stack.backward_cells] if stack.backward_cells else [stack.cells]
        layers = [[cell for cell in cells if isinstance(cell, Cell)] for cells in zip(*directions, strict=True)]
        return cls(stack, tuple(_Layer(cells, int8) for cells in layers))

    @torch.no_grad()
    def __call__(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, tuple[CellState, ...]]:
        """Run over sequences x (B, S, I); return outputs (B, S, D) and the last state of every layer."""
        real = None if mask is None or bool(mask.all()) else mask.t()[..., None]
        y, final = x.transpose(0, 1), []
        for number, layer in enumerate(self.layers):
            out, last = layer(y, real)
            y = self.stack.connect(number, y, out)
            final.append(last)
        return y.transpose(0, 1), tuple(final)
