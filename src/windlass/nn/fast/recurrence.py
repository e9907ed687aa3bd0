"""Whole recurrences with back-propagation through time derived by hand.

One product a step forward, one backward, and the weight gradient in a single product after the loop; what autograd
would store and launch for every gate is done in place. Exact against the cells' own steps (a contract). Time comes
first here: (S, B, ...). Padding leaves a row's state unchanged.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, final

import torch
from torch import Tensor
from torch.autograd import Function

from windlass.core.records import CellState
from windlass.nn.fast.activation import tanh, tanh_
from windlass.nn.fast.onednn import FixedWeight, weight_gradient
from windlass.nn.fast.switch import first_order

_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
_tanh_backward = torch.ops.aten.tanh_backward.default
_tanh_backward_to = torch.ops.aten.tanh_backward.grad_input


class Tape(ABC):
    """A cell's steps forward and backward, and the activations that the backward pass needs.

    `x` is the projected input (with its bias), `r` the product with the state, U h. The gradients of a step overwrite
    its activations, unless the graph is retained. Tables are unbound once, so that a step makes no views.
    """

    H: int
    hs: Tensor  # (S + 1, B, H) the state before the first step and after every step
    h: tuple[Tensor, ...]  # S + 1 of (B, H)
    dx: Tensor  # (S, B, G) gradients of x
    dx_of: tuple[Tensor, ...]  # S of (B, G)

    @abstractmethod
    def __init__(self, steps: int, state: tuple[Tensor, ...], start: int = 0):
        """Make tables for S steps, with the first state at index `start` of the S + 1 states."""

    @abstractmethod
    def step(self, t: int, before: int, after: int, x: Tensor, r: Tensor, padding: Tensor | None = None) -> None:
        """Step t from state number `before` to number `after`; `padding` (B, 1) marks rows whose state stays."""

    @abstractmethod
    def start_backward(self, overwrite: bool) -> None:
        """Allocate the gradients, or let them overwrite the activations."""

    @abstractmethod
    def step_backward(
        self, t: int, before: int, after: int, dh: Tensor, dc: Tensor | None, padding: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Return the gradient of r, the gradient of the state before that does not go through r, and dc."""

    def last_state(self, index: int) -> tuple[Tensor, ...]:
        """A copy of state number `index`."""
        return (self.h[index].clone(),)

    def d_weight(self, earlier: Tensor) -> Tensor:
        """The gradient of U (G, H) from the states before each step (S, B, H), if dx is also the gradient of r."""
        return outer(self.dx, earlier)

    def d_bias(self) -> Tensor:
        """The gradient of the bias of r (G,), if dx is also the gradient of r."""
        return self.dx.sum((0, 1))


def frees_graph() -> bool:
    """Whether the running backward pass frees the graph behind it, so that what was saved for it can go at once.

    >>> frees_graph()
    False
    """
    keeps = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", None)  # private names of torch
    return keeps is not None and torch._C._current_graph_task_id() >= 0 and not keeps()


def outer(gradient: Tensor, x: Tensor) -> Tensor:
    """The gradient of a weight over all steps: (S, B, O) and (S, B, I) -> (O, I).

    >>> outer(torch.ones(5, 2, 3), torch.ones(5, 2, 4)).shape
    torch.Size([3, 4])
    """
    return weight_gradient(gradient.flatten(0, 1), x.flatten(0, 1))


