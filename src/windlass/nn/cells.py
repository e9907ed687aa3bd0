"""Recurrent cells, with the equations of the literature, and the table of all cells.

W are the weights of the input, U those of the state, * is elementwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, ClassVar, Literal, Self, final

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from windlass.core.errors import RecipeError
from windlass.core.options import named
from windlass.core.records import CellState
from windlass.nn.cell import Cell, CellBase, GatedOptions, Products
from windlass.nn.fast.activation import tanh
from windlass.nn.fast.recurrence import GruTape, LstmTape
from windlass.nn.parallel_cells import SRU, MinGRU, MinLSTM
from windlass.nn.product import Product
from windlass.nn.xlstm import MLSTM, SLSTM

_Named = Literal["tanh", "relu", "sigmoid", "identity"]
_Activation = Callable[[Tensor], Tensor]
_ACTIVATIONS: dict[str, _Activation] = {
    "tanh": tanh,
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "identity": lambda x: x,
}


@final
class RNN(Cell):
    """The vanilla recurrence (Elman 1990).

    h' = act(W x + U h + b)

    >>> cell = RNN.Options(activation="identity", bias=False).build(2, 2)
    >>> _ = cell.weight_x.data.copy_(torch.eye(2)); _ = cell.weight_h.data.copy_(2 * torch.eye(2))
    >>> cell.step(cell.project(torch.tensor([[1.0, 2.0]])), (torch.tensor([[10.0, 20.0]]),))[0].tolist()
    [[21.0, 42.0]]
    """

    sums_input = True

    class Options(GatedOptions):
        """A vanilla cell."""

        kind: Literal["rnn"] = "rnn"
        activation: _Named = Field("tanh", description="the activation function")

        @classmethod
        def tiny(cls) -> tuple[Self, ...]:
            """Every activation."""
            return cls(), cls(activation="relu"), cls(activation="sigmoid", bias=False), cls(activation="identity")

    def __init__(self, input_size: int, size: int, options: Options):
        super().__init__(input_size, size, 1, options)
        self.activation = _ACTIVATIONS[options.activation]
        self.bounded = options.activation in ("tanh", "sigmoid")

    def step(self, projected: Tensor, state: CellState, products: Products = None) -> CellState:
        """h' = act(W x + U h + b)."""
        (product,) = products or self.products()
        return (self.activation(product(state[0], projected)),)


