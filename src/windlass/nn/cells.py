"""Recurrent cells: one step of a recurrence, with the equations of the literature.

A cell splits its work in two. `project` multiplies the inputs by their weights and adds the bias; it needs no state, so
a whole sequence goes through in one product. `step` adds what depends on the state. W are the weights of the
input, U those of the state, * is elementwise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Annotated, ClassVar, Literal, Self, final

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from windlass.core.errors import RecipeError
from windlass.core.options import Options, named
from windlass.core.records import CellState
from windlass.nn.fast.activation import tanh
from windlass.nn.fast.interface import FastCell
from windlass.nn.fast.onednn import linear
from windlass.nn.fast.recurrence import GruTape, LstmTape
from windlass.nn.fast.sequence import run_tape
from windlass.nn.product import Product

Activation = Literal["tanh", "relu", "sigmoid", "identity"]
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": tanh,
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "identity": lambda x: x,
}


class _AnyCell(Options):
    stateful: ClassVar[bool] = True  # whether a state can be handed on to another network


class _CellOptions(_AnyCell):
    bias: bool = Field(True, description="add a learned constant to every gate")
    orthogonal: bool = Field(True, description="start the state's weights as orthogonal matrices")
    drop: float = Field(
        0.0, ge=0, lt=1, description="share of the state's weights that is left out, drawn anew for every batch"
    )


class Cell(FastCell, nn.Module, ABC):
    """One step of a recurrence: `state = step(project(x), state)`; its output is `state[0]`."""

    parts = 1
    """How many tensors make up the state."""

    def __init__(self, input_size: int, size: int, gates: int, options: _CellOptions):
        super().__init__()
        self.input_size, self.size, self.drop = input_size, size, options.drop
        self.weight_x: Tensor = nn.Parameter(torch.empty(gates * size, input_size))
        self.weight_h = nn.Parameter(torch.empty(gates * size, size))
        self.bias: nn.Parameter | None = nn.Parameter(torch.zeros(gates * size)) if options.bias else None

    def reset(self, orthogonal: bool) -> None:
        """Draw the first weights: Glorot for the input's, orthogonal or Glorot for each gate's square matrix."""
        for gate in self.weight_x.data.split(self.size):
            nn.init.xavier_uniform_(gate) if gate.numel() else None
        for gate in self.weight_h.data.split(self.size):
            (nn.init.orthogonal_ if orthogonal else nn.init.xavier_uniform_)(gate)

    def project(self, x: Tensor) -> Tensor:
        """W x + b, for the first columns of W where x is only the first piece of an input: (..., I) -> (..., G)."""
        return linear(x, self.weight_x[:, : x.size(-1)], self.bias)

    @property
    def state_weight(self) -> Tensor:
        """U (G, H). In training, `drop` of its weights are left out, others every time that it is asked for: ask once
        for a sequence (Wan et al. 2013; of recurrent networks Merity et al. 2018)."""
        return F.dropout(self.weight_h, self.drop) if self.drop and self.training else self.weight_h

    def products(self) -> tuple[Product, ...]:
        """The products with the state that a step takes; made once for a sequence."""
        return (Product(self.state_weight),)

    def pieces(self, *widths: int) -> list[Product]:
        """Products with the input for those who must take them a step at a time: one for every piece of the input."""
        return [Product(part) for part in self.weight_x.split(widths, dim=1)]

    @abstractmethod
    def step(self, projected: Tensor, state: CellState, products: tuple[Product, ...] | None = None) -> CellState:
        """Take one step from a state, each part (B, H), with a projected input (B, G)."""

    @property
    def state_bias(self) -> Tensor | None:
        """A bias (G,) added to the product with the state."""
        return None

    def fused(
        self, x: Tensor, state: CellState | None, real: Tensor | None, reverse: bool
    ) -> tuple[Tensor, CellState] | None:
        """Run over inputs (S, B, I) in one piece if the cell has a tape (see `FastCell`)."""
        return run_tape(self, x, state, real, reverse)

    def zeros(self, rows: int, like: Tensor) -> CellState:
        """The state of all zeros for a number of rows, on the device and of the type of `like`."""
        return tuple(like.new_zeros(rows, self.size) for _ in range(self.parts))


@final
class RNN(Cell):
    """The vanilla recurrence (Elman 1990).

    h' = act(W x + U h + b)

    >>> cell = RNN.Options(activation="identity", bias=False).build(2, 2)
    >>> _ = cell.weight_x.data.copy_(torch.eye(2)); _ = cell.weight_h.data.copy_(2 * torch.eye(2))
    >>> cell.step(cell.project(torch.tensor([[1.0, 2.0]])), (torch.tensor([[10.0, 20.0]]),))[0].tolist()
    [[21.0, 42.0]]
    """

    class Options(_CellOptions):
        """A vanilla cell."""

        kind: Literal["rnn"] = "rnn"
        activation: Activation = Field("tanh", description="what the sum goes through; identity: nothing")

        @classmethod
        def tiny(cls) -> tuple[Self, ...]:
            """Every activation."""
            others = (cls(activation="relu"), cls(activation="sigmoid", bias=False), cls(activation="identity"))
            return cls(), *others

        def build(self, input_size: int, size: int) -> RNN:
            """Make the cell."""
            return RNN(input_size, size, self)

    sums_input = True

    def __init__(self, input_size: int, size: int, options: Options):
        super().__init__(input_size, size, 1, options)
        self.activation = _ACTIVATIONS[options.activation]
        self.reset(options.orthogonal)

    def bounded(self, start: bool) -> bool:
        """Yes, behind tanh or sigmoid."""
        return self.activation in (tanh, torch.sigmoid)

    def step(self, projected: Tensor, state: CellState, products: tuple[Product, ...] | None = None) -> CellState:
        """h' = act(W x + U h + b)."""
        (product,) = products or self.products()
        return (self.activation(product(state[0], projected)),)


