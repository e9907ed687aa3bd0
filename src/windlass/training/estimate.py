"""Estimate the time and memory of a run from a few batches, without side effects."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

import torch
from torch import Tensor, nn

from windlass.core.errors import TrainingError
from windlass.core.records import Batch
from windlass.core.weights import clone_tensors, set_weights, weights
from windlass.data.loader import Loader
from windlass.recipe.train import TrainOptions
from windlass.training.loop import BatchLoader
from windlass.training.progress import format_duration
from windlass.training.rng import fork_rng

PROBES = 4  # batches timed, spread over an epoch
MEGABYTE = 1024 * 1024


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

    @property
    def total(self) -> float:
        """Seconds of the whole run, without early stopping."""
        whole = self.seconds * self.epochs
        return whole if self.minutes is None else min(whole, 60 * self.minutes)

    def render(self) -> str:
        """The estimate as a sentence."""
        size = f"{self.parameters / 1e6:.1f}M" if self.parameters >= 1e5 else f"{self.parameters:,}"
        return (
            f"{size} parameters; about {format_duration(self.seconds)} an epoch of {self.batches} batches, "
            f"at most {format_duration(self.total)} for {self.epochs} epochs, without evaluation; "
            f"about {self.megabytes:.0f} MB of memory on top of the program and the data"
        )


def estimate(model: nn.Module, loader: BatchLoader, options: TrainOptions, device: str = "cpu") -> Estimate:
    """Run the largest batch and a few typical ones; weights, gradients and random states are preserved.

    >>> from windlass.bundle import Bundle
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
    with preserve(model):
        model.train()
        numbers = [sizes.index(max(sizes)), *probe_batches(count)]
        largest, *probes = (next(loader.epoch(0, start=n)).to(device) for n in numbers)
        activations = _activation_bytes(model, largest, sampling_prob)  # also warms up
        seconds = [_step_seconds(model, batch, sampling_prob) for batch in probes]
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
    )


def probe_batches(count: int) -> list[int]:
    """Return the numbers of a few batches, spread over an epoch of `count`.

    >>> probe_batches(100)
    [12, 37, 62, 87]
    """
    return sorted({n * count // PROBES + count // (2 * PROBES) for n in range(PROBES)})


def _padded_size(batch: Batch) -> int:
    """The number of positions of a batch, padding included."""
    sides = [*batch.inputs.values(), *([batch.target] if batch.target is not None else [])]
    return sum(side.values.numel() for side in sides)


def _activation_bytes(model: nn.Module, batch: Batch, sampling_prob: float) -> int:
    """The memory that the forward pass saves for the backward pass, without weights."""
    weight_storage = {t.untyped_storage().data_ptr() for t in weights(model).values()}
    sizes: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weight_storage:
            sizes[storage.data_ptr()] = storage.nbytes()
        return tensor.detach()  # the tensor itself would keep its graph alive

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(batch, sampling_prob=sampling_prob)
    return sum(sizes.values())


def _step_seconds(model: nn.Module, batch: Batch, sampling_prob: float) -> float:
    trainable = [p for p in model.parameters() if p.requires_grad]
    began = time.perf_counter()
    gradients = torch.autograd.grad(model(batch, sampling_prob=sampling_prob).mean, trainable, allow_unused=True)
    gradient = next((g for g in gradients if g is not None), None)
    if gradient is not None:
        gradient.sum().item()  # synchronises an asynchronous device
    return time.perf_counter() - began


@contextmanager
def preserve(model: nn.Module) -> Iterator[None]:
    """Restore the weights, the mode and the random states after the block.

    >>> layer = nn.Linear(1, 1, bias=False)
    >>> before = layer.weight.item()
    >>> with preserve(layer):
    ...     _ = nn.init.constant_(layer.weight, 5.0)
    >>> layer.weight.item() == before
    True
    """
    training, before = model.training, clone_tensors(weights(model))
    try:
        with fork_rng():
            yield
    finally:
        set_weights(model, before)
        model.train(training)
