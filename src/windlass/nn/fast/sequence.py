"""A cell with a tape over a whole sequence, by torch's own LSTM or by our fused loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from windlass.core.records import CellState
from windlass.nn.fast import torch_lstm
from windlass.nn.fast.recurrence import recurrence

if TYPE_CHECKING:
    from windlass.nn.cells import Cell


def run_tape(
    cell: Cell, x: Tensor, state: CellState | None, real: Tensor | None, reverse: bool
) -> tuple[Tensor, CellState] | None:
    """Run over inputs (S, B, I) as `FastCell.fused` does; None for a cell without a tape.

    >>> import torch
    >>> from windlass.nn.cells import GRU
    >>> outputs, (h,) = run_tape(GRU.Options().build(3, 4), torch.randn(5, 2, 3), None, None, reverse=True)
    >>> torch.equal(outputs[0], h)
    True
    """
    if cell.tape is None:
        return None
    start = cell.zero_state(x.size(1), x) if state is None else state
    if torch_lstm.suits(cell, x, real, reverse_from_state=reverse and state is not None):
        return torch_lstm.run(cell, x, start, real, reverse)
    return recurrence(cell.tape, cell.project(x), start, cell.state_weight, cell.state_bias, real, reverse)
