"""Graceful stop: Ctrl-C and SIGTERM request a stop, which the run follows when its state can be saved."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """Whether the run should stop.

    >>> stop = StopRequest()
    >>> with stop.immediately():
    ...     stop.requested
    False
    """

    def __init__(self) -> None:
        self.requested = False
        self._immediate = False

    @contextmanager
    def immediately(self) -> Iterator[None]:
        """Raise KeyboardInterrupt at the first signal inside the block, because nothing in it needs to finish."""
        self._immediate = not self.requested
        try:
            yield
        finally:
            self._immediate = False

    def handle_signal(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal: the first requests a stop, a second Ctrl-C quits."""
        second = self.requested and number == signal.SIGINT
        self.requested = True
        if second or self._immediate:
            self._immediate = False
            raise KeyboardInterrupt


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Turn Ctrl-C and SIGTERM into a stop request inside the block. Only the main thread receives signals.

    >>> import os
    >>> with stop_on_signals() as stop:
    ...     os.kill(os.getpid(), signal.SIGINT)
    ...     stop.requested
    True
    """
    stop = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, stop.handle_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
