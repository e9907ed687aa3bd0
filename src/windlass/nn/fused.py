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

_sigmoid_backward = torch.ops.aten.sigmoid_backward
_tanh_backward = torch.ops.aten.tanh_backward


class _Places:
    """In which order a recurrence walks, where it keeps its states, and which places are not real in every row."""

    def __init__(self, steps: int, real: Tensor | None, reverse: bool):
        self.order = range(steps - 1, -1, -1) if reverse else range(steps)
        # A table of S + 1 states: the start is its first one, or, walking back, its last.
        self.start, self.end = (steps, 0) if reverse else (0, steps)
        self.before, self.after = (1, 0) if reverse else (0, 1)  # of the state before and after time t: t + this
        self.real = real  # (S, B, 1)
        self.partial = [False] * steps if real is None else (~real.flatten(1).all(1)).tolist()

    def hold(self, t: int, new: Tensor, old: Tensor) -> None:
        """Put the old state back where the place is not real."""
        if self.partial[t] and self.real is not None:
            new.copy_(torch.where(self.real[t], new, old))

    def part(self, t: int, gradient: Tensor) -> tuple[Tensor, Tensor | None]:
        """Split a gradient of the new state: what goes through the step, and what goes past it."""
        if not self.partial[t] or self.real is None:
            return gradient, None
        return gradient * self.real[t], gradient * ~self.real[t]


def _sum(gradient: Tensor, past: Tensor | None) -> Tensor:
    return gradient if past is None else gradient + past


