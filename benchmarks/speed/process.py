"""A contestant's work as a process of its own, with a word on who else was using the machine."""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from contest import Job
from environments import Contestant, python
from tag_contest import TagJob

HERE = Path(__file__).parent
TICKS = os.sysconf("SC_CLK_TCK")


def run_one(contestant: Contestant, job: Job | TagJob, peers: Path) -> dict[str, Any]:
    """Run a contestant in its own environment; what goes wrong is part of the outcome."""
    threads = {name: str(job.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    before = {"load": [round(x, 2) for x in os.getloadavg()], "others": others()}
    cores = sorted(os.sched_getaffinity(0))[-job.threads :] if contestant.pinned else os.sched_getaffinity(0)
    done = subprocess.run(
        [python(contestant, peers), HERE / "contestants" / contestant.script, json.dumps(asdict(job))],
        capture_output=True,
        text=True,
        env={**os.environ, **threads, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])},
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("OUTCOME ")]
    if done.returncode or not lines:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        return {"failed": said[-1] if said else f"ended with {done.returncode}", **before}
    return {**json.loads(lines[-1].removeprefix("OUTCOME ")), **before}


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
