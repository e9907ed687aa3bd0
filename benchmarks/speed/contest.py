"""What every contestant shares: its job, the batches, the clock. Needs nothing but the standard library and numpy.

A contestant is a script in `contestants/` that is run in an environment of its own with a job as its argument:

    train(job, batches, watch)      makes one step of training a batch and calls `watch.step(loss)` after each
    decoder(job)                    returns a function (sources, beam) -> outputs, of FORCED tokens each

and ends with `run(train, decoder)`. It prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from shapes import FORCED, PAD, SHAPES, Shape

LEARNING_RATE, CLIP, SEED = 1e-3, 1.0, 1


@dataclass(frozen=True)
class Job:
    """What a contestant is asked to do."""

    model: str  # S, M or LM
    what: str  # train or decode
    threads: int
    data: str  # a file of batches
    warmup: int = 2
    steps: int = 12
    seconds: float = 3.0  # for each measurement of decoding
    vocabulary: int = 0  # instead of the model's own
    turns: bool = False  # wait before every step until told to go on
    searches: tuple[tuple[int, int], ...] = ((1, 1), (1, 32), (1, 64), (5, 1), (5, 32), (5, 64))  # beam, batch

    @property
    def shape(self) -> Shape:
        shape = SHAPES[self.model]
        return replace(shape, vocabulary=self.vocabulary) if self.vocabulary else shape


@dataclass(frozen=True)
class Batch:
    """Sentences as ids, all ended by EOS and padded with PAD."""

    source: np.ndarray  # (B, S)
    target: np.ndarray  # (B, T)

    @property
    def tokens(self) -> int:
        """Real target tokens, EOS among them: what is counted and what the loss is the mean of."""
        return int((self.target != PAD).sum())


def padded(rows: list[list[int]]) -> np.ndarray:
    width = max(len(row) for row in rows)
    return np.array([row + [PAD] * (width - len(row)) for row in rows], dtype=np.int64)


@dataclass
class Watch:
    """Notes the time and the loss after every step."""

    warmup: int
    losses: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)  # seconds of each step
    cpu: list[float] = field(default_factory=list)
    parameters: int = 0
    resident: float = 0.0  # MB, before the first step
    notes: list[str] = field(default_factory=list)
    turns: bool = False

    def begin(self, parameters: int) -> None:
        """Call before the first step."""
        self.parameters, self.resident = parameters, peak_memory()
        self._wait()
        self.lap()

    def _wait(self) -> None:
        if self.turns:
            print("TURN", flush=True)
            sys.stdin.readline()

    def lap(self) -> None:
        """Leave out the time since the last step."""
        self._wall, self._cpu = time.perf_counter(), cpu_seconds()

    def step(self, loss: float) -> None:
        """A step was made, with this mean loss a token."""
        self.wall.append(time.perf_counter() - self._wall)
        self.cpu.append(cpu_seconds() - self._cpu)
        self.losses.append(float(loss))
        self._wait()
        self.lap()


def cpu_seconds() -> float:
    """CPU time of this process and of its children that have ended."""
    return sum(os.times()[:4])


def peak_memory() -> float:
    """The most memory that this process, and the largest of its children, ever held: MB."""
    return sum(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1024


def measure_training(job: Job, train: Callable[[Job, list[Batch], Watch], None]) -> dict[str, Any]:
    rows = json.loads(Path(job.data).read_text())["train"][: job.warmup + job.steps]
    batches = [Batch(padded(b["source"]), padded(b["target"])) for b in rows]
    watch = Watch(job.warmup, turns=job.turns)
    train(job, batches, watch)
    if len(watch.wall) != len(batches):
        raise RuntimeError(f"made {len(watch.wall)} steps of {len(batches)}")
    tokens = sum(batch.tokens for batch in batches[job.warmup :])
    return {
        "tokens_per_second": tokens / sum(watch.wall[job.warmup :]),
        "tokens_per_cpu_second": tokens / max(1e-9, sum(watch.cpu[job.warmup :])),
        "losses": [round(loss, 4) for loss in watch.losses],
        "parameters": watch.parameters,
        "resident_mb": round(watch.resident),
        "peak_mb": round(peak_memory()),
        "notes": watch.notes,
    }


def measure_decoding(
    job: Job, decoder: Callable[[Job], Callable[[list[list[int]], int], list[list[int]]]]
) -> dict[str, Any]:
    sources = json.loads(Path(job.data).read_text())["decode"]
    translate = decoder(job)
    rates: dict[str, float] = {}
    without: dict[str, str] = {}
    for beam, size in job.searches:
        name = f"{'greedy' if beam == 1 else f'beam {beam}'}, batch {size}"
        batches = [sources[i : i + size] for i in range(0, len(sources) - size + 1, size)]
        try:
            outputs = translate(batches[-1], beam)  # to warm up
        except NotImplementedError as reason:
            without[name] = str(reason)
            continue
        for output in outputs:
            if len(output) != FORCED:
                raise RuntimeError(f"an output of {len(output)} tokens where {FORCED} were asked for: {output}")
        seconds, done = 0.0, 0
        while seconds < job.seconds:  # all sentences have one length, so that it does not matter which are taken
            batch = batches[done // size % len(batches)]
            began = time.perf_counter()
            translate(batch, beam)
            seconds += time.perf_counter() - began
            done += size
        rates[name] = done / seconds
    return {"sentences_per_second": rates, "without": without, "peak_mb": round(peak_memory())}


def run(
    train: Callable[[Job, list[Batch], Watch], None],
    decoder: Callable[[Job], Callable[[list[list[int]], int], list[list[int]]]] | None = None,
) -> None:
    """Do the job that the command line names, and print what came of it."""
    job = Job(**json.loads(sys.argv[1]))
    if job.what == "train":
        outcome = measure_training(job, train)
    elif decoder is not None:
        outcome = measure_decoding(job, decoder)
    else:
        outcome = {"skipped": "this contestant has no decoding"}
    print("\nOUTCOME " + json.dumps(outcome), flush=True)
