"""Matrix products by oneDNN, which torch carries: a tenth faster than torch's own, a third with a packed weight.

In mixed precision the same products have factors of bfloat16, on any device, and float32 on both sides.

`usable` is the one place that says whether oneDNN multiplies a tensor. If not (another type or device, a build of torch
without it or with other operations, fast paths disabled), training and inference take torch's own product.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

from windlass.nn.fast.precision import mixed, pays
from windlass.nn.fast.switch import enabled, first_order

_CAPACITY = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"


def usable(tensor: Tensor) -> bool:
    """Whether oneDNN multiplies tensors like this one.

    >>> usable(torch.zeros(2, 2, dtype=torch.float64))
    False
    """
    return (
        (tensor.dtype == torch.float32 or (tensor.dtype == torch.bfloat16 and pays()))
        and tensor.device.type == "cpu"
        and enabled()
        and bool(torch._C._get_mkldnn_enabled())
        and works()
    )


@cache
def works() -> bool:
    """Probe oneDNN, once for a process: whether the operations that torch's compiler uses exist and are right.

    >>> works() in (True, False)
    True
    """
    if not torch.backends.mkldnn.is_available():
        return False
    weight = torch.linspace(-1, 1, 32).view(8, 4)
    x = torch.linspace(0, 1, 8).view(2, 4)
    # oneDNN sizes its cache of kernels when it compiles the first one. It keeps half a megabyte for every shape that it
    # has met, up to 1,024 of them. A training step needs about thirty; compiling one again costs a millisecond. A
    # capacity that the user has set stays.
    bound = _CAPACITY not in os.environ
    if bound:
        os.environ[_CAPACITY] = "64"
    try:
        product = multiply(x, reorder(weight), None)
    except (AttributeError, RuntimeError, NotImplementedError):
        return False
    finally:
        if bound:
            del os.environ[_CAPACITY]
    return torch.allclose(product, x @ weight.t(), atol=1e-4)


LARGEST = 2**25 - 2**16
"""Bytes of the largest block that glibc, left to itself, learns to keep (a little under 32 MB)."""


def prepare_training() -> None:
    """Bound oneDNN's cache of kernels, and let the C library keep freed blocks for the next step.

    glibc maps large blocks from the system and returns them when they are freed, page by page, unless it has seen a
    block of that size come and go; then it keeps up to twice that size. A training step frees and takes the same blocks
    over and over, so the process shows it one early. This is glibc's own rule at work: no setting is changed, and a
    block of more than 64 MB still goes back at once.

    >>> prepare_training()
    """
    if enabled():
        works()
        torch.empty(LARGEST, dtype=torch.uint8)  # freed at once


def reorder(weight: Tensor, rows: int | None = None) -> Tensor:
    """A weight (O, I) in oneDNN's own layout, an opaque tensor; best for inputs of `rows` rows.

    >>> reorder(torch.ones(3, 2)).is_mkldnn if works() else True
    True
    """
    laid_out: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, rows)
    return laid_out


def multiply(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x W' + b for a plain or reordered weight, by oneDNN.

    >>> multiply(torch.ones(1, 2), torch.ones(1, 2), None).item() if works() else 2.0
    2.0
    """
    product: Tensor = torch.ops.mkldnn._linear_pointwise.default(x, weight, bias, "none", [], "")
    return product


def _dense(matrix: Tensor) -> Tensor:
    """A matrix without gaps between its rows (or columns): oneDNN has no fast kernels for others."""
    if matrix.is_contiguous() or matrix.t().is_contiguous():
        return matrix
    # Along its rows, or its columns: a copy that transposes takes three times as long.
    return matrix.contiguous() if matrix.stride(1) <= matrix.stride(0) else matrix.t().contiguous().t()


class FixedWeight:
    """x -> x W' (+ bias) without gradients, for a weight (O, I) that multiplies many inputs of the same number of rows.

    The weight is laid out once.

    >>> FixedWeight(torch.tensor([[2.0, 3.0]]), rows=1)(torch.ones(1, 2), torch.ones(1)).tolist()
    [[6.0]]
    """

    def __init__(self, weight: Tensor, rows: int):
        weight = weight.detach()
        self.mixed = mixed() and weight.dtype == torch.float32
        if self.mixed:
            weight = weight.bfloat16()
        self.reordered = weight.numel() > 0 and usable(weight)
        self.weight = reorder(_dense(weight), rows) if self.reordered else weight.t()

    def __call__(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """Multiply, and add a bias (O,) if set."""
        if self.mixed:
            x = x.bfloat16()
            product = (multiply(_dense(x), self.weight, None) if self.reordered else x @ self.weight).float()
            return product if bias is None else product.add_(bias)
        if self.reordered:
            return multiply(_dense(x), self.weight, bias)
        return x @ self.weight if bias is None else torch.addmm(bias, x, self.weight)


def matmul(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W' (+ bias) without gradients, for x (N, I) and W (O, I).

    >>> matmul(torch.ones(1, 2), torch.tensor([[2.0, 3.0]])).tolist()
    [[5.0]]
    """
    if mixed() and x.dtype == torch.float32:
        product = (x.bfloat16() @ weight.bfloat16().t()).float()
        return product if bias is None else product.add_(bias)
    if x.numel() and weight.numel() and usable(x):
        return multiply(_dense(x), _dense(weight), bias)
    return x @ weight.t() if bias is None else torch.addmm(bias, x, weight.t())


def weight_gradient(gradient: Tensor, x: Tensor) -> Tensor:
    """The gradient of a weight from that of its products (N, O) and its inputs (N, I): (O, I).

    >>> weight_gradient(torch.ones(5, 3), torch.ones(5, 4)).shape
    torch.Size([3, 4])
    """
    if mixed() and x.dtype == torch.float32:
        return (gradient.bfloat16().t() @ x.bfloat16()).float()
    return gradient.t() @ x


class _Linear(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return matmul(x, weight, bias)

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        return (
            matmul(gradient, weight.t()) if needs_x else None,
            weight_gradient(gradient, x) if needs_weight else None,
            gradient.sum(0) if needs_bias else None,
        )


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`torch.nn.functional.linear`, in training by oneDNN: (..., I) -> (..., O).

    >>> linear(torch.ones(1, 1, 2), torch.tensor([[2.0, 3.0]], requires_grad=True)).tolist()
    [[[5.0]]]
    """
    if not (torch.is_grad_enabled() and x.numel() and (usable(x) or mixed())):
        return F.linear(x, weight, bias)
    flat = _Linear.apply(x.reshape(-1, x.size(-1)), weight, bias)  # type: ignore[no-untyped-call]
    out: Tensor = flat.unflatten(0, x.shape[:-1])
    return out
