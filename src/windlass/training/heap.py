"""Giving memory back that lies idle between what is in use.

A step takes and frees some hundred blocks of many sizes, and small things that stay come to lie between them. The next
batch is longer or shorter and fits into few of the gaps, so that the heap grows although a step needs no more.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

ALLOWED = 24 * 2**20
"""Bytes of gaps that are left alone: giving them back takes time, and so does taking them again."""


class Heap:
    """The memory of this process, where the system tells of it: glibc on Linux; elsewhere nothing is done.

    >>> heap = Heap()
    >>> heap.before(8), heap.before(4)
    (True, False)
    """

    def __init__(self) -> None:
        self.largest = -1  # the size of the largest step so far
        self.needed = 0  # the most that was ever in use between the way forward and the way back
        self.told = Path("/proc/self/statm")
        self.page = os.sysconf("SC_PAGESIZE") if self.told.exists() else 0
        self.trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if self.page else None

    def before(self, size: int) -> bool:
        """Before a step of a size (any that grows with its need): give gaps back if it is the largest; tell whether."""
        if self.trim is None or size <= self.largest:
            return False
        self.largest = size
        self.trim(0)
        return True

    def between(self) -> bool:
        """Between the ways forward and back, when most is in use: give gaps back if they have grown; tell whether."""
        if self.trim is None or self.resident() <= self.needed + ALLOWED:
            return False
        self.trim(0)
        self.needed = max(self.needed, self.resident())
        return True

    def resident(self) -> int:
        """Bytes that this process holds in memory."""
        return int(self.told.read_text().split()[1]) * self.page
