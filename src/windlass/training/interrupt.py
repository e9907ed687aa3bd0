"""Ctrl-C and SIGTERM as a wish to stop, granted when the run is in a state to be saved."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stop:
    """Whether someone wants the run to stop.

    >>> stop = Stop()
    >>> with stop.at_once():
    ...     stop.asked
    False
    """

    def __init__(self) -> None:
        self.asked = False
        self._at_once = False

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Inside, the first signal raises KeyboardInterrupt too: nothing there needs to be finished."""
        self._at_once = not self.asked
        try:
            yield
        finally:
            self._at_once = False

    def signalled(self, number: int, frame: FrameType | None) -> None:
        """Take a signal: the first one asks, a second Ctrl-C quits."""
        again = self.asked and number == signal.SIGINT
        self.asked = True
        if again or self._at_once:
            self._at_once = False
            raise KeyboardInterrupt


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """Inside, Ctrl-C and SIGTERM ask to stop. A thread other than the main one takes no signals.

    >>> import os
    >>> with stop_on_signals() as stop:
    ...     os.kill(os.getpid(), signal.SIGINT)
    ...     stop.asked
    True
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, stop.signalled) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
