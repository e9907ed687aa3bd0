"""The number head: a real number for a whole memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal, final

import torch
from torch import Tensor

from windlass.core.errors import RecipeError
from windlass.core.fitting import Refuses, Term
from windlass.core.records import Batch, Carry, Hypothesis, Member, Memory, Scored
from windlass.decoding.search import SearchRequest
from windlass.heads.base import (
    Head,
    LossOptions,
    PooledHeadOptions,
    ensemble_mean,
    gold,
    pool_memory,
    pooling_attention,
)
from windlass.heads.wiring import Wiring
from windlass.nn.mlp import mlp


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
class NumberHead(Head):
    """y = w . f(v) + b, with v pooled from the memory and f hidden layers, if any; trained on the squared error.

    The target side standardises numbers: y is in standard deviations from the mean of the training data.

    >>> head = NumberHead(NumberHeadOptions(), memory_size=4)
    >>> memory = Memory(torch.randn(2, 5, 4), torch.ones(2, 5) > 0, torch.randn(2, 4))
    >>> head(memory)[0].shape
    torch.Size([2])
    """

    def __init__(self, options: NumberHeadOptions, memory_size: int, pair: bool = False):
        super().__init__()
        self.pool = options.pool.build(memory_size)
        self.output = mlp(self.pool.size * (4 if pair else 1), options.hidden, 1, options.dropout)

    def forward(self, memory: Memory) -> tuple[Tensor, Tensor | None]:
        """Numbers (B,), and the weights (B, S) of attention pooling."""
        vector, weights = pool_memory(self.pool, memory)
        return self.output(vector).squeeze(1), weights

    def score(
        self,
        memory: Memory,
        batch: Batch,
        loss: LossOptions | None = None,
        carry: Carry | None = None,
        sampling_prob: float = 0.0,
    ) -> Scored:
        """The squared error of numbers (B, 1)."""
        target, (value, _) = gold(batch), self(memory)
        error = (value - target.values[:, 0]).square().sum()
        return Scored(error, target.mask.sum(), {"squared_error": error.detach()})

    @classmethod
    @torch.no_grad()
    def predict(cls, members: Sequence[Member], request: SearchRequest) -> list[list[Hypothesis]]:
        """The number; for an ensemble, the mean.

        >>> head = NumberHead(NumberHeadOptions(), memory_size=4)
        >>> memory = Memory(torch.randn(2, 5, 4), torch.ones(2, 5) > 0, torch.randn(2, 4))
        >>> len(NumberHead.predict([Member(head, memory)], SearchRequest()))
        2
        """
        if request.nbest > 1:
            raise RecipeError("a number has no alternatives: leave nbest out")
        outputs = [member.head(member.memory) for member in members]
        values = ensemble_mean(value for value, _ in outputs).tolist()
        weights = pooling_attention(members, [pooling for _, pooling in outputs])
        return [
            [_hypothesis(value, value, None if weights is None else weights[row])] for row, value in enumerate(values)
        ]

    @torch.no_grad()
    def force(self, memory: Memory, batch: Batch) -> list[Hypothesis]:
        """Score the batch's numbers by their log density under a Gaussian around the prediction, with deviation 1."""
        means, pooling = self(memory)
        weights = pooling_attention([Member(self, memory, batch)], [pooling])
        pairs = zip(gold(batch).values[:, 0].tolist(), means.tolist(), strict=True)
        return [_hypothesis(*pair, None if weights is None else weights[row]) for row, pair in enumerate(pairs)]


def _hypothesis(value: float, mean: float, weights: Tensor | None) -> Hypothesis:
    density = -0.5 * ((value - mean) ** 2 + math.log(2 * math.pi))
    return Hypothesis((), density, (), weights, value=value)
