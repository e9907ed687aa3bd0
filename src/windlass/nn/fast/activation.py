"""tanh as 2 sigmoid(2x) - 1: on a CPU, torch's sigmoid takes a sixth of the time of its tanh."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from windlass.nn.fast.switch import enabled

_tanh_backward = torch.ops.aten.tanh_backward.default
_MINUS_ONE = torch.tensor(-1.0)


def tanh_(x: Tensor) -> Tensor:
    """tanh in place, without gradients.

    >>> tanh_(torch.tensor([0.0])).item()
    0.0
    """
    if x.device.type != "cpu" or not enabled():
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
        gradient: Tensor = _tanh_backward(gradients[0], y)
        return gradient


def tanh(x: Tensor) -> Tensor:
    """tanh.

    >>> x = torch.ones(1, requires_grad=True)
    >>> y = tanh(x)
    >>> y.backward()
    >>> bool(torch.allclose(y, x.tanh())), bool(torch.allclose(x.grad, 1 - y**2))
    (True, True)
    """
    if x.device.type != "cpu" or not enabled():
        return torch.tanh(x)
    if torch.is_grad_enabled() and x.requires_grad:
        y: Tensor = _Tanh.apply(x)  # type: ignore[no-untyped-call]
        return y
    twice = (x + x).sigmoid_()
    return torch.add(_MINUS_ONE, twice, alpha=2, out=twice)