@final
class LstmTape(Tape):
    """i, f, o, g = squashed gates; c' = f * c + i * g; h' = o * tanh(c').

    >>> tape = LstmTape(1, (torch.zeros(2, 3), torch.zeros(2, 3)))
    >>> tape.step(0, 0, 1, torch.zeros(2, 12), torch.zeros(2, 12))
    >>> tape.hs[1].abs().sum().item()
    0.0
    """

    def __init__(self, steps: int, state: tuple[Tensor, ...], start: int = 0):
        h, c = state
        self.H = h.size(1)
        self.gates = h.new_empty(steps, h.size(0), 4 * self.H)
        self.hs, self.cs = h.new_empty(steps + 1, *h.shape), h.new_empty(steps + 1, *h.shape)
        self.h, self.c = self.hs.unbind(0), self.cs.unbind(0)
        self.h[start].copy_(h)
        self.c[start].copy_(c)
        self.gates_of = self.gates.unbind(0)
        self.sigmoids, self.g = self._parts(self.gates)
        self.i, self.f, self.o = (gate.unbind(0) for gate in self.gates[..., : 3 * self.H].chunk(3, dim=2))

    def _parts(self, table: Tensor) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """i, f and o of every step as one tensor, and g."""
        return table[..., : 3 * self.H].unbind(0), table[..., 3 * self.H :].unbind(0)

    def step(self, t: int, before: int, after: int, x: Tensor, r: Tensor, padding: Tensor | None = None) -> None:
        """c' = f * c + i * g, h' = o * tanh(c'). Padding sets i = 0 and f = 1, which keeps c; h is copied."""
        torch.add(x, r, out=self.gates_of[t])
        self.sigmoids[t].sigmoid_()
        g = tanh_(self.g[t])
        if padding is not None:
            self.i[t].masked_fill_(padding, 0.0)
            self.f[t].masked_fill_(padding, 1.0)
        torch.mul(self.f[t], self.c[before], out=self.c[after]).addcmul_(self.i[t], g)
        torch.mul(self.o[t], tanh(self.c[after]), out=self.h[after])
        if padding is not None:
            torch.where(padding, self.h[before], self.h[after], out=self.h[after])

    def start_backward(self, overwrite: bool) -> None:
        """dx is also the gradient of r: the gates see their sum."""
        self.dx = self.gates if overwrite else torch.empty_like(self.gates)
        self.dx_of = self.dx.unbind(0)
        self.d_sigmoids, self.dg = self._parts(self.dx)
        self.scratch = self.gates.new_empty(self.sigmoids[0].shape)

    def step_backward(
        self, t: int, before: int, after: int, dh: Tensor, dc: Tensor | None, padding: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """All of h's gradient goes through r; on padding, none of it. tanh(c') is recomputed.

        On padding the gradients of i, f and g are 0, because those gates are saturated.
        """
        direct = None
        if padding is not None:
            direct = dh * padding
            dh = dh - direct
        i, f, o, g = self.i[t], self.f[t], self.o[t], self.g[t]
        di, df, do = self.scratch.chunk(3, dim=1)
        squashed = tanh(self.c[after])
        through: Tensor = _tanh_backward(dh * o, squashed)
        dc = through if dc is None else through.add_(dc)
        torch.mul(dc, g, out=di)
        torch.mul(dc, self.c[before], out=df)
        torch.mul(dh, squashed, out=do)
        dg = dc * i
        dc = dc * f
        _sigmoid_backward(self.scratch, self.sigmoids[t], grad_input=self.d_sigmoids[t])
        _tanh_backward_to(dg, g, grad_input=self.dg[t])
        return self.dx_of[t], direct, dc

    def last_state(self, index: int) -> tuple[Tensor, ...]:
        """h and c."""
        return self.h[index].clone(), self.c[index].clone()


@final
class GruTape(Tape):
    """r, z = squashed gates; n = tanh(x_n + r * (r_n + b)); h' = z * h + (1 - z) * n.

    >>> tape = GruTape(1, (torch.zeros(2, 3),))
    >>> tape.step(0, 0, 1, torch.zeros(2, 9), torch.zeros(2, 9))
    >>> tape.hs[1].abs().sum().item()
    0.0
    """

    def __init__(self, steps: int, state: tuple[Tensor, ...], start: int = 0):
        (h,) = state
        self.H = h.size(1)
        self.gates = h.new_empty(steps, h.size(0), 3 * self.H)
        self.inner = h.new_empty(steps, *h.shape)  # r_n + b, as r includes the bias
        self.hs = h.new_empty(steps + 1, *h.shape)
        self.h, self.inner_of = self.hs.unbind(0), self.inner.unbind(0)
        self.h[start].copy_(h)
        self.sigmoids = self.gates[..., : 2 * self.H].unbind(0)
        self.reset, self.z, self.n = (gate.unbind(0) for gate in self.gates.chunk(3, dim=2))

    def step(self, t: int, before: int, after: int, x: Tensor, r: Tensor, padding: Tensor | None = None) -> None:
        """h' = z * h + (1 - z) * n. Padding sets z = 1."""
        sizes = [2 * self.H, self.H]
        (x, x_n), (r, r_n) = x.split_with_sizes(sizes, dim=1), r.split_with_sizes(sizes, dim=1)
        torch.add(x, r, out=self.sigmoids[t]).sigmoid_()
        if padding is not None:
            self.z[t].masked_fill_(padding, 1.0)
        n = torch.addcmul(x_n, self.reset[t], self.inner_of[t].copy_(r_n), out=self.n[t])
        torch.lerp(tanh_(n), self.h[before], self.z[t], out=self.h[after])

    def start_backward(self, overwrite: bool) -> None:
        """x and r share their gradient but for the candidate n, where the reset gate multiplies r alone."""
        self.dx = self.gates if overwrite else torch.empty_like(self.gates)
        self.d_inner = self.inner if overwrite else torch.empty_like(self.inner)
        self.dx_of, self.d_inner_of = self.dx.unbind(0), self.d_inner.unbind(0)
        self.d_sigmoids = self.dx[..., : 2 * self.H].unbind(0)
        self.d_reset, self.dz, self.dn = (gate.unbind(0) for gate in self.dx.chunk(3, dim=2))
        self.scratch = self.dx.new_empty(self.dx_of[0].shape)

    def step_backward(
        self, t: int, before: int, after: int, dh: Tensor, dc: Tensor | None, padding: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """z * dh reaches h directly, on padding all of dh.

        The gradient of z is dh (h - n) z (1 - z) = (1 - z) dh (h' - n), as z (h - n) = h' - n.
        """
        n, reset = self.n[t], self.reset[t]
        direct = dh * self.z[t]
        through = dh - direct
        torch.mul(through, self.h[after] - n, out=self.dz[t])
        dn = _tanh_backward_to(through, n, grad_input=self.dn[t])
        d_reset = dn * self.inner_of[t]
        d_inner = torch.mul(dn, reset, out=self.d_inner_of[t])
        _sigmoid_backward(d_reset, reset, grad_input=self.d_reset[t])
        return torch.cat([self.d_sigmoids[t], d_inner], dim=1, out=self.scratch), direct, None

    def d_weight(self, earlier: Tensor) -> Tensor:
        """Two products for all steps."""
        return torch.cat([outer(self.dx[..., : 2 * self.H], earlier), outer(self.d_inner, earlier)])

    def d_bias(self) -> Tensor:
        """The sum over all steps."""
        return torch.cat([self.dx[..., : 2 * self.H].sum((0, 1)), self.d_inner.sum((0, 1))])


class _Recurrence(Function):
    """A tape over a whole sequence."""

    @staticmethod
    def forward(
        ctx: Any,
        kind: type[Tape],
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        real: Tensor | None,
        reverse: bool,
        *state: Tensor,
    ) -> tuple[Tensor, ...]:
        S = x.size(0)
        ctx.order = range(S - 1, -1, -1) if reverse else range(S)
        # The first of the S + 1 states is the start, or, in reverse, the last.
        ctx.before, ctx.after = (1, 0) if reverse else (0, 1)  # offsets of the states around step t
        # The padding rows (B, 1) of every step; None for a step without any.
        ctx.padding = [None] * S if real is None else [p if bool(p.any()) else None for p in (~real).unbind(0)]
        tape = kind(S, state, start=S if reverse else 0)
        product, inputs = FixedWeight(weight, x.size(1)), x.unbind(0)
        for t in ctx.order:
            before, after = t + ctx.before, t + ctx.after
            tape.step(t, before, after, inputs[t], product(tape.h[before], bias), ctx.padding[t])
        ctx.tape, ctx.biased = tape, bias is not None
        ctx.save_for_backward(weight)
        end = 0 if reverse else S
        return (tape.hs[ctx.after : S + ctx.after], *tape.last_state(end))

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        d_outputs, dh, *rest = gradients
        dc = rest[0] if rest else None
        (weight,) = ctx.saved_tensors
        tape: Tape = ctx.tape
        tape.start_backward(overwrite=frees_graph())
        product = FixedWeight(weight.t(), dh.size(0))
        d_output = d_outputs.unbind(0)
        for t in reversed(ctx.order):
            dh = dh + d_output[t]
            dr, direct, dc = tape.step_backward(t, t + ctx.before, t + ctx.after, dh, dc, ctx.padding[t])
            dh = product(dr)
            if direct is not None:
                dh += direct
        d_weight = tape.d_weight(tape.hs[ctx.before : len(ctx.order) + ctx.before])
        d_bias = tape.d_bias() if ctx.biased else None
        state = (dh,) if dc is None else (dh, dc)
        if frees_graph():  # or the tape would stay until the whole graph goes
            ctx.tape = None
        return None, tape.dx, d_weight, d_bias, None, None, *state


def recurrence(
    kind: type[Tape],
    x: Tensor,
    state: CellState,
    weight: Tensor,
    bias: Tensor | None,
    real: Tensor | None,
    reverse: bool,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Run a cell over projected inputs (S, B, G); return outputs (S, B, H) and the last state.

    weight (G, H) multiplies the state, and bias (G,) is added to that product; real (S, B, 1) is False on padding.

    >>> outputs, (h,) = recurrence(
    ...     GruTape, torch.randn(5, 2, 9), (torch.zeros(2, 3),), torch.randn(9, 3), None, None, reverse=True)
    >>> torch.equal(outputs[0], h)
    True
    """
    outputs, *last = _Recurrence.apply(kind, x, weight, bias, real, reverse, *state)  # type: ignore[no-untyped-call]
    return outputs, tuple(last)