class _LSTM(Function):
    @staticmethod
    def forward(
        ctx: Any, projected: Tensor, h: Tensor, c: Tensor, weight: Tensor, real: Tensor | None, reverse: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        S, B, H = projected.size(0), h.size(0), h.size(1)
        places = _Places(S, real, reverse)
        gates = torch.empty_like(projected, memory_format=torch.contiguous_format)  # i, f, o, g
        hs, cs = h.new_empty(S + 1, B, H), h.new_empty(S + 1, B, H)
        squashed = h.new_empty(S, B, H)  # tanh(c')
        hs[places.start], cs[places.start] = h, c
        turned = weight.t()
        for t in places.order:
            before, after = t + places.before, t + places.after
            torch.addmm(projected[t], hs[before], turned, out=gates[t])
            gates[t, :, : 3 * H].sigmoid_()
            gates[t, :, 3 * H :].tanh_()
            i, f, o, g = gates[t].chunk(4, dim=1)
            torch.mul(f, cs[before], out=cs[after]).addcmul_(i, g)
            torch.tanh(cs[after], out=squashed[t])
            torch.mul(o, squashed[t], out=hs[after])
            places.hold(t, hs[after], hs[before])
            places.hold(t, cs[after], cs[before])
        ctx.save_for_backward(weight, gates, hs, cs, squashed)
        ctx.places = places
        outputs = hs[places.after : S + places.after]
        return outputs, hs[places.end].clone(), cs[places.end].clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        d_outputs, dh, dc = gradients
        weight, gates, hs, cs, squashed = ctx.saved_tensors
        places: _Places = ctx.places
        S, H = gates.size(0), hs.size(2)
        d_gates = torch.empty_like(gates)
        for t in reversed(places.order):
            i, f, o, g = gates[t].chunk(4, dim=1)
            di, df, do, dg = d_gates[t].chunk(4, dim=1)
            dh, dh_past = places.part(t, dh + d_outputs[t])
            dc, dc_past = places.part(t, dc)
            dc = dc + _tanh_backward(dh * o, squashed[t])
            torch.mul(dc, g, out=di)
            torch.mul(dc, cs[t + places.before], out=df)
            torch.mul(dh, squashed[t], out=do)
            torch.mul(dc, i, out=dg)
            d_gates[t, :, : 3 * H] = _sigmoid_backward(d_gates[t, :, : 3 * H], gates[t, :, : 3 * H])
            d_gates[t, :, 3 * H :] = _tanh_backward(dg, g)
            dh = _sum(d_gates[t] @ weight, dh_past)
            dc = _sum(dc * f, dc_past)
        earlier = hs[places.before : S + places.before]
        d_weight = d_gates.flatten(0, 1).t() @ earlier.flatten(0, 1)
        return d_gates, dh, dc, d_weight, None, None


class _GRU(Function):
    @staticmethod
    def forward(
        ctx: Any, projected: Tensor, h: Tensor, weight: Tensor, bias: Tensor, real: Tensor | None, reverse: bool
    ) -> tuple[Tensor, Tensor]:
        S, B, H = projected.size(0), h.size(0), h.size(1)
        places = _Places(S, real, reverse)
        gates = torch.empty_like(projected, memory_format=torch.contiguous_format)  # r, z, n
        inner = h.new_empty(S, B, H)  # U_n h + b_h
        hs = h.new_empty(S + 1, B, H)
        hs[places.start] = h
        turned = weight.t()
        for t in places.order:
            before, after = t + places.before, t + places.after
            recurrent = hs[before] @ turned
            torch.add(projected[t, :, : 2 * H], recurrent[:, : 2 * H], out=gates[t, :, : 2 * H]).sigmoid_()
            r, z, n = gates[t].chunk(3, dim=1)
            torch.add(recurrent[:, 2 * H :], bias, out=inner[t])
            torch.addcmul(projected[t, :, 2 * H :], r, inner[t], out=n).tanh_()
            torch.lerp(n, hs[before], z, out=hs[after])
            places.hold(t, hs[after], hs[before])
        ctx.save_for_backward(weight, gates, inner, hs)
        ctx.places = places
        return hs[places.after : S + places.after], hs[places.end].clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        d_outputs, dh = gradients
        weight, gates, inner, hs = ctx.saved_tensors
        places: _Places = ctx.places
        S, H = gates.size(0), hs.size(2)
        d_projected = torch.empty_like(gates)
        d_recurrent = torch.empty_like(gates)
        for t in reversed(places.order):
            h = hs[t + places.before]
            r, z, n = gates[t].chunk(3, dim=1)
            dr, dz, dn = d_projected[t].chunk(3, dim=1)
            dh, past = places.part(t, dh + d_outputs[t])
            torch.mul(dh, h - n, out=dz)
            kept = dh * z
            dn.copy_(_tanh_backward(dh - kept, n))
            torch.mul(dn, inner[t], out=dr)
            d_projected[t, :, : 2 * H] = _sigmoid_backward(d_projected[t, :, : 2 * H], gates[t, :, : 2 * H])
            d_recurrent[t, :, : 2 * H] = d_projected[t, :, : 2 * H]
            torch.mul(dn, r, out=d_recurrent[t, :, 2 * H :])
            dh = _sum(torch.addmm(kept, d_recurrent[t], weight), past)
        earlier = hs[places.before : S + places.before]
        flat = d_recurrent.flatten(0, 1)
        d_weight = flat.t() @ earlier.flatten(0, 1)
        return d_projected, dh, d_weight, flat[:, 2 * H :].sum(0), None, None


def lstm(
    projected: Tensor, state: tuple[Tensor, Tensor], weight: Tensor, real: Tensor | None, reverse: bool
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Run an LSTM over projected inputs (S, B, 4H); real (S, B, 1); return outputs (S, B, H) and the last (h, c).

    >>> zeros = torch.zeros(2, 3)
    >>> outputs, (h, c) = lstm(torch.randn(5, 2, 12), (zeros, zeros), torch.randn(12, 3), None, reverse=False)
    >>> torch.equal(outputs[-1], h)
    True
    """
    outputs, h, c = _LSTM.apply(projected, *state, weight, real, reverse)  # type: ignore[no-untyped-call]
    return outputs, (h, c)


def gru(
    projected: Tensor, state: tuple[Tensor], weight: Tensor, bias: Tensor, real: Tensor | None, reverse: bool
) -> tuple[Tensor, tuple[Tensor]]:
    """Run a GRU with the reset gate after the product over projected inputs (S, B, 3H).

    >>> outputs, (h,) = gru(torch.randn(5, 2, 9), (torch.zeros(2, 3),), torch.randn(9, 3), torch.zeros(3), None, True)
    >>> torch.equal(outputs[0], h)
    True
    """
    outputs, h = _GRU.apply(projected, *state, weight, bias, real, reverse)  # type: ignore[no-untyped-call]
    return outputs, (h,)
