"""torch's own LSTM for whole sequences on a CPU, where oneDNN runs it.

Its gates are in the order i, f, g, o, ours in i, f, o, g, so the weights are reordered, which costs a copy per
sequence. It has no mask: on padding, an additional input closes gate i and opens f, so that c stays; h is read at the
end of each row. A contract holds it to the cell's own steps, but for rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from windlass.core.records import CellState
from windlass.nn.fast import onednn
from windlass.nn.fast.precision import mixed
from windlass.nn.fast.recurrence import LstmTape

if TYPE_CHECKING:
    from windlass.nn.cell import Cell

SATURATE = 1e6
"""Added to a gate's input, it saturates the gate to the last bit."""

NARROW, NARROW_MIXED, LONG = 200, 160, 32
"""Up to NARROW units it always pays. Wider layers copy large weights and gain little: they need LONG steps without
padding, as in running text. In mixed precision it pays up to NARROW_MIXED units: it multiplies in float32."""


def suits(cell: Cell, x: Tensor, real: Tensor | None = None, reverse_from_state: bool = False) -> bool:
    """Whether to run a cell over inputs x (S, B, I) this way; real (S, B, 1) is False on padding.

    Padding must be at the end. In reverse it comes first, and only a state of zeros is unchanged by it.

    >>> from windlass.nn.cells import LSTM
    >>> suits(LSTM.Options().build(4, 8), torch.zeros(20, 2, 4, dtype=torch.float64))
    False
    """
    return (
        cell.tape is LstmTape
        and onednn.usable(x)
        and (cell.size <= (NARROW_MIXED if mixed() else NARROW) or (not mixed() and real is None and x.size(0) >= LONG))
        and (real is None or (not reverse_from_state and bool((real[1:] <= real[:-1]).all())))
    )


def run(
    cell: Cell, x: Tensor, state: CellState, real: Tensor | None = None, reverse: bool = False
) -> tuple[Tensor, CellState]:
    """Run an LSTM over inputs (S, B, I); return outputs (S, B, H), of any value on padding, and the last state.

    >>> from windlass.nn.cells import LSTM
    >>> outputs, (h, c) = run(LSTM.Options().build(3, 4), torch.randn(5, 2, 3), (torch.zeros(2, 4),) * 2)
    >>> torch.equal(outputs[-1], h)
    True
    """
    h, c = state
    weights = [_reordered(cell.weight_x), _reordered(cell.state_weight)]
    if cell.bias is not None:
        bias = _reordered(cell.bias)
        weights += [bias, torch.zeros_like(bias)]
    if real is not None:
        gates = x.new_tensor([-SATURATE, SATURATE, 0, 0]).repeat_interleave(cell.size)
        x, weights[0] = torch.cat([x, (~real).to(x.dtype)], dim=2), torch.cat([weights[0], gates[:, None]], dim=1)
    start = (h[None].contiguous(), c[None].contiguous())
    x = x.flip(0) if reverse else x
    outputs, last, cells = torch.lstm(x, start, weights, cell.bias is not None, 1, 0.0, cell.training, False, False)
    outputs = outputs.flip(0) if reverse else outputs
    if real is None or reverse:
        return outputs, (last[0], cells[0])
    lengths = real.sum(0)  # (B, 1)
    ends = outputs.gather(0, (lengths - 1).clamp(min=0).expand_as(h)[None])[0]
    return outputs, (torch.where(lengths > 0, ends, h), cells[0])


def _reordered(weight: Tensor) -> Tensor:
    i, f, o, g = weight.chunk(4)
    return torch.cat([i, f, g, o])
