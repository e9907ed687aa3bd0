"""Weight averaging: the weights that are evaluated and saved."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from windlass.core.weights import clone_tensors, weights
from windlass.recipe.train import AverageOptions, Checkpoints, Ema


class Average:
    """An average of a model's weights. The base class averages nothing: the weights of the model are evaluated.

    >>> Average().now(nn.Linear(1, 1)) is None
    True
    """

    def stepped(self, model: nn.Module) -> None:
        """Update after a training step."""

    def now(self, model: nn.Module) -> dict[str, Tensor] | None:
        """The weights to evaluate; None for those of the model."""
        return None

    def evaluated(self, model: nn.Module) -> None:
        """Update after an evaluation."""

    def tensors(self) -> dict[str, Tensor]:
        """The state, for a checkpoint."""
        return {}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the state that `tensors` returned."""


def build_average(options: AverageOptions, model: nn.Module) -> Average:
    """Make the average that the options name, for a model that has not been trained yet.

    >>> sorted(build_average(Ema(), nn.Linear(1, 1)).tensors())
    ['updates', 'weights/bias', 'weights/weight']
    """
    if isinstance(options, Ema):
        return _MovingAverage(options.decay, model)
    return _CheckpointMean(options.count) if isinstance(options, Checkpoints) else Average()


class _MovingAverage(Average):
    """Exponential moving average: a = d * a + (1 - d) * w, d = min(decay, (1 + n) / (10 + n)) after n steps."""

    def __init__(self, decay: float, model: nn.Module):
        self.decay, self.updates = decay, 0
        self.means = clone_tensors(weights(model))

    @torch.no_grad()
    def stepped(self, model: nn.Module) -> None:
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        current = weights(model)
        floating = [name for name, mean in self.means.items() if mean.is_floating_point()]
        torch._foreach_lerp_([self.means[n] for n in floating], [current[n] for n in floating], 1 - decay)
        for name, mean in self.means.items():
            if not mean.is_floating_point():
                mean.copy_(current[name])
        self.updates += 1

    def now(self, model: nn.Module) -> dict[str, Tensor]:
        return self.means

    def tensors(self) -> dict[str, Tensor]:
        named = {f"weights/{name}": mean for name, mean in self.means.items()}
        return {"updates": torch.tensor(self.updates), **named}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        self.updates = int(tensors["updates"])
        for name, mean in self.means.items():
            mean.copy_(tensors[f"weights/{name}"])


class _CheckpointMean(Average):
    """Checkpoint averaging: the mean of the weights at the last `count` evaluations, including the current one."""

    def __init__(self, count: int):
        self.count = count
        self.kept: list[dict[str, Tensor]] = []  # the oldest first

    @torch.no_grad()
    def now(self, model: nn.Module) -> dict[str, Tensor]:
        current = weights(model)
        averaged = [*self.kept[-(self.count - 1) :], current]
        return {
            name: torch.stack([one[name] for one in averaged]).mean(0) if value.is_floating_point() else value.clone()
            for name, value in current.items()
        }

    def evaluated(self, model: nn.Module) -> None:
        self.kept = [*self.kept, clone_tensors(weights(model))][-(self.count - 1) :]

    def tensors(self) -> dict[str, Tensor]:
        return {f"{n}/{name}": value for n, one in enumerate(self.kept) for name, value in one.items()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        kept: dict[int, dict[str, Tensor]] = {}
        for key, value in tensors.items():
            n, _, name = key.partition("/")
            kept.setdefault(int(n), {})[name] = value.clone()
        self.kept = [kept[n] for n in sorted(kept)]
