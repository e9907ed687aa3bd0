"""Products: with one weight at many steps, and by the fastest kernel there is.

`Product` is for steps, with a gradient that is taken once, after the last one. Back-propagation through time adds a
weight gradient at every step: a thin product and a pass over the whole matrix each time. Here a step only remembers its
input and its gradient; when the last step has been walked back through, one wide product gives the sum of them all. The
result is the same sum, in another order.

`Fixed`, `times` and `linear` multiply by oneDNN where it does such work.
"""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

# oneDNN keeps a compiled kernel of half a megabyte for every shape that it has met, up to 1,024 of them. A step needs
# about thirty; a shape that comes again later costs a millisecond. Read when oneDNN is first used, and not after.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")

Uses = list[tuple[int, Tensor, Tensor]]
"""Of every step walked back through: in which backward pass, its input, its gradient."""

_backward_pass = torch._C._current_graph_task_id


def last_pass() -> bool:
    """Inside a backward: whether nobody asked to keep the graph, so that what was kept for it can go at once.

    >>> last_pass()
    False
    """
    kept = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", None)
    return kept is not None and _backward_pass() >= 0 and not kept()


class _Weight(Function):
    """The weight as the steps see it. Its backward runs after that of every step."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, uses: Uses) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.uses = uses
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx: Any, *_: Tensor | None) -> tuple[Tensor | None, None]:
        # A pass that asked for other gradients only may have come by before; what it left is not ours.
        mine = [(x, gradient) for number, x, gradient in ctx.uses if number == _backward_pass()]
        ctx.uses.clear()
        if not mine:
            return None, None
        inputs, gradients = zip(*mine, strict=True)
        return torch.cat(gradients).t() @ torch.cat(inputs), None


class _Step(Function):
    """x W' + add; leaves the weight's gradient to `_Weight`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, add: Tensor | None, product: Product) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.product, ctx.added = product, add is not None
        if product.ahead is None:
            product.ahead = Fixed(weight, x.size(0))
        out = product.ahead(x)
        return out if add is None else out.add_(add)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, None, Tensor | None, None]:
        (gradient,) = gradients
        x, weight = ctx.saved_tensors
        product: Product = ctx.product
        product.uses.append((_backward_pass(), x, gradient))
        if product.back is None:
            product.back = Fixed(weight.t(), x.size(0))
        return (
            (product.back(gradient) if ctx.needs_input_grad[0] else None),
            None,
            gradient if ctx.added else None,
            None,
        )


class Product:
    """x -> x W' (+ add) for x (N, I) and W (O, I); make one for a sequence, use it at every step.

    >>> w = torch.tensor([[2.0, 3.0]], requires_grad=True)
    >>> product = Product(w)
    >>> (product(torch.ones(1, 2)) + product(torch.ones(1, 2), add=torch.ones(1, 1))).item()
    11.0
    >>> (product(torch.ones(1, 2)) + product(torch.tensor([[0.0, 5.0]]))).backward()
    >>> w.grad.tolist()
    [[1.0, 6.0]]
    """

    def __init__(self, weight: Tensor):
        self.uses: Uses = []
        self.ahead: Fixed | None = None  # made at the first step, where there is one
        self.back: Fixed | None = None
        self.deferred = torch.is_grad_enabled() and weight.requires_grad
        self.weight: Tensor = _Weight.apply(weight, self.uses) if self.deferred else weight  # type: ignore[no-untyped-call]

    def __call__(self, x: Tensor, add: Tensor | None = None) -> Tensor:
        """Multiply, and add if told."""
        if self.deferred:
            out: Tensor = _Step.apply(x, self.weight, add, self)  # type: ignore[no-untyped-call]
            return out
        return x @ self.weight.t() if add is None else torch.addmm(add, x, self.weight.t())


class Taken(Product):
    """A product that has been taken already, for a cell that asks for it; `whole`: what it would add is in it too.

    >>> Taken(torch.ones(1, 2), whole=False)(torch.zeros(1, 9), add=torch.ones(1, 2)).tolist()
    [[2.0, 2.0]]
    """

    def __init__(self, outcome: Tensor, whole: bool):
        self.outcome, self.whole = outcome, whole

    def __call__(self, x: Tensor, add: Tensor | None = None) -> Tensor:
        """The outcome."""
        return self.outcome if self.whole or add is None else self.outcome + add


def packs(tensor: Tensor) -> bool:
    """Whether oneDNN multiplies tensors like this one: there it is a tenth faster, and a third with a packed weight.

    >>> packs(torch.zeros(2, 2, dtype=torch.float64))
    False
    """
    there = torch.backends.mkldnn.is_available() and bool(torch._C._get_mkldnn_enabled())
    return there and tensor.dtype == torch.float32 and tensor.device.type == "cpu"


def _multiplied(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    out: Tensor = torch.ops.mkldnn._linear_pointwise.default(x, weight, bias, "none", [], "")
    return out


def _dense(matrix: Tensor) -> Tensor:
    """A matrix without gaps between its rows (or columns), for which alone oneDNN has fast kernels."""
    if matrix.is_contiguous() or matrix.t().is_contiguous():
        return matrix
    # Along its rows, or its columns: a copy that turns a matrix round takes three times as long.
    return matrix.contiguous() if matrix.stride(1) <= matrix.stride(0) else matrix.t().contiguous().t()


class Fixed:
    """x -> x W' (+ bias) without gradients, for a weight (O, I) that many inputs of so many rows meet as it is now.

    Where oneDNN does the work, the weight is laid out for it once.

    >>> Fixed(torch.tensor([[2.0, 3.0]]), rows=1)(torch.ones(1, 2), torch.ones(1)).tolist()
    [[6.0]]
    """

    def __init__(self, weight: Tensor, rows: int):
        weight = weight.detach()
        self.packed = packs(weight) and weight.numel() > 0
        self.weight = torch.ops.mkldnn._reorder_linear_weight(_dense(weight), rows) if self.packed else weight.t()

    def __call__(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """Multiply, and add a bias (O,) if told."""
        if self.packed:
            return _multiplied(_dense(x), self.weight, bias)
        return x @ self.weight if bias is None else torch.addmm(bias, x, self.weight)


def times(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W' (+ bias) without gradients, for x (N, I) and W (O, I), by oneDNN where it does such work.

    >>> times(torch.ones(1, 2), torch.tensor([[2.0, 3.0]])).tolist()
    [[5.0]]
    """
    if packs(x) and x.numel() and weight.numel():
        return _multiplied(_dense(x), _dense(weight), bias)
    return x @ weight.t() if bias is None else torch.addmm(bias, x, weight.t())


class _Linear(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return times(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        x, weight = ctx.saved_tensors
        wants_x, wants_weight, wants_bias = ctx.needs_input_grad
        return (
            times(gradient, weight.t()) if wants_x else None,
            gradient.t() @ x if wants_weight else None,
            gradient.sum(0) if wants_bias else None,
        )


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """What `torch.nn.functional.linear` gives, in training by oneDNN where it does such work: (..., I) -> (..., O).

    >>> linear(torch.ones(1, 1, 2), torch.tensor([[2.0, 3.0]], requires_grad=True)).tolist()
    [[[5.0]]]
    """
    if not (torch.is_grad_enabled() and packs(x) and x.numel()):
        return F.linear(x, weight, bias)
    flat = _Linear.apply(x.reshape(-1, x.size(-1)), weight, bias)  # type: ignore[no-untyped-call]
    out: Tensor = flat.unflatten(0, x.shape[:-1])
    return out
