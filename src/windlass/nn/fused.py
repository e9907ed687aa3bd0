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
_tanh_backward = torch.ops.aten.tanh_backward
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


def tanh(x: Tensor) -> Tensor:
    """tanh, by the quicker way where no gradient is asked for.

    >>> with torch.no_grad():
    ...     bool(torch.allclose(tanh(torch.ones(1)), torch.ones(1).tanh()))
    True
    """
    if torch.is_grad_enabled() or x.device.type != "cpu":
        return torch.tanh(x)
    twice = (x + x).sigmoid_()
    return torch.add(_MINUS_ONE, twice, alpha=2, out=twice)


class Tape:
    """What a cell must remember of every step to walk back through it.

    `x` is what comes from the input (biases too), `r` what comes from the state: U h. What a step has remembered gives
    way to its gradients when it has been walked back through, unless it may be walked through again.
    """

    hs: Tensor  # (S + 1, B, H) the state before the first step, and after every one
    dx: Tensor  # (S, B, G) gradients of x

    def step(self, t: int, before: int, after: int, x: Tensor, r: Tensor) -> None:
        """Take step t from state `before` to state `after`, both places in the table of states."""
        raise NotImplementedError

    def hold(self, before: int, after: int, real: Tensor) -> None:
        """Undo the step in the rows where the place is not real."""
        raise NotImplementedError

    def open(self, once: bool) -> None:
        """Make room for the gradients; if this is the only way back, where the steps are."""
        raise NotImplementedError

    def back(
        self, t: int, before: int, after: int, dh: Tensor, dc: Tensor | None
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
        self.hs[start], self.cs[start] = h, c

    def step(self, t: int, before: int, after: int, x: Tensor, r: Tensor) -> None:
        """c' = f * c + i * g, h' = o * tanh(c')."""
        gates = torch.add(x, r, out=self.gates[t])
        i, f, o, g = gates.chunk(4, dim=1)
        gates[:, : 3 * self.H].sigmoid_()
        tanh_(g)
        torch.mul(f, self.cs[before], out=self.cs[after]).addcmul_(i, g)
        torch.mul(o, tanh_(self.cs[after].clone()), out=self.hs[after])

    def hold(self, before: int, after: int, real: Tensor) -> None:
        """Keep h and c."""
        for states in (self.hs, self.cs):
            states[after] = torch.where(real, states[after], states[before])

    def open(self, once: bool) -> None:
        """dx is the gradient of r too: the gates add them."""
        self.dx = self.gates if once else torch.empty_like(self.gates)
        self.room = torch.empty_like(self.gates[0])

    def back(
        self, t: int, before: int, after: int, dh: Tensor, dc: Tensor | None
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """The gates' gradients; all that reaches h goes through r. tanh(c') is worked out again."""
        gates, dx = self.gates[t], self.dx[t]
        i, f, o, g = gates.chunk(4, dim=1)
        di, df, do, dg = self.room.chunk(4, dim=1)
        squashed = tanh_(self.cs[after].clone())
        through: Tensor = _tanh_backward(dh * o, squashed)
        dc = through if dc is None else through.add_(dc)
        torch.mul(dc, g, out=di)
        torch.mul(dc, self.cs[before], out=df)
        torch.mul(dh, squashed, out=do)
        torch.mul(dc, i, out=dg)
        dc = dc * f
        sigmoids = 3 * self.H
        _sigmoid_backward(self.room[:, :sigmoids], gates[:, :sigmoids], grad_input=dx[:, :sigmoids])
        _tanh_backward_to(dg, g, grad_input=dx[:, sigmoids:])
        return dx, None, dc

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
        self.hs[start] = h

    def step(self, t: int, before: int, after: int, x: Tensor, r: Tensor) -> None:
        """h' = z * h + (1 - z) * n."""
        two = 2 * self.H
        torch.add(x[:, :two], r[:, :two], out=self.gates[t, :, :two]).sigmoid_()
        reset, z, n = self.gates[t].chunk(3, dim=1)
        self.inner[t] = r[:, two:]
        tanh_(torch.addcmul(x[:, two:], reset, self.inner[t], out=n))
        torch.lerp(n, self.hs[before], z, out=self.hs[after])

    def hold(self, before: int, after: int, real: Tensor) -> None:
        """Keep h."""
        self.hs[after] = torch.where(real, self.hs[after], self.hs[before])

    def open(self, once: bool) -> None:
        """x and r have the same gradient but for the candidate, which they meet in different ways."""
        self.dx = self.gates if once else torch.empty_like(self.gates)
        self.d_inner = self.inner if once else torch.empty_like(self.inner)
        self.room = torch.empty_like(self.gates[0])

    def back(
        self, t: int, before: int, after: int, dh: Tensor, dc: Tensor | None
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """The gates' gradients; z * dh reaches h past r."""
        two = 2 * self.H
        gates, dx, dr = self.gates[t], self.dx[t], self.room
        reset, z, n = gates.chunk(3, dim=1)
        d_reset, dz, d_inner = dr.chunk(3, dim=1)
        past = dh * z
        torch.mul(dh, self.hs[before] - n, out=dz)
        dn = _tanh_backward_to(dh - past, n, grad_input=dx[:, two:])
        torch.mul(dn, self.inner[t], out=d_reset)
        torch.mul(dn, reset, out=d_inner)
        self.d_inner[t] = d_inner
        dr[:, :two] = _sigmoid_backward(dr[:, :two], gates[:, :two], grad_input=dx[:, :two])
        return dr, past, None

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
        ctx.partial = [False] * S if real is None else (~real.flatten(1).all(1)).tolist()
        tape = kind(S, state, start=S if reverse else 0)
        product = Fixed(weight, x.size(1))
        for t in ctx.order:
            before, after = t + ctx.before, t + ctx.after
            tape.step(t, before, after, x[t], product(tape.hs[before], bias))
            if ctx.partial[t] and real is not None:
                tape.hold(before, after, real[t])
        ctx.tape, ctx.biased = tape, bias is not None
        ctx.save_for_backward(weight, real)
        end = 0 if reverse else S
        last = [tape.hs[end].clone()]
        if isinstance(tape, LstmTape):
            last.append(tape.cs[end].clone())
        return (tape.hs[ctx.after : S + ctx.after], *last)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        d_outputs, dh, *rest = gradients
        dc = rest[0] if rest else None
        weight, real = ctx.saved_tensors
        tape: Tape = ctx.tape
        tape.open(once=last_pass())
        product = Fixed(weight.t(), dh.size(0))
        for t in reversed(ctx.order):
            dh = dh + d_outputs[t]
            skipped = dh * ~real[t] if ctx.partial[t] else None
            skipped_c = dc * ~real[t] if ctx.partial[t] and dc is not None else None
            if ctx.partial[t]:
                dh, dc = dh * real[t], None if dc is None else dc * real[t]
            dr, past, dc = tape.back(t, t + ctx.before, t + ctx.after, dh, dc)
            dh = product(dr)
            if past is not None:
                dh += past
            if skipped is not None:
                dh = dh + skipped
            if skipped_c is not None and dc is not None:
                dc = dc + skipped_c
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