@final
class LSTM(Cell):
    """Long short-term memory (Hochreiter and Schmidhuber 1997; forget gate Gers et al. 2000).

    i, f, o = sigmoid(W x + U h + b)    g = tanh(W_g x + U_g h + b_g)
    c' = f * c + i * g                  h' = o * tanh(c')

    `output: sigmoid` takes h' = o * sigmoid(c'). `peepholes` let the gates see the cell (Gers et al. 2002):
    i and f add p * c, o adds p_o * c'.

    >>> cell = LSTM.Options().build(3, 5)
    >>> h, c = cell.step(cell.project(torch.zeros(2, 3)), cell.zeros(2, torch.zeros(1)))
    >>> h.shape, cell.bias[5:10].tolist()  # the forget gate starts open
    (torch.Size([2, 5]), [1.0, 1.0, 1.0, 1.0, 1.0])
    """

    parts = 2
    sums_input = True

    class Options(_CellOptions):
        """An LSTM cell."""

        kind: Literal["lstm"] = "lstm"
        output: Literal["tanh", "sigmoid"] = Field("tanh", description="what the cell goes through on its way out")
        peepholes: bool = Field(False, description="let the gates see the cell's content")
        forget_bias: float | None = Field(None, description="first value of the forget gate's bias; 1 if not given")

        @model_validator(mode="after")
        def _used(self) -> LSTM.Options:
            if self.forget_bias is not None and not self.bias:
                raise ValueError("forget_bias changes nothing without bias: drop one of the two")
            return self

        @classmethod
        def tiny(cls) -> tuple[Self, ...]:
            """The other output without biases, and peepholes."""
            return cls(), cls(output="sigmoid", bias=False), cls(peepholes=True)

        def build(self, input_size: int, size: int) -> LSTM:
            """Make the cell."""
            return LSTM(input_size, size, self)

    def __init__(self, input_size: int, size: int, options: Options):
        super().__init__(input_size, size, 4, options)  # gates in the order i, f, o, g
        self.output = _ACTIVATIONS[options.output]
        self.tape = LstmTape if options.output == "tanh" and not options.peepholes else None
        self.peepholes = nn.Parameter(torch.zeros(3, size)) if options.peepholes else None
        self.reset(options.orthogonal)
        if self.bias is not None:
            self.bias.data[size : 2 * size] = 1.0 if options.forget_bias is None else options.forget_bias

    def bounded(self, start: bool) -> bool:
        """Yes: h' is the product of a gate and a squashed cell."""
        return True

    def step(self, projected: Tensor, state: CellState, products: tuple[Product, ...] | None = None) -> CellState:
        """c' = f * c + i * g, h' = o * tanh(c')."""
        h, c = state
        (product,) = products or self.products()
        gates, g = product(h, projected).split([3 * self.size, self.size], dim=1)
        g = tanh(g)
        if self.peepholes is None:
            i, f, o = torch.sigmoid(gates).chunk(3, dim=1)
            c = f * c + i * g
        else:
            i, f, o = gates.chunk(3, dim=1)
            i, f = torch.sigmoid(i + self.peepholes[0] * c), torch.sigmoid(f + self.peepholes[1] * c)
            c = f * c + i * g
            o = torch.sigmoid(o + self.peepholes[2] * c)
        return o * self.output(c), c


