"""How many processes to train with: asked for, or found by trying."""

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
from windlass.training.estimate import typical, unchanged
from windlass.training.loop import Batches
from windlass.training.team import Alone, Gradients, Team

WORTH = 180.0
"""Seconds a run must last for the start of other processes, and the trial, to pay."""
MARGIN = 1.05
"""How much faster processes must be to be taken."""


def cores() -> int:
    """How many cores this process may use.

    >>> cores() >= 1
    True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def choose_processes(
    model: nn.Module,
    loader: Batches,
    options: TrainOptions,
    folder: Path,
    seed: int,
    device: str,
    seconds: float,
    note: Callable[[str], None],
) -> int:
    """The number of processes of a run that would take `seconds` alone; what was tried is noted.

    >>> from windlass.data import Sides
    >>> choose_processes(
    ...     nn.Linear(1, 1), Sides.tiny().loader([], 8), TrainOptions(), Path(), 1, "cpu", seconds=5.0, note=print)
    1
    """
    if options.processes != "auto":
        if options.processes > 1 and device != "cpu":
            raise RecipeError(f"train.processes: {options.processes} are for the CPU, not for {device}: leave it out")
        return options.processes
    count = cores()
    if device != "cpu" or count < 2 or options.threads is not None or seconds < WORTH:
        return 1
    if options.optimiser.sparse_updates:  # others would send whole gradients
        return 1
    ratio = _compare(model, loader, folder, count, seed)
    better = f"{count} processes of one thread run {ratio:.2f} times as fast as one process of {count} threads"
    note(f"{better}: taken" if ratio >= MARGIN else f"{better}: not taken")
    return count if ratio >= MARGIN else 1


def _compare(model: nn.Module, loader: Batches, folder: Path, count: int, seed: int) -> float:
    """Time typical batches both ways in turns; the first only warms up."""
    numbers = typical(loader.batches(0))
    batches = [next(loader.epoch(0, start=n)) for n in (numbers[0], *numbers)]
    spent = {1: 0.0, count: 0.0}
    with unchanged(model), team(model, folder, count, seed) as together:
        model.train()
        for n, batch in enumerate(batches):
            for processes, way in ((1, Alone(model)), (count, together)):
                torch.set_num_threads(count // processes)
                began = time.perf_counter()
                way(batch, 0.0, 0)
                spent[processes] += time.perf_counter() - began if n else 0.0
        model.zero_grad(set_to_none=True)
    return spent[1] / spent[count]


@contextmanager
def team(model: nn.Module, folder: Path, processes: int, seed: int) -> Iterator[Gradients]:
    """The gradients of this process alone, or of a team, one thread each, that is let go at the end.

    >>> with team(nn.Linear(1, 1), Path(), 1, 1) as gradients:
    ...     type(gradients).__name__
    'Alone'
    """
    if processes == 1:
        yield Alone(model)
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    members = Team(model, folder, processes, seed)
    try:
        yield members
    finally:
        members.end()
        torch.set_num_threads(threads)
