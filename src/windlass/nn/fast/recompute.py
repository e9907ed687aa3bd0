"""Computing activations a second time in the backward pass instead of storing them (gradient checkpointing)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from windlass.nn.fast.switch import enabled, first_order

Outputs = tuple[Tensor, ...]


class _Recompute(Function):
    """Forward without a graph; backward builds it, with the same random numbers, and uses it at once."""

    @staticmethod
    def forward(ctx: Any, compute: Callable[[], Outputs], *weights: Tensor) -> Outputs:
        ctx.compute, ctx.random = compute, torch.get_rng_state()
        ctx.save_for_backward(*weights)
        return compute()  # a Function's forward builds no graph

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.random)
            outputs = ctx.compute()
        pairs = [(out, gradient) for out, gradient in zip(outputs, gradients, strict=True) if out.requires_grad]
        of_weights = torch.autograd.grad(
            [out for out, _ in pairs], ctx.saved_tensors, [gradient for _, gradient in pairs], allow_unused=True
        )
        return None, *of_weights


def recompute(compute: Callable[[], Outputs], weights: Sequence[Tensor]) -> Outputs:
    """The outputs of `compute`, with gradients for `weights` only, recomputed in the backward pass.

    Dropout is the same both times on a CPU; on other devices, where it would not be, the graph is stored as usual.

    >>> w = torch.tensor([3.0], requires_grad=True)
    >>> (square,) = recompute(lambda: (w * w,), [w])
    >>> torch.autograd.grad(square.sum(), [w])[0].item()
    6.0
    """
    trained = [weight for weight in weights if weight.requires_grad]
    if not (torch.is_grad_enabled() and trained and enabled()) or trained[0].device.type != "cpu":
        return compute()
    return _Recompute.apply(compute, *trained)  # type: ignore[no-any-return,no-untyped-call]
