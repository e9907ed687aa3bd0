"""The switch that turns every fast path off, and what a fast path refuses: gradients of its gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeVar

import torch

Result = TypeVar("Result")
_enabled = ContextVar("fast paths enabled", default=True)


def enabled() -> bool:
    """Whether fast paths may be taken here.

    >>> enabled()
    True
    """
    return _enabled.get()


@contextmanager
def disabled() -> Iterator[None]:
    """Inside, everything runs on plain torch operations, one step at a time: the reference for every fast path.

    >>> with disabled():
    ...     enabled()
    False
    """
    token = _enabled.set(False)
    try:
        yield
    finally:
        _enabled.reset(token)


def first_order(backward: Callable[..., Result]) -> Callable[..., Result]:
    """A `backward` by hand that refuses to be differentiated, as its own gradients would be wrong without a word.

    torch's `once_differentiable` raises only where the second gradient passes through this very step.

    >>> with torch.enable_grad():
    ...     first_order(lambda ctx, gradient: gradient)(None, torch.ones(1))
    Traceback (most recent call last):
    RuntimeError: fast paths have no gradients of gradients: run inside windlass.nn.fast.disabled()
    """

    @wraps(backward)
    def checked(ctx: Any, *gradients: torch.Tensor) -> Result:
        if torch.is_grad_enabled():  # with create_graph=True
            raise RuntimeError("fast paths have no gradients of gradients: run inside windlass.nn.fast.disabled()")
        return backward(ctx, *gradients)

    return checked
