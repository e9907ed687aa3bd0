"""The switch that turns every fast path off."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

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
