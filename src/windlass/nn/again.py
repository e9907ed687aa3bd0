"""Computing a thing twice rather than remembering it: memory that does not grow with what is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

Made = tuple[Tensor, ...]


class _Again(Function):
    """Forward without a graph; backward makes it, with the random numbers of the first time, and walks it at once."""

    @staticmethod
    def forward(ctx: Any, make: Callable[[], Made], *weights: Tensor) -> Made:
        ctx.make, ctx.random = make, torch.get_rng_state()
        ctx.save_for_backward(*weights)
        return make()  # no graph is made in here

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.random)
            made = ctx.make()
        pairs = [(part, gradient) for part, gradient in zip(made, gradients, strict=True) if part.requires_grad]
        found = torch.autograd.grad(
            [part for part, _ in pairs], ctx.saved_tensors, [gradient for _, gradient in pairs], allow_unused=True
        )
        return None, *found


def again(make: Callable[[], Made], weights: Sequence[Tensor]) -> Made:
    """What `make` gives, whose gradients with respect to `weights` are found by making it a second time.

    Nothing else that `make` looks at gets a gradient. Dropout is the same both times (on a CPU; elsewhere it would
    not be, so there a graph is kept as usual).

    >>> w = torch.tensor([3.0], requires_grad=True)
    >>> (square,) = again(lambda: (w * w,), [w])
    >>> torch.autograd.grad(square.sum(), [w])[0].item()
    6.0
    """
    wanted = [weight for weight in weights if weight.requires_grad]
    if not (torch.is_grad_enabled() and wanted) or wanted[0].device.type != "cpu":
        return make()
    return _Again.apply(make, *wanted)  # type: ignore[no-any-return,no-untyped-call]
