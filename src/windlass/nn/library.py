"""torch's own LSTM for what it is best at: whole sequences without padding on a CPU, by oneDNN.

Its gates are in the order i, f, g, o, ours in i, f, o, g; so the weights are turned round on the way in, which costs a
copy a sequence. Exact against the cell's own steps but for rounding (a contract).
"""

from __future__ import annotations

import torch
from torch import Tensor

from windlass.core.records import CellState
from windlass.nn.cells import LSTM, Cell
from windlass.nn.fused import LstmTape


def fits(cell: Cell, x: Tensor) -> bool:
    """Whether a cell over inputs x without padding is a case for it.

    >>> fits(LSTM.Options().build(4, 8), torch.zeros(20, 2, 4, dtype=torch.float64))
    False
    """
    return (
        isinstance(cell, LSTM)
        and cell.tape is LstmTape
        and x.device.type == "cpu"
        and x.dtype == torch.float32
        and torch.backends.mkldnn.is_available()
    )


def whole(cell: Cell, x: Tensor, state: CellState, reverse: bool = False) -> tuple[Tensor, CellState]:
    """Run an LSTM over inputs (S, B, I); return outputs (S, B, H) and the last state.

    >>> outputs, (h, c) = whole(LSTM.Options().build(3, 4), torch.randn(5, 2, 3), (torch.zeros(2, 4),) * 2)
    >>> torch.equal(outputs[-1], h)
    True
    """
    h, c = state
    weights = [_turned(cell.weight_x), _turned(cell.weight_h)]
    if cell.bias is not None:
        bias = _turned(cell.bias)
        weights += [bias, torch.zeros_like(bias)]
    begun = (h[None].contiguous(), c[None].contiguous())
    given = x.flip(0) if reverse else x
    outputs, last, cells = torch.lstm(given, begun, weights, cell.bias is not None, 1, 0.0, cell.training, False, False)
    return outputs.flip(0) if reverse else outputs, (last[0], cells[0])


def _turned(weight: Tensor) -> Tensor:
    i, f, o, g = weight.chunk(4)
    return torch.cat([i, f, g, o])
