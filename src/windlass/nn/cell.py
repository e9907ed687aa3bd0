"""The interface of recurrent cells: one step of a recurrence.

A cell computes a step in two parts. `project` multiplies the inputs by their weights and adds the bias; it needs no
state, so one product serves a whole sequence. `step` does the rest. W are the weights of the input, U those of the
state, * is elementwise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from windlass.core.options import Options, Part
from windlass.core.records import CellState
from windlass.nn.dropout import drop
from windlass.nn.fast import torch_lstm
from windlass.nn.fast.onednn import linear
from windlass.nn.fast.recurrence import Tape, recurrence
from windlass.nn.product import Product

Products = tuple[Product, ...] | None
"""What `Cell.products` returned, if it was called before the first step."""


class CellBase(Options):
    """The options of every cell.

    >>> CellBase.stateful
    True
    """

    stateful: ClassVar[bool] = True  # whether another network can be initialised with the state

    def build(self, input_size: int, size: int) -> Cell:
        """Build the cell."""
        return self.part(input_size, size, self)  # type: ignore[no-any-return]


class GatedOptions(CellBase):
    """The options of a cell with recurrent weights.

    >>> GatedOptions(drop=0.5).bias
    True
    """

    bias: bool = Field(True, description="add a bias to every gate")
    orthogonal: bool = Field(True, description="initialise the recurrent weights as orthogonal matrices")
    drop: float = Field(
        0.0, ge=0, lt=1, description="dropout on the recurrent weights, one mask per sequence (DropConnect)"
    )


class Cell(Part, nn.Module, ABC):
    """One step of a recurrence: `state = step(project(x), state)`; its output is `state[0]`."""

    parts = 1
    """The number of tensors in the state."""
    unread = 0
    """How many of them, the output first, the next step does not read."""
    state_names: tuple[str, ...] = ("hidden",)
    """The names of the first of them: those worth looking at."""
    tape: type[Tape] | None = None
    """The step and its gradients by hand, for whole sequences and for decoders with attention."""
    sums_input = False
    """Whether a step uses the projected input and the product with the state only as their sum."""
    bounded: bool | None = False
    """Whether all states after the first lie within -1..1; None: if the first one does."""

    def __init__(self, input_size: int, size: int, gates: int, options: GatedOptions):
        super().__init__()
        self.input_size, self.size, self.drop = input_size, size, options.drop
        self.weight_x: Tensor = nn.Parameter(torch.empty(gates * size, input_size))
        self.weight_h = nn.Parameter(torch.empty(gates * size, size))
        self.bias: nn.Parameter | None = nn.Parameter(torch.zeros(gates * size)) if options.bias else None
        for gate in self.weight_x.data.split(size):
            nn.init.xavier_uniform_(gate) if gate.numel() else None
        for gate in self.weight_h.data.split(size):
            (nn.init.orthogonal_ if options.orthogonal else nn.init.xavier_uniform_)(gate)

    def project(self, x: Tensor) -> Tensor:
        """W x + b: (..., I) -> (..., G); with the first columns of W if x is only the first part of the input."""
        return linear(x, self.weight_x[:, : x.size(-1)], self.bias)

    @property
    def state_weight(self) -> Tensor:
        """U (G, H). In training, with DropConnect at rate `drop` (Wan et al. 2013, Merity et al. 2018): every access
        draws a new mask, so access it once per sequence."""
        return drop(self.weight_h, self.drop) if self.drop and self.training else self.weight_h

    def products(self) -> tuple[Product, ...]:
        """The products with the state that a step takes, if there are recurrent weights; made once per sequence."""
        return (Product(self.state_weight),) if hasattr(self, "weight_h") else ()

    @abstractmethod
    def step(self, projected: Tensor, state: CellState, products: Products = None) -> CellState:
        """Take one step from a state, tensors (B, H), with a projected input (B, G)."""

    def gates(self, projected: Tensor, state: CellState, products: Products = None) -> dict[str, Tensor]:
        """The gates (B, H) of a step, by name; a cell without gates has none."""
        return {}

    @property
    def state_bias(self) -> Tensor | None:
        """A bias (G,) added to the product with the state."""
        return None

    def fused(
        self, x: Tensor, state: CellState | None, real: Tensor | None, reverse: bool
    ) -> tuple[Tensor, CellState] | None:
        """Run over inputs (S, B, I) in one piece; return outputs (S, B, H) and the last state. None without a tape.

        Outputs may have any value on padding. No state means zeros; real (S, B, 1) is False on padding.
        """
        if self.tape is None:
            return None
        start = self.zero_state(x.size(1), x) if state is None else state
        if torch_lstm.suits(self, x, real, reverse_from_state=reverse and state is not None):
            return torch_lstm.run(self, x, start, real, reverse)
        return recurrence(self.tape, self.project(x), start, self.state_weight, self.state_bias, real, reverse)

    def zero_state(self, rows: int, like: Tensor) -> CellState:
        """A state of zeros for `rows` rows, with the device and dtype of `like`."""
        return tuple(like.new_zeros(rows, self.size) for _ in range(self.parts))