@final
class LSTM(Cell):
    """Long short-term memory (Hochreiter and Schmidhuber 1997; forget gate Gers et al. 2000).

    i, f, o = sigmoid(W x + U h + b)    g = tanh(W_g x + U_g h + b_g)
    c' = f * c + i * g                  h' = o * tanh(c')

    With `output: sigmoid`, h' = o * sigmoid(c'); with `candidate: sigmoid`, g = sigmoid(...). With `peepholes` the
    gates see the cell (Gers et al. 2002): p * c is added to i and f, p_o * c' to o.

    >>> cell = LSTM.Options().build(3, 5)
    >>> h, c = cell.step(cell.project(torch.zeros(2, 3)), cell.zero_state(2, torch.zeros(1)))
    >>> h.shape, cell.bias[5:10].tolist()  # the bias of the forget gate
    (torch.Size([2, 5]), [1.0, 1.0, 1.0, 1.0, 1.0])
    """

    parts = 2
    state_names = ("hidden", "cell")
    sums_input = True
    bounded = True  # h' is a gate times tanh or sigmoid of the cell

    class Options(GatedOptions):
        """An LSTM cell."""

        kind: Literal["lstm"] = "lstm"
        candidate: Literal["tanh", "sigmoid"] = Field("tanh", description="the activation of the candidate g")
        output: Literal["tanh", "sigmoid"] = Field("tanh", description="the activation of the cell in the output")
        peepholes: bool = Field(False, description="let the gates see the cell (peephole connections)")
        forget_bias: float | None = Field(None, description="initial bias of the forget gate; none: 1")

        @model_validator(mode="after")
        def _used(self) -> LSTM.Options:
            if self.forget_bias is not None and not self.bias:
                raise ValueError("forget_bias changes nothing without bias: drop one of the two")
            return self

        @classmethod
        def tiny(cls) -> tuple[Self, ...]:
            """The other activations without biases, and peepholes."""
            return cls(), cls(output="sigmoid", candidate="sigmoid", bias=False), cls(peepholes=True)

    def __init__(self, input_size: int, size: int, options: Options):
        super().__init__(input_size, size, 4, options)  # gates in the order i, f, o, g
        self.candidate, self.output = _ACTIVATIONS[options.candidate], _ACTIVATIONS[options.output]
        plain = options.candidate == options.output == "tanh" and not options.peepholes
        self.tape = LstmTape if plain else None
        self.peepholes = nn.Parameter(torch.zeros(3, size)) if options.peepholes else None
        if self.bias is not None:
            self.bias.data[size : 2 * size] = 1.0 if options.forget_bias is None else options.forget_bias

    def step(self, projected: Tensor, state: CellState, products: Products = None) -> CellState:
        """c' = f * c + i * g, h' = o * tanh(c')."""
        _, _, o, c = self._gated(projected, state, products)
        return o * self.output(c), c

    def gates(self, projected: Tensor, state: CellState, products: Products = None) -> dict[str, Tensor]:
        """i, f and o."""
        i, f, o, _ = self._gated(projected, state, products)
        return {"input": i, "forget": f, "output": o}

    def _gated(self, projected: Tensor, state: CellState, products: Products) -> tuple[Tensor, ...]:
        """i, f, o and c'."""
        h, c = state
        (product,) = products or self.products()
        gates, g = product(h, projected).split([3 * self.size, self.size], dim=1)
        i, f, o = (torch.sigmoid(gates) if self.peepholes is None else gates).chunk(3, dim=1)
        if self.peepholes is not None:
            i, f = torch.sigmoid(i + self.peepholes[0] * c), torch.sigmoid(f + self.peepholes[1] * c)
        c = f * c + i * self.candidate(g)
        if self.peepholes is not None:
            o = torch.sigmoid(o + self.peepholes[2] * c)
        return i, f, o, c


@final
class GRU(Cell):
    """Gated recurrent unit (Cho et al. 2014).

    r, z = sigmoid(W x + U h + b)
    reset before:  n = tanh(W_n x + U_n (r * h) + b_n)            as published: two products per step
    reset after:   n = tanh(W_n x + b_n + r * (U_n h + b_h))      as in `torch.nn.GRU`: one product per step
    h' = z * h + (1 - z) * n

    With `candidate: sigmoid`, n = sigmoid(...).

    >>> cell = GRU.Options(reset="before").build(3, 4)
    >>> cell.step(cell.project(torch.zeros(2, 3)), (torch.zeros(2, 4),))[0].shape
    torch.Size([2, 4])
    """

    bounded = None  # z keeps a share of the first state

    class Options(GatedOptions):
        """A GRU cell."""

        kind: Literal["gru"] = "gru"
        reset: Literal["before", "after"] = Field(
            "after", description="reset gate before or after the recurrent product"
        )
        candidate: Literal["tanh", "sigmoid"] = Field("tanh", description="the activation of the candidate n")

        @classmethod
        def tiny(cls) -> tuple[Self, ...]:
            """The other reset gate and the other candidate, and no biases."""
            return cls(), cls(reset="before", candidate="sigmoid"), cls(bias=False)

    def __init__(self, input_size: int, size: int, options: Options):
        super().__init__(input_size, size, 3, options)  # gates in the order r, z, n
        self.before = options.reset == "before"
        self.candidate = _ACTIVATIONS[options.candidate]
        self.tape = None if self.before or options.candidate == "sigmoid" else GruTape
        self.bias_h = nn.Parameter(torch.zeros(size)) if options.bias and not self.before else None

    def products(self) -> tuple[Product, ...]:
        """One product for all gates; with reset before, one for r and z and one for n."""
        weight = self.state_weight
        parts = weight.split([2 * self.size, self.size]) if self.before else (weight,)
        return tuple(Product(part) for part in parts)

    def step(self, projected: Tensor, state: CellState, products: Products = None) -> CellState:
        """h' = z * h + (1 - z) * n."""
        _, z, n = self._gated(projected, state, products)
        return (torch.lerp(n, state[0], z),)

    def gates(self, projected: Tensor, state: CellState, products: Products = None) -> dict[str, Tensor]:
        """r and z."""
        r, z, _ = self._gated(projected, state, products)
        return {"reset": r, "update": z}

    def _gated(self, projected: Tensor, state: CellState, products: Products) -> tuple[Tensor, ...]:
        """r, z and n."""
        (h,), products = state, products or self.products()
        halves = [2 * self.size, self.size]
        x_rz, x_n = projected.split(halves, dim=1)
        if self.before:
            r, z = torch.sigmoid(products[0](h, x_rz)).chunk(2, dim=1)
            n = self.candidate(products[1](r * h, x_n))
        else:
            h_rz, h_n = products[0](h).split(halves, dim=1)
            r, z = torch.sigmoid(x_rz + h_rz).chunk(2, dim=1)
            n = self.candidate(torch.addcmul(x_n, r, h_n if self.bias_h is None else h_n + self.bias_h))
        return r, z, n

    @property
    def state_bias(self) -> Tensor | None:
        """b_h, which the reset gate multiplies; the biases of r and z are with the input."""
        return None if self.bias_h is None else F.pad(self.bias_h, (2 * self.size, 0))


