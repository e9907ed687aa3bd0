"""The number of processes of a run: as set, or chosen by a timed trial."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import nn

from windlass.core.errors import RecipeError
from windlass.recipe.train import TrainOptions
from windlass.training.data_parallel import ComputeGradients, DataParallel, SingleProcess
from windlass.training.estimate import preserve, probe_batches
from windlass.training.loop import BatchLoader

MIN_SECONDS = 180.0
"""A shorter run does not pay for the start of workers and for the trial."""
MIN_SPEEDUP = 1.05
"""With less speedup, one process is used."""


def available_cores() -> int:
    """Return the number of cores that this process may use.

    >>> available_cores() >= 1
    True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def choose_processes(
    model: nn.Module,
    loader: BatchLoader,
    options: TrainOptions,
    folder: Path,
    seed: int,
    device: str,
    seconds: float,
    note: Callable[[str], None],
) -> int:
    """Return the number of processes for a run that takes `seconds` with one; note the outcome of the trial.

    >>> from windlass.data import Sides
    >>> choose_processes(
    ...     nn.Linear(1, 1), Sides.tiny().loader([], 8), TrainOptions(), Path(), 1, "cpu", seconds=5.0, note=print)
    1
    """
    if options.processes != "auto":
        if options.processes > 1 and device != "cpu":
            raise RecipeError(f"train.processes: {options.processes} run on the CPU, not on {device}: leave it out")
        return options.processes
    count = available_cores()
    if device != "cpu" or count < 2 or options.threads is not None or seconds < MIN_SECONDS:
        return 1
    if options.optimiser.sparse_updates:  # workers return dense gradients
        return 1
    speedup = _speedup(model, loader, folder, count, seed)
    chosen = count if speedup >= MIN_SPEEDUP else 1
    note(
        f"{count} processes of one thread are {speedup:.2f} times as fast as one process of {count} threads: "
        f"using {chosen} process{'es' if chosen > 1 else ''}"
    )
    return chosen


def _speedup(model: nn.Module, loader: BatchLoader, folder: Path, count: int, seed: int) -> float:
    """Time a few batches with one process and with several, in turns; the first batch only warms up."""
    numbers = probe_batches(loader.batches(0))
    batches = [next(loader.epoch(0, start=n)) for n in (numbers[0], *numbers)]
    seconds = {1: 0.0, count: 0.0}
    with preserve(model), gradient_workers(model, folder, count, seed) as data_parallel:
        model.train()
        for n, batch in enumerate(batches):
            for processes, compute_gradients in ((1, SingleProcess(model)), (count, data_parallel)):
                torch.set_num_threads(count // processes)
                began = time.perf_counter()
                compute_gradients(batch, 0.0, 0)
                seconds[processes] += time.perf_counter() - began if n else 0.0
        model.zero_grad(set_to_none=True)
    return seconds[1] / seconds[count]


@contextmanager
def gradient_workers(model: nn.Module, folder: Path, processes: int, seed: int) -> Iterator[ComputeGradients]:
    """Start the workers of a run, one thread each, and end them after the block; none for one process.

    >>> with gradient_workers(nn.Linear(1, 1), Path(), 1, 1) as compute_gradients:
    ...     isinstance(compute_gradients, SingleProcess)
    True
    """
    if processes == 1:
        yield SingleProcess(model)
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    data_parallel = DataParallel(model, folder, processes, seed)
    try:
        yield data_parallel
    finally:
        data_parallel.close()
        torch.set_num_threads(threads)
