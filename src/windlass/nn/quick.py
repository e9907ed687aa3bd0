"""A stack of recurrent layers over whole sequences, for inference: both directions in one loop, weights laid out.

The backward direction reads the places from the last to the first, as rows of its own below those of the forward one:
a step has a product a direction, and one cell for all rows. A contract holds it to `Stack.forward`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from windlass.core.records import CellState
from windlass.nn.cells import GRU, LSTM, Cell
from windlass.nn.packed import Packed, pack
from windlass.nn.product import Taken
from windlass.nn.recurrence import Stack


def suits(stack: Stack) -> bool:
    """Whether a stack is made of cells that can be run so: the usual LSTM, and the GRU with the reset after.

    >>> from windlass.nn.recurrence import StackOptions
    >>> suits(Stack(2, StackOptions(cell="gru"))), suits(Stack(2, StackOptions(cell="rnn")))
    (True, False)
    """
    return all(isinstance(cell, LSTM | GRU) and cell.tape is not None for cell in stack.cells)


class _Layer:
    """One layer: its cells, one a direction, with a row a sequence and direction."""

    def __init__(self, cells: list[Cell], int8: bool):
        first = cells[0]
        self.ways, self.sums = len(cells), isinstance(first, LSTM)
        self.enter: list[Packed] = [pack(c.weight_x, c.bias, int8) for c in cells]
        # From zeros, a state stays within -1 .. 1.
        self.products: list[Packed] = [pack(c.weight_h, c.state_bias, int8, bounded=True) for c in cells]
        self.cell: Cell
        with torch.device("meta"):  # only its step is wanted, not its weights
            options = LSTM.Options(bias=False) if self.sums else GRU.Options(bias=False, reset="after")
            self.cell = options.build(1, first.size)

    def entering(self, x: Tensor, places: Tensor | None) -> list[Tensor]:
        """What comes from the input, (S, B, G) for every direction in the order in which it reads.

        The input is x (S, B, I), or, where `places` (S, B) are given, distinct rows x (U, I) that stand there.
        """
        if places is None:
            turned = [x, x.flip(0)]
            return [p(y.flatten(0, 1)).unflatten(0, x.shape[:2]) for p, y in zip(self.enter, turned, strict=False)]
        order = [places, places.flip(0)]
        return [
            p(x).index_select(0, at.flatten()).unflatten(0, at.shape) for p, at in zip(self.enter, order, strict=False)
        ]

    def __call__(self, x: Tensor, places: Tensor | None, mask: Tensor | None) -> tuple[Tensor, CellState]:
        """Run over an input as `entering` takes it, with mask (S, B, 1) -> outputs (S, B, D) and the last state."""
        entering = self.entering(x, places)
        S, B = entering[0].shape[:2]
        rows = self.ways * B
        real = mask if mask is None or self.ways == 1 else torch.cat([mask, mask.flip(0)], dim=1)  # (S, rows, 1)
        full = [True] * S if real is None else real.flatten(1).all(1).tolist()
        state: CellState = tuple(x.new_zeros(rows, self.cell.size) for _ in range(self.cell.parts))
        outputs: list[Tensor] = []
        for t, now in enumerate(zip(*(part.unbind(0) for part in entering), strict=True)):
            taken = [product(h) for product, h in zip(self.products, state[0].split(B), strict=True)]
            if self.sums:
                taken = [product.add_(part) for product, part in zip(taken, now, strict=True)]
            projected = _below(now) if not self.sums else now[0]  # which is in the product already
            new = self.cell.step(projected, state, (Taken(_below(taken), whole=self.sums),))
            if real is not None and not full[t]:
                new = tuple(torch.where(real[t], n, o) for n, o in zip(new, state, strict=True))
            state = new
            outputs.append(state[0])
        y = torch.stack(outputs)
        if self.ways == 2:
            y = torch.cat([y[:, :B], y[:, B:].flip(0)], dim=2)
            state = tuple(torch.cat(part.split(B), dim=1) for part in state)
        return (y if mask is None else y * mask), state


def _below(parts: list[Tensor] | tuple[Tensor, ...]) -> Tensor:
    """The rows of the directions, one below the other."""
    return parts[0] if len(parts) == 1 else torch.cat(parts)


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
    def __call__(
        self, x: Tensor, mask: Tensor | None, places: Tensor | None = None
    ) -> tuple[Tensor, tuple[CellState, ...]]:
        """Run over sequences x (B, S, I); return outputs (B, S, D) and the last state of every layer.

        Inputs that come again and again may be given once, x (U, I), with `places` (B, S) that say which stands where.
        """
        real = None if mask is None or bool(mask.all()) else mask.t()[..., None]
        at = None if places is None else places.t()
        y, final = x if places is not None else x.transpose(0, 1), []
        for number, layer in enumerate(self.layers):
            out, last = layer(y, at, real)
            y, at = self.stack.connect(number, y, out), None
            final.append(last)
        return y.transpose(0, 1), tuple(final)
