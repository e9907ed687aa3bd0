"""Estimate the time and memory of a run from a few batches, without side effects; choose its number of processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch
from torch import Tensor, nn

from windlass.bundle import Bundle
from windlass.core.errors import RecipeError, TrainingError
from windlass.core.records import Batch, Carry
from windlass.core.weights import clone_tensors, set_weights, weights
from windlass.core.wording import counted
from windlass.data.loader import Loader
from windlass.data.running import Running
from windlass.nn.fast.precision import precision
from windlass.recipe.train import TrainOptions
from windlass.training.data_parallel import SingleProcess, available_cores, gradient_workers
from windlass.training.loop import BatchLoader
from windlass.training.progress import format_duration
from windlass.training.rng import fork_rng

PROBES = 4  # batches timed, spread over an epoch
MEGABYTE = 1024 * 1024
MIN_SECONDS = 180.0
"""A shorter run does not pay for the start of workers and for the trial."""
MIN_SPEEDUP = 1.05
"""With less speedup, one process is used."""


@dataclass(frozen=True)
class Estimate:
    """Expected time and memory of a run, without evaluation.

    >>> print(Estimate(parameters=1_200_000, batches=50, epochs=20, seconds=10.0, megabytes=180.0).render())
    1.2M parameters; about 10s an epoch of 50 batches, at most 3m20s for 20 epochs, without evaluation;
    about 180 MB of memory on top of the program and the data
    """

    parameters: int
    batches: int  # per epoch
    epochs: int
    seconds: float  # per epoch
    megabytes: float  # weights, gradients, optimiser, averages and the activations of the largest batch
    minutes: float | None = None  # the time limit
    decays: bool = False  # whether the learning rate follows the length of the run

    @property
    def total(self) -> float:
        """Seconds of the whole run, without early stopping."""
        whole = self.seconds * self.epochs
        return whole if self.minutes is None else min(whole, 60 * self.minutes)

    def render(self) -> str:
        """The estimate as a sentence."""
        size = f"{self.parameters / 1e6:.1f}M" if self.parameters >= 1e5 else f"{self.parameters:,}"
        length = f"at most {format_duration(self.total)} for {counted(self.epochs, 'epoch')}, without evaluation"
        if self.minutes is not None and self.seconds * self.epochs > 60 * self.minutes:
            allowed = max(1, int(60 * self.minutes / self.seconds))
            length = f"so the limit of {format_duration(60 * self.minutes)} allows about {allowed:,} of "
            length += f"{self.epochs:,} epochs, without evaluation"
            if self.decays:
                length += f"; for a whole decay of the learning rate in this time: --epochs {allowed}"
        return (
            f"{size} parameters; about {format_duration(self.seconds)} an epoch of "
            f"{counted(self.batches, 'batch', 'batches')}, {length}; "
            f"about {self.megabytes:.0f} MB of memory on top of the program and the data"
        )


def estimate(model: nn.Module, loader: BatchLoader, options: TrainOptions, device: str = "cpu") -> Estimate:
    """Run the largest batch and a few typical ones; weights, gradients and random states are preserved.

    >>> from windlass.data import Sides
    >>> from windlass.recipe import Recipe
    >>> sides = Sides.tiny()
    >>> loader = sides.loader([sides.encode("a", "b")], 8)
    >>> estimate(Bundle.new(Recipe(), sides).model, loader, TrainOptions(epochs=2)).batches
    1
    """
    sizes = loader.cells(0) if isinstance(loader, Loader) else [_padded_size(batch) for batch in loader.epoch(0)]
    if not sizes:
        raise TrainingError("there is no training data: the loader has no batches")
    count = len(sizes)
    sampling_prob = options.sampling.probability(count * options.epochs // 2, options.epochs / 2)
    model.to(device)
    with _preserve(model), precision(options.precision):
        model.train()
        numbers = [sizes.index(max(sizes)), *_probe_batches(count)]
        largest, *probes = (next(loader.epoch(0, start=n)).to(device) for n in numbers)
        carry = _full_carry(model, largest) if isinstance(loader, Running) else None
        activations = _activation_bytes(model, largest, carry, sampling_prob)  # also warms up
        seconds = [_step_seconds(model, batch, carry, sampling_prob) for batch in probes]
    size = sum(t.numel() * t.element_size() for t in weights(model).values())
    copies = 3 + options.optimiser.moments + options.average.copies  # 3: weights, gradients, the best weights
    # Gradients of activations are freed as the backward pass proceeds, so half as much again is ample.
    peak = size * copies + 1.5 * activations
    return Estimate(
        parameters=sum(p.numel() for p in model.parameters() if p.requires_grad),
        batches=count,
        epochs=options.epochs,
        seconds=median(seconds) * count,  # robust against one slow batch
        megabytes=peak / MEGABYTE,
        minutes=options.minutes,
        decays=options.schedule.spans_run,
    )


def _probe_batches(count: int) -> list[int]:
    """Return the numbers of a few batches, spread over an epoch of `count`."""
    return sorted({n * count // PROBES + count // (2 * PROBES) for n in range(PROBES)})


def _padded_size(batch: Batch) -> int:
    """The number of positions of a batch, padding included."""
    sides = [*batch.inputs.values(), *([batch.target] if batch.target is not None else [])]
    return sum(side.values.numel() for side in sides)


@torch.no_grad()
def _full_carry(model: nn.Module, batch: Batch) -> Carry | None:
    """What a chunk of running text starts from in the middle of an epoch: a transformer's window is full by then."""
    carry: Carry | None = None
    while True:
        before, carry = carry, model(batch, carry).carry
        if carry is None or (before is not None and _shapes(before) == _shapes(carry)):
            return carry