@final
class Leaky(Cell):
    """A leaky integrator: an exponential moving average with a learned rate for every unit.

    h' = a * h + (1 - a) * x,  a = sigmoid(rate)

    With `project`, x stands for W x + b; without it the input must have the size of the state.

    >>> cell = Leaky.Options(project=False).build(2, 2)
    >>> _ = cell.rate.data.zero_()  # a = 1/2
    >>> cell.step(cell.project(torch.tensor([[4.0, 8.0]])), (torch.zeros(1, 2),))[0].tolist()
    [[2.0, 4.0]]
    """

    class Options(CellBase):
        """A leaky cell."""

        kind: Literal["leaky"] = "leaky"
        project: bool = Field(True, description="project the input; false: it must have the size of the state")

    def __init__(self, input_size: int, size: int, options: Options):
        if not options.project and input_size != size:
            raise RecipeError(
                f"a leaky cell without projection needs an input of its size, {size}, not {input_size}: "
                "set project: true or make the sizes equal"
            )
        nn.Module.__init__(self)
        self.input_size, self.size = input_size, size
        self.rate = nn.Parameter(torch.linspace(-2.0, 4.0, size))  # time constants from about 1 step to about 50
        if options.project:
            self.weight_x = nn.Parameter(nn.init.xavier_uniform_(torch.empty(size, input_size)))
        else:
            self.register_buffer("weight_x", torch.eye(size), persistent=False)
        self.bias = nn.Parameter(torch.zeros(size)) if options.project else None

    def step(self, projected: Tensor, state: CellState, products: Products = None) -> CellState:
        """h' = a * h + (1 - a) * x."""
        return (torch.lerp(projected, state[0], torch.sigmoid(self.rate)),)


