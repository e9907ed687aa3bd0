"""A stack of recurrent layers over whole sequences, for inference: both directions in one loop, weights packed.

The backward direction reads its places from the last to the first, as more rows below those of the forward direction:
a step takes one product a direction and one cell step for all rows. A contract holds it to `Stack.forward`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import torch
from torch import Tensor

from windlass.core.records import CellState
from windlass.nn.cell import Cell
from windlass.nn.cells import GRU, LSTM
from windlass.nn.fast.interface import laid_out
from windlass.nn.fast.packed import Packed, Precomputed, pack
from windlass.nn.fast.recurrence import GruTape, LstmTape, Tape

if TYPE_CHECKING:
    from windlass.nn.recurrence import Stack

_EQUATIONS: dict[type[Tape], LSTM.Options | GRU.Options] = {
    LstmTape: LSTM.Options(bias=False),
    GruTape: GRU.Options(bias=False, reset="after"),
}
"""A cell with the step of a tape; its biases are in the packed products."""


class _Layer:
    """One layer: a cell for each direction, a row for each sequence and direction."""

    def __init__(self, cells: Sequence[Cell], start: Tensor | None, int8: bool):
        first = cells[0]
        self.start = start  # (directions, parts, H); None: zeros
        self.directions, self.sums_input = len(cells), first.sums_input
        self.enter: list[Packed] = [pack(c.weight_x, c.bias, int8) for c in cells]
        bounded = start is None  # a state that starts from zeros stays within -1..1
        self.products: list[Packed] = [pack(c.weight_h, c.state_bias, int8, bounded=bounded) for c in cells]
        assert first.tape is not None
        with torch.device("meta"):  # for its step: it has no weights of use
            self.cell: Cell = _EQUATIONS[first.tape].build(1, first.size)

    def project(self, x: Tensor, places: Tensor | None) -> list[Tensor]:
        """Projected inputs (S, B, G) of every direction, in the order in which it reads.

        The input is x (S, B, I), or, with `places` (S, B), distinct rows x (U, I) that these places refer to.
        """
        if places is None:
            ordered = [x, x.flip(0)]
            return [p(y.flatten(0, 1)).unflatten(0, x.shape[:2]) for p, y in zip(self.enter, ordered, strict=False)]
        order = [places, places.flip(0)]
        return [
            p(x).index_select(0, at.flatten()).unflatten(0, at.shape) for p, at in zip(self.enter, order, strict=False)
        ]

    def __call__(self, x: Tensor, places: Tensor | None, mask: Tensor | None) -> tuple[Tensor, CellState]:
        """Run over an input as `project` takes it, with mask (S, B, 1) -> outputs (S, B, D) and the last state."""
        projected = self.project(x, places)
        S, B = projected[0].shape[:2]
        real = mask if mask is None or self.directions == 1 else torch.cat([mask, mask.flip(0)], dim=1)  # (S, rows, 1)
        full = [True] * S if real is None else real.flatten(1).all(1).tolist()
        start = x.new_zeros(self.directions, self.cell.parts, self.cell.size) if self.start is None else self.start
        state: CellState = start.repeat_interleave(B, dim=0).unbind(1)
        outputs: list[Tensor] = []
        for t, inputs in enumerate(zip(*(part.unbind(0) for part in projected), strict=True)):
            products = [product(h) for product, h in zip(self.products, state[0].split(B), strict=True)]
            if self.sums_input:
                products = [product.add_(part) for product, part in zip(products, inputs, strict=True)]
            x_t = inputs[0] if self.sums_input else _rows(inputs)  # if summed, the step does not read it
            new = self.cell.step(x_t, state, (Precomputed(_rows(products), summed=self.sums_input),))
            if real is not None and not full[t]:
                new = tuple(torch.where(real[t], n, o) for n, o in zip(new, state, strict=True))
            state = new
            outputs.append(state[0])
        y = torch.stack(outputs)
        if self.directions == 2:
            y = torch.cat([y[:, :B], y[:, B:].flip(0)], dim=2)
            state = tuple(torch.cat(part.split(B), dim=1) for part in state)
        return (y if mask is None else y * mask), state


def _rows(parts: list[Tensor] | tuple[Tensor, ...]) -> Tensor:
    """The rows of both directions as one tensor."""
    return parts[0] if len(parts) == 1 else torch.cat(parts)


@final
@dataclass(frozen=True)
class InferenceStack:
    """A stack with its weights packed as they are now.

    >>> from windlass.nn.recurrence import Stack, StackOptions
    >>> stack = Stack(3, StackOptions(cell="lstm", size=4, layers=2), bidirectional=True).eval()
    >>> x = torch.randn(2, 5, 3)
    >>> torch.allclose(InferenceStack.of(stack)(x, None)[0], stack(x)[0], atol=1e-5)
    True
    """

    stack: Stack
    layers: tuple[_Layer, ...]

    @classmethod
    def of(cls, stack: Stack, int8: bool = False) -> InferenceStack | None:
        """Pack a stack, unless its weights are packed already; None if a cell has no tape."""
        if any(cell.tape not in _EQUATIONS for cell in stack.cells):
            return None
        return cls(stack, laid_out(stack, int8, lambda: _pack(stack, int8)))

    @torch.no_grad()
    def __call__(
        self, x: Tensor, mask: Tensor | None, places: Tensor | None = None
    ) -> tuple[Tensor, tuple[CellState, ...]]:
        """Run over sequences x (B, S, I); return outputs (B, S, D) and the last state of every layer.

        Repeated inputs may come once, as x (U, I), with `places` (B, S) that refer to them.
        """
        real = None if mask is None or bool(mask.all()) else mask.t()[..., None]
        at = None if places is None else places.t()
        y, final = x if places is not None else x.transpose(0, 1), []
        for number, layer in enumerate(self.layers):
            out, last = layer(y, at, real)
            y, at = self.stack.connect(number, y, out), None
            final.append(last)
        return y.transpose(0, 1), tuple(final)


@torch.no_grad()
def _pack(stack: Stack, int8: bool) -> tuple[_Layer, ...]:
    directions = [stack.cells, stack.backward_cells] if stack.backward_cells else [stack.cells]
    starts = [None] * len(stack.cells) if stack.start is None else stack.start.detach().unbind(1)
    return tuple(_Layer(cells, start, int8) for *cells, start in zip(*directions, starts, strict=True))