def _shapes(carry: Carry) -> list[torch.Size]:
    return [tensor.shape for tensor in carry.tensors().values()]


def _activation_bytes(model: nn.Module, batch: Batch, carry: Carry | None, sampling_prob: float) -> int:
    """The memory that the forward pass saves for the backward pass, without weights."""
    weight_storage = {t.untyped_storage().data_ptr() for t in weights(model).values()}
    sizes: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weight_storage:
            sizes[storage.data_ptr()] = storage.nbytes()
        return tensor.detach()  # the tensor itself would keep its graph alive

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(batch, carry, sampling_prob)
    return sum(sizes.values())


def _step_seconds(model: nn.Module, batch: Batch, carry: Carry | None, sampling_prob: float) -> float:
    trainable = [p for p in model.parameters() if p.requires_grad]
    began = time.perf_counter()
    gradients = torch.autograd.grad(model(batch, carry, sampling_prob).mean, trainable, allow_unused=True)
    gradient = next((g for g in gradients if g is not None), None)
    if gradient is not None:
        gradient.sum().item()  # synchronises an asynchronous device
    return time.perf_counter() - began


@contextmanager
def _preserve(model: nn.Module) -> Iterator[None]:
    """Restore the weights, the mode and the random states after the block."""
    training, before = model.training, clone_tensors(weights(model))
    try:
        with fork_rng():
            yield
    finally:
        set_weights(model, before)
        model.train(training)


def choose_processes(
    bundle: Bundle, loader: BatchLoader, folder: Path, device: str, seconds: float, note: Callable[[str], None]
) -> int:
    """Return the number of processes for a run that takes `seconds` with one; note the outcome of the trial.

    >>> from windlass.data import Sides
    >>> from windlass.recipe import Recipe
    >>> bundle = Bundle.new(Recipe(), Sides.tiny())
    >>> choose_processes(bundle, bundle.sides.loader([], 8), Path(), "cpu", seconds=5.0, note=print)
    1
    """
    options = bundle.recipe.train
    if options.processes != "auto":
        if options.processes > 1 and device != "cpu":
            raise RecipeError(f"train.processes: {options.processes} run on the CPU, not on {device}: leave it out")
        return options.processes
    count = available_cores()
    if device != "cpu" or count < 2 or options.threads is not None or seconds < MIN_SECONDS:
        return 1
    if options.optimiser.sparse_updates:  # workers return dense gradients
        return 1
    note(f"trying {count} processes of one thread each, which takes some seconds; else: --set train.processes=1")
    with precision(options.precision):
        speedup = _speedup(bundle.model, loader, folder, count, bundle.recipe.seed)
    chosen = count if speedup >= MIN_SPEEDUP else 1
    note(
        f"{count} processes of one thread are {speedup:.2f} times as fast as one process of {count} threads: "
        f"using {chosen} process{'es' if chosen > 1 else ''}"
    )
    return chosen


def _speedup(model: nn.Module, loader: BatchLoader, folder: Path, count: int, seed: int) -> float:
    """Time a few batches with one process and with several, in turns: the median ratio. The first batch warms up."""
    numbers = _probe_batches(loader.batches(0))
    batches = [next(loader.epoch(0, start=n)) for n in (numbers[0], *numbers)]
    ratios = []
    with _preserve(model), gradient_workers(model, folder, count, seed) as data_parallel:
        model.train()
        for batch in batches:
            seconds = []
            for processes, compute_gradients in ((1, SingleProcess(model)), (count, data_parallel)):
                torch.set_num_threads(count // processes)
                began = time.perf_counter()
                compute_gradients(batch, 0.0, 0)
                seconds.append(time.perf_counter() - began)
            ratios.append(seconds[0] / seconds[1])
        model.zero_grad(set_to_none=True)
    return median(ratios[1:])