@final
class GRU(Cell):
    """Gated recurrent unit (Cho et al. 2014).

    r, z = sigmoid(W x + U h + b)
    reset before:  n = tanh(W_n x + U_n (r * h) + b_n)            the published form: two products a step
    reset after:   n = tanh(W_n x + b_n + r * (U_n h + b_h))      as `torch.nn.GRU`: one product a step
    h' = z * h + (1 - z) * n

    >>> cell = GRU.Options(reset="before").build(3, 4)
    >>> cell.step(cell.project(torch.zeros(2, 3)), (torch.zeros(2, 4),))[0].shape
    torch.Size([2, 4])
    """

    class Options(_CellOptions):
        """A GRU cell."""

        kind: Literal["gru"] = "gru"
        reset: Literal["before", "after"] = Field("after", description="where the reset gate acts")

        @classmethod
        def tiny(cls) -> tuple[Self, ...]:
            """The other reset gate, and no biases."""
            return cls(), cls(reset="before"), cls(bias=False)

        def build(self, input_size: int, size: int) -> GRU:
            """Make the cell."""
            return GRU(input_size, size, self)

    def __init__(self, input_size: int, size: int, options: Options):
        super().__init__(input_size, size, 3, options)  # gates in the order r, z, n
        self.before = options.reset == "before"
        self.tape = None if self.before else GruTape
        self.bias_h = nn.Parameter(torch.zeros(size)) if options.bias and not self.before else None
        self.reset(options.orthogonal)

    def products(self) -> tuple[Product, ...]:
        """One product for all gates, or, where the reset gate acts before it, one for r and z and one for n."""
        weight = self.state_weight
        parts = weight.split([2 * self.size, self.size]) if self.before else (weight,)
        return tuple(Product(part) for part in parts)

    def step(self, projected: Tensor, state: CellState, products: tuple[Product, ...] | None = None) -> CellState:
        """h' = z * h + (1 - z) * n."""
        (h,) = state
        products = products or self.products()
        halves = [2 * self.size, self.size]
        x_rz, x_n = projected.split(halves, dim=1)
        if self.before:
            r, z = torch.sigmoid(products[0](h, x_rz)).chunk(2, dim=1)
            n = tanh(products[1](r * h, x_n))
        else:
            h_rz, h_n = products[0](h).split(halves, dim=1)
            r, z = torch.sigmoid(x_rz + h_rz).chunk(2, dim=1)
            n = tanh(torch.addcmul(x_n, r, h_n if self.bias_h is None else h_n + self.bias_h))
        return (torch.lerp(n, h, z),)

    @property
    def state_bias(self) -> Tensor | None:
        """b_h, inside the reset gate; r and z have theirs with the input."""
        return None if self.bias_h is None else F.pad(self.bias_h, (2 * self.size, 0))

    def bounded(self, start: bool) -> bool:
        """If the first state is: z keeps some of it."""
        return start


@final
class Leaky(Cell):
    """A leaky average with a rate of its own for every dimension.

    h' = a * h + (1 - a) * x,  a = sigmoid(rate)

    Where `project` is on, x is W x + b; without it the input must have the size of the state.

    >>> cell = Leaky.Options(project=False).build(2, 2)
    >>> cell.rate.data.zero_().tolist()  # a = 1/2
    [0.0, 0.0]
    >>> cell.step(cell.project(torch.tensor([[4.0, 8.0]])), (torch.zeros(1, 2),))[0].tolist()
    [[2.0, 4.0]]
    """

    class Options(_AnyCell):
        """A leaky cell."""

        kind: Literal["leaky"] = "leaky"
        project: bool = Field(True, description="multiply the input by a learned matrix; false: sizes must be equal")

        def build(self, input_size: int, size: int) -> Leaky:
            """Make the cell."""
            return Leaky(input_size, size, self)

    def __init__(self, input_size: int, size: int, options: Options):
        if not options.project and input_size != size:
            raise RecipeError(
                f"a leaky cell without projection needs an input of its own size: {input_size} is not {size}; "
                "set project: true or make the sizes equal"
            )
        nn.Module.__init__(self)
        self.input_size, self.size = input_size, size
        self.rate = nn.Parameter(torch.linspace(-2.0, 4.0, size))  # memories from about 1 step to about 50
        self.weight_x: Tensor
        if options.project:
            self.weight_x = nn.Parameter(torch.empty(size, input_size))
            nn.init.xavier_uniform_(self.weight_x)
        else:
            self.register_buffer("weight_x", torch.eye(size), persistent=False)
        self.bias = nn.Parameter(torch.zeros(size)) if options.project else None

    def products(self) -> tuple[Product, ...]:
        """None: the state is not multiplied by a matrix."""
        return ()

    def step(self, projected: Tensor, state: CellState, products: tuple[Product, ...] | None = None) -> CellState:
        """h' = a * h + (1 - a) * x."""
        return (torch.lerp(projected, state[0], torch.sigmoid(self.rate)),)


