"""torch's own LSTM for what it is best at: whole sequences on a CPU, by oneDNN.

Its gates are in the order i, f, g, o, ours in i, f, o, g; so the weights are turned round on the way in, which costs a
copy a sequence. It knows no padding: there, one more input shuts the gate i and opens f, so that c stays as it is; h is
taken from where a row ends. Exact against the cell's own steps but for rounding (a contract).
"""

from __future__ import annotations

import torch
from torch import Tensor

from windlass.core.records import CellState
from windlass.nn.cells import LSTM, Cell
from windlass.nn.fused import LstmTape

SHUT = 1e6
"""So far beyond every other input of a gate that it is shut, or open, to the last bit."""

NARROW, LONG = 200, 32
"""Units up to which it always pays. Of wider layers it keeps copies of large weights, and gains little: there it needs
so many steps, none of them padding, as running text has."""


def fits(cell: Cell, x: Tensor, real: Tensor | None = None, onward: bool = True) -> bool:
    """Whether a cell over inputs x (B, S, I) is a case for it; real (S, B, 1) are places that count.

    Padding must be at the end. Walking back one meets it first, so that only a start from nothing (`onward`) goes: it
    stays nothing there.

    >>> fits(LSTM.Options().build(4, 8), torch.zeros(20, 2, 4, dtype=torch.float64))
    False
    """
    return (
        isinstance(cell, LSTM)
        and cell.tape is LstmTape
        and x.device.type == "cpu"
        and x.dtype == torch.float32
        and torch.backends.mkldnn.is_available()
        and (cell.size <= NARROW or (real is None and x.size(1) >= LONG))
        and (real is None or (onward and bool((real[1:] <= real[:-1]).all())))
    )


def whole(
    cell: Cell, x: Tensor, state: CellState, reverse: bool = False, real: Tensor | None = None
) -> tuple[Tensor, CellState]:
    """Run an LSTM over inputs (S, B, I); return outputs (S, B, H), of any value on padding, and the last state.

    >>> outputs, (h, c) = whole(LSTM.Options().build(3, 4), torch.randn(5, 2, 3), (torch.zeros(2, 4),) * 2)
    >>> torch.equal(outputs[-1], h)
    True
    """
    h, c = state
    weights = [_turned(cell.weight_x), _turned(cell.state_weight)]
    if cell.bias is not None:
        bias = _turned(cell.bias)
        weights += [bias, torch.zeros_like(bias)]
    if real is not None:
        gates = x.new_tensor([-SHUT, SHUT, 0, 0]).repeat_interleave(cell.size)
        x, weights[0] = torch.cat([x, (~real).to(x.dtype)], dim=2), torch.cat([weights[0], gates[:, None]], dim=1)
    begun = (h[None].contiguous(), c[None].contiguous())
    given = x.flip(0) if reverse else x
    outputs, last, cells = torch.lstm(given, begun, weights, cell.bias is not None, 1, 0.0, cell.training, False, False)
    outputs = outputs.flip(0) if reverse else outputs
    if real is None or reverse:
        return outputs, (last[0], cells[0])
    lengths = real.sum(0)  # (B, 1)
    ends = outputs.gather(0, (lengths - 1).clamp(min=0).expand_as(h)[None])[0]
    return outputs, (torch.where(lengths > 0, ends, h), cells[0])


def _turned(weight: Tensor) -> Tensor:
    i, f, o, g = weight.chunk(4)
    return torch.cat([i, f, g, o])
