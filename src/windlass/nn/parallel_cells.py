"""Cells whose gates need no product with the state, so that whole sequences are computed at once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Literal, final

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from windlass.core.records import CellState
from windlass.nn.cell import Cell, CellBase, Products
from windlass.nn.fast.scan import gated_average, peephole_average, positive


class ParallelCell(Cell):
    """A cell with weights for the input alone; `gates` are the sizes of what they give."""

    def __init__(self, input_size: int, size: int, gates: Sequence[int], forget_bias: float = 0.0):
        nn.Module.__init__(self)
        self.input_size, self.size = input_size, size
        self.weight_x = nn.Parameter(torch.empty(sum(gates), input_size))
        bias = torch.zeros(sum(gates))
        bias[: gates[0]] = forget_bias
        self.bias = nn.Parameter(bias)
        for gate in self.weight_x.data.split(list(gates)):
            nn.init.xavier_uniform_(gate) if gate.numel() else None

    def fused(
        self, x: Tensor, state: CellState | None, real: Tensor | None, reverse: bool
    ) -> tuple[Tensor, CellState] | None:
        """All steps as one scan. In reverse, padding may come first: it keeps the state wherever it is."""
        state = self.zero_state(x.size(1), x) if state is None else state
        projected = self.project(x)
        if not reverse:
            return self.scan(projected, state, real)
        outputs, last = self.scan(projected.flip(0), state, None if real is None else real.flip(0))
        return outputs.flip(0), last

    @abstractmethod
    def scan(self, projected: Tensor, state: CellState, real: Tensor | None) -> tuple[Tensor, CellState]:
        """All steps over projected inputs (S, B, G); real (S, B, 1) is False on padding, which keeps the state."""

    @staticmethod
    def last_output(outputs: Tensor, start: Tensor, real: Tensor | None) -> Tensor:
        """The output (B, H) at the last real step of every row; `start` if there is none."""
        if real is None:
            return outputs[-1]
        steps = torch.arange(1, outputs.size(0) + 1, device=outputs.device)[:, None]
        last = (steps * real[..., 0]).amax(0)  # (B,) counted from 1
        ends = outputs[(last - 1).clamp(min=0), torch.arange(outputs.size(1), device=outputs.device)]
        return torch.where(last[:, None] > 0, ends, start)


class _MinimalCell(ParallelCell):
    """h' = (1 - z) * h + z * g(W_h x + b_h), with a gate of the input alone."""

    @abstractmethod
    def gate(self, *logits: Tensor) -> Tensor:
        """The logit of z."""

    def step(self, projected: Tensor, state: CellState, products: Products = None) -> CellState:
        """h' = (1 - z) * h + z * g(n)."""
        *logits, new = projected.split(self.size, dim=-1)
        return (torch.lerp(state[0], positive(new), torch.sigmoid(self.gate(*logits))),)

    def gates(self, projected: Tensor, state: CellState, products: Products = None) -> dict[str, Tensor]:
        """z."""
        *logits, _ = projected.split(self.size, dim=-1)
        return {"update": torch.sigmoid(self.gate(*logits))}

    def scan(self, projected: Tensor, state: CellState, real: Tensor | None) -> tuple[Tensor, CellState]:
        """A running average."""
        *logits, new = projected.split(self.size, dim=-1)
        states = gated_average(self.gate(*logits), new, state[0], real)
        return states[1:], (states[-1],)


@final
class MinGRU(_MinimalCell):
    """A GRU whose gate and candidate do not see the state: minGRU (Feng et al. 2024).

    z = sigmoid(W_z x + b_z)    n = g(W_n x + b_n)    h' = (1 - z) * h + z * n
    g(a) = a + 1/2 where a >= 0, sigmoid(a) elsewhere

    >>> cell = MinGRU.Options().build(3, 2)
    >>> _ = cell.weight_x.data.zero_()  # z = n = 1/2
    >>> cell.step(cell.project(torch.zeros(1, 3)), (torch.ones(1, 2),))[0].tolist()
    [[0.75, 0.75]]
    """

    class Options(CellBase):
        """A minGRU cell."""

        kind: Literal["min_gru"] = "min_gru"

    def __init__(self, input_size: int, size: int, options: Options):
        super().__init__(input_size, size, [size] * 2)  # z, n

    def gate(self, *logits: Tensor) -> Tensor:
        """W_z x + b_z."""
        return logits[0]


