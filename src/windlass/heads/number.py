"""The number head: a real number for a whole memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal, final

from torch import Tensor

from windlass.core.fitting import Refuses, Term
from windlass.core.records import Batch, Hypothesis, Memory
from windlass.heads.base import Wiring
from windlass.heads.pooled import PooledHead, PooledHeadOptions


class NumberHeadOptions(PooledHeadOptions):
    """A real number for the whole input.

    >>> NumberHeadOptions(pool="max", hidden=(64,)).build(Wiring(outputs=1, memory_size=8)).output[0].out_features
    64
    """

    kind: Literal["number"] = "number"

    def _terms(self, at: str) -> Iterator[Term]:
        yield from super()._terms(at)
        yield Refuses("loss.label_smoothing", "loss.label_smoothing is for labels, not for numbers: set it to 0")

    def build(self, wiring: Wiring) -> NumberHead:
        """Build the head."""
        return NumberHead(self, wiring.memory_size, "second" in wiring.part_sizes)


@final
class NumberHead(PooledHead):
    """y = w . f(v) + b, with v pooled from the memory and f hidden layers, if any; trained on the squared error.

    The target side standardises numbers: y is in standard deviations from the mean of the training data.

    >>> import torch
    >>> head = NumberHead(NumberHeadOptions(), memory_size=4)
    >>> head(Memory(torch.randn(2, 5, 4), torch.ones(2, 5) > 0, torch.randn(2, 4)))[0].shape
    torch.Size([2])
    """

    single = "a number"

    def __init__(self, options: NumberHeadOptions, memory_size: int, pair: bool = False):
        super().__init__(options, 1, memory_size, pair)

    def forward(self, memory: Memory, batch: Batch | None = None) -> tuple[Tensor, Tensor | None]:
        """Numbers (B,), and the weights (B, S) of attention pooling."""
        logits, weights = self.logits(memory, batch)
        return logits.squeeze(1), weights

    def loss(self, logits: Tensor, target: Tensor, smoothing: float) -> tuple[Tensor, dict[str, Tensor]]:
        """The squared error of numbers (B, 1)."""
        error = (logits - target).square().sum()
        return error, {"squared_error": error.detach()}

    def best(self, expected: Tensor, weights: Tensor | None, nbest: int) -> list[Hypothesis]:
        """The number."""
        return [_hypothesis(float(expected), float(expected), weights)]

    def forced(self, predicted: Tensor, target: Tensor, weights: Tensor | None) -> Hypothesis:
        """The number with its log density under a Gaussian around the prediction, with deviation 1."""
        return _hypothesis(float(target[0]), float(predicted), weights)


def _hypothesis(value: float, mean: float, weights: Tensor | None) -> Hypothesis:
    density = -0.5 * ((value - mean) ** 2 + math.log(2 * math.pi))
    return Hypothesis((), density, (), weights, value=value)
