"""Recurrences whose state is multiplied by no matrix, over whole sequences: running averages with a gate for each unit.

On a CPU the scan is a loop of one to three elementwise operations a step, with gradients by hand; elsewhere, where the
launch of an operation costs more than its work, it is two cumulative operations in log space (Heinsen 2023). Time comes
first: (S, B, H). A gate of 0 keeps the state, which is how padding is read.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

from windlass.nn.fast.switch import first_order

LOG_ZERO = -1e30
"""Finite: the gradient of logcumsumexp is NaN where a column begins with -inf."""


def gated_average(logit: Tensor, new: Tensor, start: Tensor, real: Tensor | None) -> Tensor:
    """All states of h' = (1 - z) * h + z * g(new), with z = sigmoid(logit): (S + 1, B, H).

    g(a) = a + 1/2 where a >= 0, sigmoid(a) elsewhere: positive, as log space needs it (Feng et al. 2024).

    The first state is `start` (B, H). Where `real` (S, B, 1) is False the state stays.

    >>> half = torch.zeros(2, 1, 1)
    >>> gated_average(half, torch.tensor([7.5, 3.5]).view(2, 1, 1), torch.zeros(1, 1), None).flatten().tolist()
    [0.0, 4.0, 4.0]
    """
    if logit.device.type != "cpu":
        return log_average(logit, new, start, real)
    states: Tensor = _GatedAverage.apply(logit, new, start, real)  # type: ignore[no-untyped-call]
    return states


def log_average(logit: Tensor, new: Tensor, start: Tensor, real: Tensor | None) -> Tensor:
    """`gated_average` in log space.

    >>> half = torch.zeros(2, 1, 1)
    >>> log_average(half, torch.tensor([7.5, 3.5]).view(2, 1, 1), torch.zeros(1, 1), None).flatten().tolist()
    [0.0, 4.0, 4.0]
    """
    log_keep, log_take = F.logsigmoid(-logit), F.logsigmoid(logit)
    if real is not None:
        log_keep, log_take = log_keep * real, log_take.masked_fill(~real, LOG_ZERO)
    return log_scan(log_keep, log_take + log_positive(new), start)


def positive(x: Tensor) -> Tensor:
    """g(x) = x + 1/2 where x >= 0, sigmoid(x) elsewhere.

    >>> positive(torch.tensor([2.0, 0.0])).tolist()
    [2.5, 0.5]
    """
    return torch.sigmoid(x.clamp(max=0)) + torch.relu(x)  # torch.where takes three times as long


def log_positive(x: Tensor) -> Tensor:
    """log g(x).

    >>> log_positive(torch.tensor([0.5, -200.0])).tolist()
    [0.0, -200.0]
    """
    return torch.where(x < 0, F.logsigmoid(x), torch.log(torch.relu(x) + 0.5))


def log_scan(log_keep: Tensor, log_add: Tensor, start: Tensor) -> Tensor:
    """All states of h' = exp(log_keep) * h + exp(log_add), in log space (Heinsen 2023): (S + 1, B, H).

    A_t = log_keep_1 + ... + log_keep_t        h_t = exp(A_t) h_0 + exp(A_t + logcumsumexp(log_add - A)_t)

    >>> log_scan(torch.tensor([0.5, 0.5]).log(), torch.tensor([4.0, 1.0]).log(), torch.tensor(2.0)).tolist()
    [2.0, 5.0, 3.5...]
    """
    kept = log_keep.cumsum(0)
    added = torch.exp(kept + torch.logcumsumexp(log_add - kept, 0))
    return torch.cat([start[None], kept.exp() * start + added])


def _back(jacobian: Tensor, gradients: Tensor) -> Tensor:
    """The gradients of S + 1 states: each gets its own and, through the elementwise Jacobian, that of the next."""
    total = torch.empty_like(gradients)
    into, own, through = total.unbind(0), gradients.unbind(0), jacobian.unbind(0)
    into[-1].copy_(own[-1])
    for t in range(len(through) - 1, -1, -1):
        torch.addcmul(own[t], through[t], into[t + 1], out=into[t])
    return total


class _GatedAverage(Function):
    """h' = h + sigmoid(x) * (g(a) - h)."""

    @staticmethod
    def forward(ctx: Any, logit: Tensor, new: Tensor, start: Tensor, real: Tensor | None) -> Tensor:
        gate, n = torch.sigmoid(logit), positive(new)
        if real is not None:
            gate.mul_(real)
        states = n.new_empty(n.size(0) + 1, *start.shape)
        h = states.unbind(0)
        h[0].copy_(start)
        for t, (n_t, z) in enumerate(zip(n.unbind(0), gate.unbind(0), strict=True)):
            torch.lerp(h[t], n_t, z, out=h[t + 1])
        ctx.save_for_backward(gate, n, states)
        return states

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """dg/da is 1 where g >= 1/2, and g (1 - g) elsewhere."""
        gate, n, states = ctx.saved_tensors
        keep = 1 - gate
        total = _back(keep, gradients[0])
        d_n = gate * total[1:]
        d_logit = (n - states[:-1]).mul_(d_n).mul_(keep)
        low = n.clamp(max=0.5)
        slope = torch.addcmul(0.75 * (n >= 0.5), low, 1 - low)
        return d_logit, slope.mul_(d_n), total[0], None


class _PeepholeAverage(Function):
    """f = sigmoid(x + v * c), c' = f * c + (1 - f) * n."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, peephole: Tensor, new: Tensor, start: Tensor, real: Tensor | None) -> Tensor:
        states, gate = new.new_empty(new.size(0) + 1, *start.shape), torch.empty_like(new)
        c = states.unbind(0)
        c[0].copy_(start)
        padding = [None] * len(x) if real is None else (~real).unbind(0)
        steps = zip(x.unbind(0), new.unbind(0), gate.unbind(0), padding, strict=True)
        for t, (x_t, n, f, pad) in enumerate(steps):
            torch.addcmul(x_t, peephole, c[t], out=f).sigmoid_()
            if pad is not None:
                f.masked_fill_(pad, 1.0)
            torch.lerp(n, c[t], f, out=c[t + 1])
        ctx.save_for_backward(gate, peephole, new, states)
        return states

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        gate, peephole, new, states = ctx.saved_tensors
        before, shut = states[:-1], 1 - gate
        sensitivity = (before - new).mul_(gate).mul_(shut)  # of c' to the gate's input; 0 on padding, where f is 1
        total = _back(torch.addcmul(gate, sensitivity, peephole), gradients[0])
        d_x = sensitivity.mul_(total[1:])
        return d_x, (d_x * before).sum((0, 1)), shut.mul_(total[1:]), total[0], None


def peephole_average(x: Tensor, peephole: Tensor, new: Tensor, start: Tensor, real: Tensor | None) -> Tensor:
    """All states of c' = f * c + (1 - f) * n, with f = sigmoid(x + peephole * c): (S + 1, B, H).

    >>> x, v, n = torch.zeros(2, 1, 1), torch.zeros(1), torch.tensor([8.0, 4.0]).view(2, 1, 1)
    >>> peephole_average(x, v, n, torch.zeros(1, 1), None).flatten().tolist()
    [0.0, 4.0, 4.0]
    """
    states: Tensor = _PeepholeAverage.apply(x, peephole, new, start, real)  # type: ignore[no-untyped-call]
    return states