@final
class Convolution(Cell):
    """A causal convolution as a cell: it sees its last inputs and no further back (Dauphin et al. 2017 for the gate).

    a_t = sum over k < width of W_k x_{t-k} + b        h_t = act(a_t)
    gated:  a_t has two halves, h_t = a_t[1] * sigmoid(a_t[2])

    Its state is what the inputs so far add to the next width - 1 sums, so that steps, chunks of running text and the
    whole sequence are the same. What h was is not looked at again.

    >>> cell = Convolution.Options(width=2, activation="relu").build(1, 1)
    >>> _ = cell.weight_x.data.copy_(torch.tensor([[1.0], [10.0]]))
    >>> h, next_one = cell.step(cell.project(torch.tensor([[3.0]])), (torch.zeros(1, 1), torch.tensor([[5.0]])))
    >>> h.item(), next_one.item()
    (8.0, 30.0)
    """

    class Options(_AnyCell):
        """A causal convolution."""

        stateful: ClassVar[bool] = False  # the last inputs are all that a step remembers
        kind: Literal["convolution"] = "convolution"
        width: int = Field(3, ge=2, description="inputs that a step sees: its own and those before it")
        activation: Literal["gated", "relu", "tanh"] = Field("gated", description="what the sum goes through")

        @classmethod
        def tiny(cls) -> tuple[Self, ...]:
            """Wide enough to see from one chunk of a text into the next."""
            return cls(width=8), cls(width=7, activation="relu")

        def build(self, input_size: int, size: int) -> Convolution:
            """Make the cell."""
            return Convolution(input_size, size, self)

    def __init__(self, input_size: int, size: int, options: Options):
        nn.Module.__init__(self)
        self.input_size, self.size, self.width = input_size, size, options.width
        self.gated = options.activation == "gated"
        self.activation = F.glu if self.gated else _ACTIVATIONS[options.activation]
        self.sums = size * (2 if self.gated else 1)  # the length of a_t
        self.parts = 1 + (options.width - 1) * (self.sums // size)
        self.weight_x: Tensor = nn.Parameter(torch.empty(options.width * self.sums, input_size))
        for block in self.weight_x.data.split(size):
            nn.init.xavier_uniform_(block, gain=options.width**-0.5) if block.numel() else None
        self.bias = None  # not of the inputs, each of which would bring it again
        self.constant = nn.Parameter(torch.zeros(self.sums))

    def products(self) -> tuple[Product, ...]:
        """None: the state is not multiplied by a matrix."""
        return ()

    def step(self, projected: Tensor, state: CellState, products: tuple[Product, ...] | None = None) -> CellState:
        """Add what came before, put out the sum that is whole, keep the others."""
        summed = projected + F.pad(torch.cat(state[1:], dim=1), (0, self.sums))
        now, later = summed.split([self.sums, summed.size(1) - self.sums], dim=1)
        return self.activation(now + self.constant), *later.split(self.size, dim=1)

    def fused(
        self, x: Tensor, state: CellState | None, real: Tensor | None, reverse: bool
    ) -> tuple[Tensor, CellState] | None:
        """All sums at once: every input's share, added to the sums of the places that see it."""
        S, B = x.shape[:2]
        if real is not None and bool((real[1:] & ~real[:-1]).any()):
            return None  # a gap before the end of a row
        state = self.zeros(B, x) if state is None else state
        x = self.project(x)
        lengths = x.new_full((B,), S, dtype=torch.long) if real is None else real.sum((0, 2))
        x = _turned(x, lengths) if reverse else x
        x = x if real is None else x * real
        shares = x.unflatten(2, (self.width, self.sums)).unbind(2)
        before = torch.cat(state[1:], dim=1).unflatten(1, (self.width - 1, self.sums)).transpose(0, 1)
        sums = F.pad(before, (0, 0, 0, 0, 0, S))  # (S + width - 1, B, A)
        for late, share in enumerate(shares):
            sums = sums + F.pad(share, (0, 0, 0, 0, late, self.width - 1 - late))
        outputs = self.activation(sums[:S] + self.constant)
        rows = torch.arange(B, device=x.device)
        last = torch.where(lengths[:, None] > 0, outputs[(lengths - 1).clamp(min=0), rows], state[0])
        left = torch.cat([sums[lengths + late, rows] for late in range(self.width - 1)], dim=1)
        return (_turned(outputs, lengths) if reverse else outputs), (last, *left.split(self.size, dim=1))


def _turned(x: Tensor, lengths: Tensor) -> Tensor:
    """Every row of x (S, B, X) turned round by its own length; padding stays where it is."""
    places = torch.arange(x.size(0), device=x.device)[:, None]
    return x.gather(0, torch.where(places < lengths, lengths - 1 - places, places)[..., None].expand_as(x))


CellOptions = Annotated[
    RNN.Options | LSTM.Options | GRU.Options | Leaky.Options | Convolution.Options,
    Field(discriminator="kind"),
    named,
]
"""Every cell a recipe can name."""
