"""Weight averaging: the weights that are evaluated and saved."""

from __future__ import annotations

from collections.abc import Mapping
from functools import singledispatch
from typing import Protocol

import torch
from torch import Tensor, nn

from windlass.core.weights import clone_tensors, weights
from windlass.recipe.train import AverageOptions, Checkpoints, Ema


class Average(Protocol):
    """An average of a model's weights.

    >>> from windlass.recipe.train import NoAverage
    >>> build_average(NoAverage(), nn.Linear(1, 1)).now(nn.Linear(1, 1)) is None
    True
    """

    def stepped(self, model: nn.Module) -> None:
        """Update after a training step."""

    def now(self, model: nn.Module) -> dict[str, Tensor] | None:
        """The weights to evaluate; None for those of the model."""

    def evaluated(self, model: nn.Module) -> None:
        """Update after an evaluation."""

    def tensors(self) -> dict[str, Tensor]:
        """The state, for a checkpoint."""

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the state that `tensors` returned."""


@singledispatch
def build_average(options: AverageOptions, model: nn.Module) -> Average:
    """Make the average that the options name, for a model that has not been trained yet.

    >>> sorted(build_average(Ema(), nn.Linear(1, 1)).tensors())
    ['updates', 'weights/bias', 'weights/weight']
    """
    return Unaveraged()


@build_average.register
def _(options: Ema, model: nn.Module) -> Average:
    return MovingAverage(options.decay, model)


@build_average.register
def _(options: Checkpoints, model: nn.Module) -> Average:
    return CheckpointMean(options.count)


class Unaveraged:
    """No averaging.

    >>> Unaveraged().tensors()
    {}
    """

    def stepped(self, model: nn.Module) -> None:
        """Nothing to update."""

    def now(self, model: nn.Module) -> None:
        """None: the weights of the model."""

    def evaluated(self, model: nn.Module) -> None:
        """Nothing to update."""

    def tensors(self) -> dict[str, Tensor]:
        """No state."""
        return {}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Nothing to restore."""


class MovingAverage:
    """Exponential moving average: a = d * a + (1 - d) * w, d = min(decay, (1 + n) / (10 + n)) after n steps.

    >>> layer = nn.Linear(1, 1, bias=False)
    >>> _ = nn.init.zeros_(layer.weight)
    >>> average = MovingAverage(0.999, layer)
    >>> _ = nn.init.ones_(layer.weight)
    >>> average.stepped(layer)
    >>> round(average.now(layer)["weight"].item(), 6)  # 0.1 * 0 + 0.9 * 1
    0.9
    """

    def __init__(self, decay: float, model: nn.Module):
        self.decay, self.updates = decay, 0
        self.means = clone_tensors(weights(model))

    @torch.no_grad()
    def stepped(self, model: nn.Module) -> None:
        """Update the average."""
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        current = weights(model)
        floating = [name for name, mean in self.means.items() if mean.is_floating_point()]
        torch._foreach_lerp_([self.means[n] for n in floating], [current[n] for n in floating], 1 - decay)
        for name, mean in self.means.items():
            if not mean.is_floating_point():
                mean.copy_(current[name])
        self.updates += 1

    def now(self, model: nn.Module) -> dict[str, Tensor]:
        """The average."""
        return self.means

    def evaluated(self, model: nn.Module) -> None:
        """Nothing to update."""

    def tensors(self) -> dict[str, Tensor]:
        """The average and its number of updates."""
        named = {f"weights/{name}": mean for name, mean in self.means.items()}
        return {"updates": torch.tensor(self.updates), **named}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the average."""
        self.updates = int(tensors["updates"])
        for name, mean in self.means.items():
            mean.copy_(tensors[f"weights/{name}"])


class CheckpointMean:
    """Checkpoint averaging: the mean of the weights at the last `count` evaluations, including the current one.

    >>> layer, average = nn.Linear(1, 1, bias=False), CheckpointMean(2)
    >>> for value in (1.0, 2.0, 5.0):
    ...     _ = nn.init.constant_(layer.weight, value)
    ...     print(average.now(layer)["weight"].item())
    ...     average.evaluated(layer)
    1.0
    1.5
    3.5
    """

    def __init__(self, count: int):
        self.count = count
        self.kept: list[dict[str, Tensor]] = []

    def stepped(self, model: nn.Module) -> None:
        """Nothing to update."""

    @torch.no_grad()
    def now(self, model: nn.Module) -> dict[str, Tensor]:
        """The mean, if the model were evaluated now."""
        current = weights(model)
        averaged = [*self.kept[-(self.count - 1) :], current]
        return {
            name: torch.stack([one[name] for one in averaged]).mean(0) if value.is_floating_point() else value.clone()
            for name, value in current.items()
        }

    def evaluated(self, model: nn.Module) -> None:
        """Keep the weights of this evaluation, and drop the oldest."""
        self.kept = [*self.kept, clone_tensors(weights(model))][-(self.count - 1) :]

    def tensors(self) -> dict[str, Tensor]:
        """The kept weights, oldest first."""
        return {f"{n}/{name}": value for n, one in enumerate(self.kept) for name, value in one.items()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the kept weights."""
        kept: dict[int, dict[str, Tensor]] = {}
        for key, value in tensors.items():
            n, _, name = key.partition("/")
            kept.setdefault(int(n), {})[name] = value.clone()
        self.kept = [kept[n] for n in sorted(kept)]
