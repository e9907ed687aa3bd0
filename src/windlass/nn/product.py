"""Products with one weight at many steps, whose gradient is taken once, after the last step.

Back-propagation through time adds a weight gradient at every step: a thin product and a pass over the whole
matrix each time. Here a step only remembers its input and its gradient; when the last step has been walked back
through, one wide product gives the sum of them all. The result is the same sum, in another order.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

Uses = list[tuple[int, Tensor, Tensor]]
"""Of every step walked back through: in which backward pass, its input, its gradient."""

_backward_pass = torch._C._current_graph_task_id


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
    def forward(ctx: Any, x: Tensor, weight: Tensor, add: Tensor | None, uses: Uses) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.uses, ctx.added = uses, add is not None
        return x @ weight.t() if add is None else torch.addmm(add, x, weight.t())

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, None, Tensor | None, None]:
        (gradient,) = gradients
        x, weight = ctx.saved_tensors
        ctx.uses.append((_backward_pass(), x, gradient))
        return (
            (gradient @ weight if ctx.needs_input_grad[0] else None),
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
        self.deferred = torch.is_grad_enabled() and weight.requires_grad
        self.weight: Tensor = _Weight.apply(weight, self.uses) if self.deferred else weight  # type: ignore[no-untyped-call]

    def __call__(self, x: Tensor, add: Tensor | None = None) -> Tensor:
        """Multiply, and add if told."""
        if self.deferred:
            out: Tensor = _Step.apply(x, self.weight, add, self.uses)  # type: ignore[no-untyped-call]
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