@final
class MinLSTM(_MinimalCell):
    """An LSTM whose gates do not see the state, normalised to sum to 1: minLSTM (Feng et al. 2024).

    f, i = sigmoid(W x + b)    n = g(W_n x + b_n)    h' = f / (f + i) * h + i / (f + i) * n
    g(a) = a + 1/2 where a >= 0, sigmoid(a) elsewhere

    >>> cell = MinLSTM.Options(forget_bias=0).build(3, 2)
    >>> _ = cell.weight_x.data.zero_()  # f = i = n = 1/2
    >>> cell.step(cell.project(torch.zeros(1, 3)), (torch.ones(1, 2),))[0].tolist()
    [[0.75, 0.75]]
    """

    class Options(CellBase):
        """A minLSTM cell."""

        kind: Literal["min_lstm"] = "min_lstm"
        forget_bias: float = Field(1.0, description="initial bias of the forget gate")

    def __init__(self, input_size: int, size: int, options: Options):
        super().__init__(input_size, size, [size] * 3, options.forget_bias)  # f, i, n

    def gate(self, *logits: Tensor) -> Tensor:
        """i / (f + i) = sigmoid(log i - log f)."""
        forget, enter = logits
        return F.logsigmoid(enter) - F.logsigmoid(forget)


@final
class SRU(ParallelCell):
    """Simple recurrent unit (Lei et al. 2018): gates see the cell only elementwise.

    f = sigmoid(W_f x + v_f * c + b_f)    r = sigmoid(W_r x + v_r * c + b_r)
    c' = f * c + (1 - f) * (W x)          h' = r * c' + (1 - r) * (W_s x)

    The skip connection is always projected (W_s), as published for inputs of another size than the state. Without
    `peepholes`, v = 0.

    >>> cell = SRU.Options().build(3, 4)
    >>> h, c = cell.step(cell.project(torch.zeros(2, 3)), cell.zero_state(2, torch.zeros(1)))
    >>> h.shape, c.shape
    (torch.Size([2, 4]), torch.Size([2, 4]))
    """

    parts = 2
    state_names = ("hidden", "cell")
    unread = 1  # a step reads c alone

    class Options(CellBase):
        """An SRU cell."""

        kind: Literal["sru"] = "sru"
        peepholes: bool = Field(True, description="let the gates see the cell: v_f and v_r")

    def __init__(self, input_size: int, size: int, options: Options):
        super().__init__(input_size, size, [size] * 4)  # f, r, W x, W_s x
        self.peepholes: Tensor
        if options.peepholes:
            self.peepholes = nn.Parameter(torch.empty(2, size).uniform_(-1, 1))
        else:
            self.register_buffer("peepholes", torch.zeros(2, size), persistent=False)

    def step(self, projected: Tensor, state: CellState, products: Products = None) -> CellState:
        """c' = f * c + (1 - f) * (W x), h' = r * c' + (1 - r) * (W_s x)."""
        _, _, new, skip = projected.chunk(4, dim=-1)
        f, r = self.gates(projected, state).values()
        c = torch.lerp(new, state[1], f)
        return torch.lerp(skip, c, r), c

    def gates(self, projected: Tensor, state: CellState, products: Products = None) -> dict[str, Tensor]:
        """f and r."""
        x_f, x_r, _, _ = projected.chunk(4, dim=-1)
        f = torch.sigmoid(torch.addcmul(x_f, self.peepholes[0], state[1]))
        return {"forget": f, "reset": torch.sigmoid(torch.addcmul(x_r, self.peepholes[1], state[1]))}

    def scan(self, projected: Tensor, state: CellState, real: Tensor | None) -> tuple[Tensor, CellState]:
        """The cell step by step, elementwise; the output gate for all steps at once."""
        x_f, x_r, new, skip = projected.chunk(4, dim=-1)
        cells = peephole_average(x_f, self.peepholes[0], new, state[1], real)  # (S + 1, B, H)
        r = torch.sigmoid(torch.addcmul(x_r, self.peepholes[1], cells[:-1]))
        outputs = torch.lerp(skip, cells[1:], r)
        return outputs, (self.last_output(outputs, state[0], real), cells[-1])
