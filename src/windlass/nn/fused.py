"""Whole recurrences with back-propagation through time derived by hand.

One product a step forward, one backward, and the weight gradient in a single product after the loop; what autograd
would keep and launch for every gate is done in place. Exact against the cells' own steps (a contract). Time comes
first here: (S, B, ...). A row's state stays as it was at a place that is not real.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from windlass.nn.product import Fixed, last_pass

_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
_tanh_backward = torch.ops.aten.tanh_backward.default
_tanh_backward_to = torch.ops.aten.tanh_backward.grad_input


_MINUS_ONE = torch.tensor(-1.0)


def tanh_(x: Tensor) -> Tensor:
    """tanh in place, as 2 sigmoid(2x) - 1: on a CPU torch's sigmoid takes a sixth of the time of its tanh.

    >>> tanh_(torch.tensor([0.0])).item()
    0.0
    """
    if x.device.type != "cpu":
        return x.tanh_()
    x.add_(x).sigmoid_()
    return torch.add(_MINUS_ONE, x, alpha=2, out=x)


class _Tanh(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = tanh(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        found: Tensor = _tanh_backward(gradients[0], y)
        return found


def tanh(x: Tensor) -> Tensor:
    """tanh, by the quicker way.

    >>> x = torch.ones(1, requires_grad=True)
    >>> y = tanh(x)
    >>> y.backward()
    >>> bool(torch.allclose(y, x.tanh())), bool(torch.allclose(x.grad, 1 - y**2))
    (True, True)
    """
    if x.device.type != "cpu":
        return torch.tanh(x)
    if torch.is_grad_enabled() and x.requires_grad:
        y: Tensor = _Tanh.apply(x)  # type: ignore[no-untyped-call]
        return y
    twice = (x + x).sigmoid_()
    return torch.add(_MINUS_ONE, twice, alpha=2, out=twice)


class Tape:
    """What a cell must remember of every step to walk back through it.

    `x` is what comes from the input (biases too), `r` what comes from the state: U h. What a step has remembered gives
    way to its gradients when it has been walked back through, unless it may be walked through again.
    """

    hs: Tensor  # (S + 1, B, H) the state before the first step, and after every one
    h: tuple[Tensor, ...]  # each of them: a step takes no views of its own
    dx: Tensor  # (S, B, G) gradients of x
    dx_of: tuple[Tensor, ...]  # each of them

    def step(self, t: int, before: int, after: int, x: Tensor, r: Tensor, padding: Tensor | None = None) -> None:
        """Take step t from state `before` to state `after`, both places in the table of states; rows of `padding`
        (B, 1) stay as they were."""
        raise NotImplementedError

    def open(self, once: bool) -> None:
        """Make room for the gradients; if this is the only way back, where the steps are."""
        raise NotImplementedError

    def back(
        self, t: int, before: int, after: int, dh: Tensor, dc: Tensor | None, padding: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Walk back through step t; return the gradient of r, what reaches the state before past r, and dc."""
        raise NotImplementedError

    def d_weight(self, earlier: Tensor) -> Tensor:
        """The gradient of U (G, H), given the states before all steps (S, B, H)."""
        raise NotImplementedError

    def d_bias(self) -> Tensor:
        """The gradient of what is added to r (G,)."""
        raise NotImplementedError


