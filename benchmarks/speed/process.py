"""A contestant's work as a process of its own, with a word on who else was using the machine."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from contest import Job
from environments import Contestant, python
from tag_contest import TagJob

HERE = Path(__file__).parent
TICKS = os.sysconf("SC_CLK_TCK")
REST = 0.02  # seconds before a turn: threads that wait for work keep a core busy for some milliseconds


def run_one(contestant: Contestant, job: Job | TagJob, peers: Path) -> dict[str, Any]:
    """Run a contestant in its own environment; what goes wrong is part of the outcome."""
    before = busy()
    process = start(contestant, job, peers, subprocess.PIPE)
    said, wrong = process.communicate()
    return {**outcome(said, wrong, process.returncode), **before}


def run_in_turns(contestants: list[Contestant], job: Job, peers: Path) -> list[dict[str, Any]]:
    """Let contestants take turns at every step of training."""
    return take_turns([partial(start, c, replace(job, turns=True), peers) for c in contestants], job)


def take_turns(starts: list[Callable[[Any], subprocess.Popen[str]]], job: Job) -> list[dict[str, Any]]:
    """Run processes that stand still but for one, which makes a step; then comes the next one's turn.

    A machine that is shared is faster in one minute than in another; here this hits all alike, step by step.
    """
    before, found = busy(), [""] * len(starts)
    with ExitStack() as files:
        errors = [files.enter_context(TemporaryFile("w+")) for _ in starts]
        processes = [begin(error) for begin, error in zip(starts, errors, strict=True)]

        def until_turn(number: int) -> None:
            stdout = processes[number].stdout
            assert stdout is not None
            for line in stdout:
                if line == "TURN\n":
                    return
                found[number] += line

        for number in range(len(processes)):
            until_turn(number)
        for turn in range(job.warmup + job.steps):
            for number in range(len(processes)):
                number = (number + turn) % len(processes)
                time.sleep(REST)
                go_on(processes[number])
                until_turn(number)
        for number, process in enumerate(processes):
            go_on(process)
            until_turn(number)
            process.wait()
        for error in errors:
            error.seek(0)
        wrong = [error.read() for error in errors]
    codes = [process.returncode for process in processes]
    return [{**outcome(*each), **before} for each in zip(found, wrong, codes, strict=True)]


def go_on(process: subprocess.Popen[str]) -> None:
    """Give a process its turn, unless it has ended."""
    assert process.stdin is not None
    with suppress(BrokenPipeError):
        process.stdin.write("\n")
        process.stdin.flush()


def start(contestant: Contestant, job: Job | TagJob, peers: Path, errors: Any) -> subprocess.Popen[str]:
    """Start a contestant in its own environment."""
    threads = {name: str(job.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    cores = sorted(os.sched_getaffinity(0))[-job.threads :] if contestant.pinned else os.sched_getaffinity(0)
    return subprocess.Popen(
        [python(contestant, peers), HERE / "contestants" / contestant.script, json.dumps(asdict(job))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        env={**os.environ, **threads, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])},
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
    )


def outcome(stdout: str, stderr: str, code: int) -> dict[str, Any]:
    """What a contestant says came of its job, or what went wrong."""
    lines = [line for line in stdout.splitlines() if line.startswith("OUTCOME ")]
    if code or not lines:
        said = [line for line in stderr.splitlines() if line.strip()]
        return {"failed": said[-1] if said else f"ended with {code}"}
    found: dict[str, Any] = json.loads(lines[-1].removeprefix("OUTCOME "))
    return found


def busy() -> dict[str, Any]:
    """How busy the machine is, and with whom."""
    return {"load": [round(x, 2) for x in os.getloadavg()], "others": others()}


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