@final
class Convolution(Cell):
    """A causal convolution as a cell; the gate is that of Dauphin et al. (2017).

    a_t = sum over k < width of W_k x_{t-k} + b        h_t = act(a_t)
    gated:  h_t = u_t * sigmoid(g_t), the halves of a_t

    Its state is h, which the next step does not use, and what the inputs so far add to the next width - 1 sums a. So
    steps, chunks of running text and whole sequences give the same results.

    >>> cell = Convolution.Options(width=2, activation="relu").build(1, 1)
    >>> _ = cell.weight_x.data.copy_(torch.tensor([[1.0], [10.0]]))
    >>> h, pending = cell.step(cell.project(torch.tensor([[3.0]])), (torch.zeros(1, 1), torch.tensor([[5.0]])))
    >>> h.item(), pending.item()
    (8.0, 30.0)
    """

    class Options(CellBase):
        """A causal convolution."""

        stateful: ClassVar[bool] = False  # a step remembers its last inputs only
        kind: Literal["convolution"] = "convolution"
        width: int = Field(3, ge=2, description="inputs that a step sees: the current one and those before it")
        activation: Literal["gated", "relu", "tanh"] = Field("gated", description="the activation; gated: a GLU")

        @classmethod
        def tiny(cls) -> tuple[Self, ...]:
            """Wide enough to see from one chunk of a text into the next."""
            return cls(width=8), cls(width=7, activation="relu")

    def __init__(self, input_size: int, size: int, options: Options):
        nn.Module.__init__(self)
        self.input_size, self.size, self.width = input_size, size, options.width
        self.gated = options.activation == "gated"
        self.activation = F.glu if self.gated else _ACTIVATIONS[options.activation]
        self.channels = size * (2 if self.gated else 1)  # the size of a_t
        self.parts = 1 + (options.width - 1) * (self.channels // size)
        self.weight_x: Tensor = nn.Parameter(torch.empty(options.width * self.channels, input_size))
        for block in self.weight_x.data.split(size):
            nn.init.xavier_uniform_(block, gain=options.width**-0.5) if block.numel() else None
        self.bias = None  # added once per sum, as `constant`, not once per input
        self.constant = nn.Parameter(torch.zeros(self.channels))

    def step(self, projected: Tensor, state: CellState, products: Products = None) -> CellState:
        """Add the share of the earlier inputs; the first sum is complete, the others are kept."""
        complete, pending = self._sums(projected, state)
        return self.activation(complete), *pending.split(self.size, dim=1)

    def gates(self, projected: Tensor, state: CellState, products: Products = None) -> dict[str, Tensor]:
        """sigmoid(g), of a gated convolution."""
        complete, _ = self._sums(projected, state)
        return {"gate": torch.sigmoid(complete[:, self.size :])} if self.gated else {}

    def _sums(self, projected: Tensor, state: CellState) -> tuple[Tensor, Tensor]:
        """The complete sum, with its constant, and the others."""
        sums = projected + F.pad(torch.cat(state[1:], dim=1), (0, self.channels))
        complete, pending = sums.split([self.channels, sums.size(1) - self.channels], dim=1)
        return complete + self.constant, pending

    def fused(
        self, x: Tensor, state: CellState | None, real: Tensor | None, reverse: bool
    ) -> tuple[Tensor, CellState] | None:
        """All sums at once: shift and add the shares of every input."""
        S, B = x.shape[:2]
        if real is not None and bool((real[1:] & ~real[:-1]).any()):
            return None  # there is padding before the end of a row
        state = self.zero_state(B, x) if state is None else state
        x = self.project(x)
        lengths = x.new_full((B,), S, dtype=torch.long) if real is None else real.sum((0, 2))
        x = _reversed(x, lengths) if reverse else x
        x = x if real is None else x * real
        shares = x.unflatten(2, (self.width, self.channels)).unbind(2)
        before = torch.cat(state[1:], dim=1).unflatten(1, (self.width - 1, self.channels)).transpose(0, 1)
        sums = F.pad(before, (0, 0, 0, 0, 0, S))  # (S + width - 1, B, A)
        for delay, share in enumerate(shares):
            sums = sums + F.pad(share, (0, 0, 0, 0, delay, self.width - 1 - delay))
        outputs = self.activation(sums[:S] + self.constant)
        rows = torch.arange(B, device=x.device)
        last = torch.where(lengths[:, None] > 0, outputs[(lengths - 1).clamp(min=0), rows], state[0])
        pending = torch.cat([sums[lengths + delay, rows] for delay in range(self.width - 1)], dim=1)
        return (_reversed(outputs, lengths) if reverse else outputs), (last, *pending.split(self.size, dim=1))


def _reversed(x: Tensor, lengths: Tensor) -> Tensor:
    """x (S, B, X) with every row reversed up to its length; padding stays in place."""
    places = torch.arange(x.size(0), device=x.device)[:, None]
    return x.gather(0, torch.where(places < lengths, lengths - 1 - places, places)[..., None].expand_as(x))


CellOptions = Annotated[
    RNN.Options
    | LSTM.Options
    | GRU.Options
    | Leaky.Options
    | Convolution.Options
    | MinGRU.Options
    | MinLSTM.Options
    | SRU.Options
    | SLSTM.Options
    | MLSTM.Options,
    Field(discriminator="kind"),
    named,
]
"""Every cell that a recipe can name."""
