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

_sigmoid_backward = torch.ops.aten.sigmoid_backward
_tanh_backward = torch.ops.aten.tanh_backward


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

    `x` is what comes from the input (biases too), `r` what comes from the state: U h.
    """

    hs: Tensor  # (S + 1, B, H) the state before the first step, and after every one
    dx: Tensor  # (S, B, G) gradients of x
    dr: Tensor  # (S, B, G) gradients of r; for some cells the same tensor

    def step(self, t: int, before: int, after: int, x: Tensor, r: Tensor) -> None:
        """Take step t from state `before` to state `after`, both places in the table of states."""
        raise NotImplementedError

    def hold(self, before: int, after: int, real: Tensor) -> None:
        """Undo the step in the rows where the place is not real."""
        raise NotImplementedError

    def open(self) -> None:
        """Make room for the gradients."""
        raise NotImplementedError

    def back(self, t: int, before: int, dh: Tensor, dc: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        """Walk back through step t: fill in dx and dr; return what reaches the state before past r, and dc."""
        raise NotImplementedError


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
        self.squashed = h.new_empty(steps, *h.shape)  # tanh(c')
        self.hs, self.cs = h.new_empty(steps + 1, *h.shape), h.new_empty(steps + 1, *h.shape)
        self.hs[start], self.cs[start] = h, c

    def step(self, t: int, before: int, after: int, x: Tensor, r: Tensor) -> None:
        """c' = f * c + i * g, h' = o * tanh(c')."""
        gates = torch.add(x, r, out=self.gates[t])
        i, f, o, g = gates.chunk(4, dim=1)
        gates[:, : 3 * self.H].sigmoid_()
        tanh_(g)
        torch.mul(f, self.cs[before], out=self.cs[after]).addcmul_(i, g)
        squashed = self.squashed[t].copy_(self.cs[after])
        torch.mul(o, tanh_(squashed), out=self.hs[after])

    def hold(self, before: int, after: int, real: Tensor) -> None:
        """Keep h and c."""
        for states in (self.hs, self.cs):
            states[after] = torch.where(real, states[after], states[before])

    def open(self) -> None:
        """One tensor serves for both: the gates add x and r."""
        self.dx = self.dr = torch.empty_like(self.gates)

    def back(self, t: int, before: int, dh: Tensor, dc: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        """The gates' gradients; all that reaches h goes through r."""
        gates, grads = self.gates[t], self.dx[t]
        i, f, o, g = gates.chunk(4, dim=1)
        di, df, do, dg = grads.chunk(4, dim=1)
        through: Tensor = _tanh_backward(dh * o, self.squashed[t])
        dc = through if dc is None else through.add_(dc)
        torch.mul(dc, g, out=di)
        torch.mul(dc, self.cs[before], out=df)
        torch.mul(dh, self.squashed[t], out=do)
        torch.mul(dc, i, out=dg)
        sigmoids = 3 * self.H
        grads[:, :sigmoids] = _sigmoid_backward(grads[:, :sigmoids], gates[:, :sigmoids])
        grads[:, sigmoids:] = _tanh_backward(dg, g)
        return None, dc * f


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

    def open(self) -> None:
        """x and r meet the candidate in different ways."""
        self.dx, self.dr = torch.empty_like(self.gates), torch.empty_like(self.gates)

    def back(self, t: int, before: int, dh: Tensor, dc: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        """The gates' gradients; z * dh reaches h past r."""
        two = 2 * self.H
        gates, dx, dr = self.gates[t], self.dx[t], self.dr[t]
        reset, z, n = gates.chunk(3, dim=1)
        d_reset, dz, dn = dx.chunk(3, dim=1)
        past = dh * z
        torch.mul(dh, self.hs[before] - n, out=dz)
        dn.copy_(_tanh_backward(dh - past, n))
        torch.mul(dn, self.inner[t], out=d_reset)
        dx[:, :two] = _sigmoid_backward(dx[:, :two], gates[:, :two])
        dr[:, :two] = dx[:, :two]
        torch.mul(dn, reset, out=dr[:, two:])
        return past, None


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
        tape.open()
        product = Fixed(weight.t(), dh.size(0))
        for t in reversed(ctx.order):
            dh = dh + d_outputs[t]
            skipped = dh * ~real[t] if ctx.partial[t] else None
            skipped_c = dc * ~real[t] if ctx.partial[t] and dc is not None else None
            if ctx.partial[t]:
                dh, dc = dh * real[t], None if dc is None else dc * real[t]
            past, dc = tape.back(t, t + ctx.before, dh, dc)
            dh = product(tape.dr[t])
            if past is not None:
                dh += past
            if skipped is not None:
                dh = dh + skipped
            if skipped_c is not None and dc is not None:
                dc = dc + skipped_c
        flat = tape.dr.flatten(0, 1)
        earlier = tape.hs[ctx.before : len(ctx.order) + ctx.before].flatten(0, 1)
        d_bias = flat.sum(0) if ctx.biased else None
        state = (dh,) if dc is None else (dh, dc)
        if last_pass():  # or all of it would stay until the whole graph goes
            ctx.tape = None
        return None, tape.dx, flat.t() @ earlier, d_bias, None, None, *state


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
