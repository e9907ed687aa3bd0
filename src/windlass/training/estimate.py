"""Before training: how much time and memory it will take, by trying a few batches and leaving no trace."""

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
from windlass.training.loop import Batches
from windlass.training.progress import duration
from windlass.training.randomness import untouched_randomness
from windlass.training.schedule import own_chance

TRIED = 4  # batches timed, spread over an epoch
MEGABYTE = 1024 * 1024


@dataclass(frozen=True)
class Estimate:
    """What a run will take, evaluation apart.

    >>> print(Estimate(parameters=1_200_000, batches=50, epochs=20, seconds=10.0, megabytes=180.0).render())
    1.2M parameters; about 10s an epoch of 50 batches, at most 3m20s for 20 epochs, without evaluation;
    about 180 MB of memory on top of the program and the data
    """

    parameters: int
    batches: int  # in an epoch
    epochs: int
    seconds: float  # an epoch
    megabytes: float  # weights, gradients, optimiser, averages and the largest batch
    minutes: float | None = None  # the limit, if there is one

    @property
    def total(self) -> float:
        """Seconds for the whole run, unless it ends early."""
        whole = self.seconds * self.epochs
        return whole if self.minutes is None else min(whole, 60 * self.minutes)

    def render(self) -> str:
        """The estimate as a sentence."""
        size = f"{self.parameters / 1e6:.1f}M" if self.parameters >= 1e5 else f"{self.parameters:,}"
        return (
            f"{size} parameters; about {duration(self.seconds)} an epoch of {self.batches} batches, "
            f"at most {duration(self.total)} for {self.epochs} epochs, without evaluation; "
            f"about {self.megabytes:.0f} MB of memory on top of the program and the data"
        )


def estimate(model: nn.Module, loader: Batches, options: TrainOptions, device: str = "cpu") -> Estimate:
    """Try a few typical batches and the largest; weights, gradients and random numbers stay as they were.

    >>> from windlass.core.records import Scored
    >>> from windlass.data.loader import Encoded, Loader
    >>> class Unigram(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.logits = nn.Parameter(torch.zeros(8))
    ...     def forward(self, batch, carry=None, own=0.0):
    ...         tokens = batch.target.values[batch.target.mask]
    ...         return Scored(-self.logits.log_softmax(0)[tokens].sum(), torch.tensor(len(tokens)))
    >>> estimate(Unigram(), Loader([Encoded([5], [6])], 8, 1, True), TrainOptions(epochs=2)).parameters
    8
    """
    sizes = loader.cells(0) if isinstance(loader, Loader) else [_cells(batch) for batch in loader.epoch(0)]
    if not sizes:
        raise TrainingError("there is no training data: the loader has no batches")
    count = len(sizes)
    own = own_chance(options.sampling, count * options.epochs // 2, options.epochs / 2)
    model.to(device)
    with unchanged(model):
        model.train()
        largest = _batch(loader, sizes.index(max(sizes)), device)
        saved = _saved_bytes(model, largest, own)  # this one also warms up
        seconds = [_seconds(model, _batch(loader, n, device), own) for n in typical(count)]
    tensors = weights(model).values()
    size = sum(t.numel() * t.element_size() for t in tensors)
    # The gradient of an activation is alive beside it only for a moment, so half as much again is ample.
    peak = size * _copies(options) + 1.5 * saved
    return Estimate(
        parameters=sum(p.numel() for p in model.parameters() if p.requires_grad),
        batches=count,
        epochs=options.epochs,
        seconds=median(seconds) * count,  # one batch may have been held up
        megabytes=peak / MEGABYTE,
        minutes=options.minutes,
    )


def typical(count: int) -> list[int]:
    """A few batches spread over an epoch of `count`.

    >>> typical(100)
    [12, 37, 62, 87]
    """
    return sorted({n * count // TRIED + count // (2 * TRIED) for n in range(TRIED)})


def _cells(batch: Batch) -> int:
    """How much a batch costs: all its places, padding too."""
    sides = [*batch.inputs.values(), *([batch.target] if batch.target is not None else [])]
    return sum(side.values.numel() for side in sides)


def _batch(loader: Batches, number: int, device: str) -> Batch:
    return next(loader.epoch(0, start=number)).to(device)


def _copies(options: TrainOptions) -> int:
    """How many times the weights are held: themselves, gradients, the best, and what the options add."""
    optimiser = 2 if options.optimiser.kind != "sgd" else 1 if options.optimiser.momentum else 0
    average = options.average
    kept = 2 if average.kind == "ema" else average.count if average.kind == "checkpoints" else 0
    return 3 + optimiser + kept


def _saved_bytes(model: nn.Module, batch: Batch, own: float) -> int:
    """What the backward pass needs from the forward pass, weights apart."""
    known = {t.untyped_storage().data_ptr() for t in weights(model).values()}
    sizes: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            sizes[storage.data_ptr()] = storage.nbytes()
        return tensor.detach()  # the tensor itself would hold its own graph alive

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(batch, own=own)
    return sum(sizes.values())


def _seconds(model: nn.Module, batch: Batch, own: float) -> float:
    trained = [p for p in model.parameters() if p.requires_grad]
    began = time.perf_counter()
    gradients = torch.autograd.grad(model(batch, own=own).mean, trained, allow_unused=True)
    found = next((g for g in gradients if g is not None), None)
    if found is not None:
        found.sum().item()  # waits for a device that works on its own
    return time.perf_counter() - began


@contextmanager
def unchanged(model: nn.Module) -> Iterator[None]:
    """Whatever happens inside, the model and the generators are left as they were.

    >>> layer = nn.Linear(1, 1, bias=False)
    >>> before = layer.weight.item()
    >>> with unchanged(layer):
    ...     _ = nn.init.constant_(layer.weight, 5.0)
    >>> layer.weight.item() == before
    True
    """
    training, before = model.training, clone_tensors(weights(model))
    try:
        with untouched_randomness():
            yield
    finally:
        set_weights(model, before)
        model.train(training)