def outer(gradient: Tensor, x: Tensor) -> Tensor:
    """A weight's gradient over all steps: (S, B, O) and (S, B, I) -> (O, I).

    >>> outer(torch.ones(5, 2, 3), torch.ones(5, 2, 4)).shape
    torch.Size([3, 4])
    """
    return gradient.flatten(0, 1).t() @ x.flatten(0, 1)


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
        """Of every step: i, f and o in one piece, and g."""
        return table[..., : 3 * self.H].unbind(0), table[..., 3 * self.H :].unbind(0)

    def step(self, t: int, before: int, after: int, x: Tensor, r: Tensor, padding: Tensor | None = None) -> None:
        """c' = f * c + i * g, h' = o * tanh(c'). Padding shuts i and opens f, so that c stays; h is held."""
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

    def open(self, once: bool) -> None:
        """dx is the gradient of r too: the gates add them."""
        self.dx = self.gates if once else torch.empty_like(self.gates)
        self.dx_of = self.dx.unbind(0)
        self.d_sigmoids, self.dg = self._parts(self.dx)
        self.room = self.gates.new_empty(self.sigmoids[0].shape)

    def back(
        self, t: int, before: int, after: int, dh: Tensor, dc: Tensor | None, padding: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """The gates' gradients; all that reaches h goes through r, on padding past it. tanh(c') is worked out again.

        Of a gate that is shut or open altogether the gradient is 0: on padding, that of i, f and g.
        """
        past = None
        if padding is not None:
            past = dh * padding
            dh = dh - past
        i, f, o, g = self.i[t], self.f[t], self.o[t], self.g[t]
        di, df, do = self.room.chunk(3, dim=1)
        squashed = tanh(self.c[after])
        through: Tensor = _tanh_backward(dh * o, squashed)
        dc = through if dc is None else through.add_(dc)
        torch.mul(dc, g, out=di)
        torch.mul(dc, self.c[before], out=df)
        torch.mul(dh, squashed, out=do)
        dg = dc * i
        dc = dc * f
        _sigmoid_backward(self.room, self.sigmoids[t], grad_input=self.d_sigmoids[t])
        _tanh_backward_to(dg, g, grad_input=self.dg[t])
        return self.dx_of[t], past, dc

    def d_weight(self, earlier: Tensor) -> Tensor:
        """One product for all steps."""
        return outer(self.dx, earlier)

    def d_bias(self) -> Tensor:
        """The sum over all steps."""
        return self.dx.sum((0, 1))


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
        self.inner = h.new_empty(steps, *h.shape)  # r_n + b: the bias comes in with r
        self.hs = h.new_empty(steps + 1, *h.shape)
        self.h, self.inner_of = self.hs.unbind(0), self.inner.unbind(0)
        self.h[start].copy_(h)
        self.sigmoids = self.gates[..., : 2 * self.H].unbind(0)
        self.reset, self.z, self.n = (gate.unbind(0) for gate in self.gates.chunk(3, dim=2))

    def step(self, t: int, before: int, after: int, x: Tensor, r: Tensor, padding: Tensor | None = None) -> None:
        """h' = z * h + (1 - z) * n. Padding opens z."""
        sizes = [2 * self.H, self.H]
        (x, x_n), (r, r_n) = x.split_with_sizes(sizes, dim=1), r.split_with_sizes(sizes, dim=1)
        torch.add(x, r, out=self.sigmoids[t]).sigmoid_()
        if padding is not None:
            self.z[t].masked_fill_(padding, 1.0)
        n = torch.addcmul(x_n, self.reset[t], self.inner_of[t].copy_(r_n), out=self.n[t])
        torch.lerp(tanh_(n), self.h[before], self.z[t], out=self.h[after])

    def open(self, once: bool) -> None:
        """x and r have the same gradient but for the candidate, which they meet in different ways."""
        self.dx = self.gates if once else torch.empty_like(self.gates)
        self.d_inner = self.inner if once else torch.empty_like(self.inner)
        self.dx_of, self.d_inner_of = self.dx.unbind(0), self.d_inner.unbind(0)
        self.d_sigmoids = self.dx[..., : 2 * self.H].unbind(0)
        self.d_reset, self.dz, self.dn = (gate.unbind(0) for gate in self.dx.chunk(3, dim=2))
        self.room = self.dx.new_empty(self.dx_of[0].shape)

    def back(
        self, t: int, before: int, after: int, dh: Tensor, dc: Tensor | None, padding: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """The gates' gradients; z * dh reaches h past r, on padding all of it.

        That of z is dh (h - n) z (1 - z); as z (h - n) is h' - n, it needs neither h nor z once (1 - z) dh is there.
        """
        n, reset = self.n[t], self.reset[t]
        past = dh * self.z[t]
        through = dh - past
        torch.mul(through, self.h[after] - n, out=self.dz[t])
        dn = _tanh_backward_to(through, n, grad_input=self.dn[t])
        d_reset = dn * self.inner_of[t]
        d_inner = torch.mul(dn, reset, out=self.d_inner_of[t])
        _sigmoid_backward(d_reset, reset, grad_input=self.d_reset[t])
        return torch.cat([self.d_sigmoids[t], d_inner], dim=1, out=self.room), past, None

    def d_weight(self, earlier: Tensor) -> Tensor:
        """Two products for all steps."""
        two = 2 * self.H
        found = earlier.new_empty(3 * self.H, earlier.size(2))
        torch.mm(self.dx[..., :two].flatten(0, 1).t(), earlier.flatten(0, 1), out=found[:two])
        torch.mm(self.d_inner.flatten(0, 1).t(), earlier.flatten(0, 1), out=found[two:])
        return found

    def d_bias(self) -> Tensor:
        """The sum over all steps."""
        return torch.cat([self.dx[..., : 2 * self.H].sum((0, 1)), self.d_inner.sum((0, 1))])


def _padding(real: Tensor | None, steps: int) -> tuple[Tensor | None, ...]:
    """Of every step the rows (B, 1) where it is not real (S, B, 1); None where there is no such row."""
    if real is None:
        return (None,) * steps
    return tuple(rows if bool(rows.any()) else None for rows in (~real).unbind(0))


class _Recurrence(Function):
    """A tape run forward over a sequence, and back."""

    @staticmethod
    def forward(
        ctx: Any,
        kind: type[LstmTape] | type[GruTape],
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        real: Tensor | None,
        reverse: bool,
        *state: Tensor,
    ) -> tuple[Tensor, ...]:
        S = x.size(0)
        ctx.order = range(S - 1, -1, -1) if reverse else range(S)
        # In the table of S + 1 states the start is the first one, or, walking from the end, the last.
        ctx.before, ctx.after = (1, 0) if reverse else (0, 1)  # the states around step t are at t + these
        ctx.padding = _padding(real, S)
        tape = kind(S, state, start=S if reverse else 0)
        product, inputs = Fixed(weight, x.size(1)), x.unbind(0)
        for t in ctx.order:
            before, after = t + ctx.before, t + ctx.after
            tape.step(t, before, after, inputs[t], product(tape.h[before], bias), ctx.padding[t])
        ctx.tape, ctx.biased = tape, bias is not None
        ctx.save_for_backward(weight)
        end = 0 if reverse else S
        last = [tape.h[end].clone()]
        if isinstance(tape, LstmTape):
            last.append(tape.c[end].clone())
        return (tape.hs[ctx.after : S + ctx.after], *last)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        d_outputs, dh, *rest = gradients
        dc = rest[0] if rest else None
        (weight,) = ctx.saved_tensors
        tape: Tape = ctx.tape
        tape.open(once=last_pass())
        product = Fixed(weight.t(), dh.size(0))
        d_output = d_outputs.unbind(0)
        for t in reversed(ctx.order):
            dh = dh + d_output[t]
            dr, past, dc = tape.back(t, t + ctx.before, t + ctx.after, dh, dc, ctx.padding[t])
            dh = product(dr)
            if past is not None:
                dh += past
        d_weight = tape.d_weight(tape.hs[ctx.before : len(ctx.order) + ctx.before])
        d_bias = tape.d_bias() if ctx.biased else None
        state = (dh,) if dc is None else (dh, dc)
        if last_pass():  # or all of it would stay until the whole graph goes
            ctx.tape = None
        return None, tape.dx, d_weight, d_bias, None, None, *state


def recurrence(
    kind: type[LstmTape] | type[GruTape],
    x: Tensor,
    state: tuple[Tensor, ...],
    weight: Tensor,
    bias: Tensor | None,
    real: Tensor | None,
    reverse: bool,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Run a cell over projected inputs (S, B, G); return outputs (S, B, H) and the last state.

    weight (G, H) multiplies the state, bias (G) comes in with it; real (S, B, 1).

    >>> outputs, (h,) = recurrence(
    ...     GruTape, torch.randn(5, 2, 9), (torch.zeros(2, 3),), torch.randn(9, 3), None, None, reverse=True)
    >>> torch.equal(outputs[0], h)
    True
    """
    outputs, *last = _Recurrence.apply(kind, x, weight, bias, real, reverse, *state)  # type: ignore[no-untyped-call]
    return outputs, tuple(last)
