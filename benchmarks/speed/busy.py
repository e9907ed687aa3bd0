"""Who else is using the machine: a figure of speed means nothing without it."""

from __future__ import annotations

import os
import time
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def others(seconds: float = 0.5) -> dict[str, float]:
    """The processes that took more than a twentieth of a core just now, and how much of one; empty elsewhere."""
    before = _used()
    time.sleep(seconds)
    shares = {pid: (used - before[pid][0]) / TICKS / seconds for pid, (used, _) in _used().items() if pid in before}
    return {f"{before[pid][1]} {pid}": round(s, 2) for pid, s in shares.items() if s > 0.05 and pid != os.getpid()}


def _used() -> dict[int, tuple[int, str]]:
    """CPU ticks and name of every process that Linux tells of."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
        except OSError:  # it has just ended
            continue
        fields = rest.split()
        found[int(stat.parent.name)] = (int(fields[11]) + int(fields[12]), name)
    return found
