"""The labels head: any number of labels for a whole memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, final

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from windlass.core.errors import RecipeError
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


class LabelsHeadOptions(PooledHeadOptions):
    """Any number of labels for the whole input.

    >>> LabelsHeadOptions(hidden=(64,)).build(Wiring(outputs=3, memory_size=8)).output[-1].out_features
    3
    """

    kind: Literal["labels"] = "labels"
    threshold: float = Field(0.5, gt=0, lt=1, description="a label is assigned if its probability reaches this")

    def build(self, wiring: Wiring) -> LabelsHead:
        """Build the head."""
        return LabelsHead(self, wiring.outputs, wiring.memory_size, "second" in wiring.part_sizes)


@final
class LabelsHead(Head):
    """p(label k) = sigmoid(V_k f(v) + b_k), with v pooled from the memory and f hidden layers, if any.

    >>> head = LabelsHead(LabelsHeadOptions(), labels=3, memory_size=4)
    >>> memory = Memory(torch.randn(2, 5, 4), torch.ones(2, 5) > 0, torch.randn(2, 4))
    >>> head(memory)[0].shape
    torch.Size([2, 3])
    """

    def __init__(self, options: LabelsHeadOptions, labels: int, memory_size: int, pair: bool = False):
        super().__init__()
        self.threshold = options.threshold
        self.pool = options.pool.build(memory_size)
        self.output = mlp(self.pool.size * (4 if pair else 1), options.hidden, labels, options.dropout)

    def forward(self, memory: Memory) -> tuple[Tensor, Tensor | None]:
        """Logits (B, V), and the weights (B, S) of attention pooling."""
        vector, weights = pool_memory(self.pool, memory)
        return self.output(vector), weights

    def score(
        self,
        memory: Memory,
        batch: Batch,
        loss: LossOptions | None = None,
        carry: Carry | None = None,
        sampling_prob: float = 0.0,
    ) -> Scored:
        """The binary cross-entropy of every label, summed; targets (B, V) are 1 where a label is assigned."""
        target, smoothing = gold(batch), (loss or LossOptions()).label_smoothing
        logits, _ = self(memory)
        nll = F.binary_cross_entropy_with_logits(logits, target.values, reduction="sum")
        soft = target.values * (1 - smoothing) + smoothing / 2
        value = F.binary_cross_entropy_with_logits(logits, soft, reduction="sum") if smoothing else nll
        return Scored(value, target.mask.sum(), {"nll": nll.detach()})

    @classmethod
    @torch.no_grad()
    def predict(cls, members: Sequence[Member], request: SearchRequest) -> list[list[Hypothesis]]:
        """The labels whose probability reaches the threshold; for an ensemble, by the mean of the probabilities.

        >>> head = LabelsHead(LabelsHeadOptions(), labels=3, memory_size=4)
        >>> memory = Memory(torch.randn(2, 5, 4), torch.ones(2, 5) > 0, torch.randn(2, 4))
        >>> [row[0].distribution.shape for row in LabelsHead.predict([Member(head, memory)], SearchRequest())]
        [torch.Size([3]), torch.Size([3])]
        """
        if request.nbest > 1:
            raise RecipeError("a set of labels has no alternatives: leave nbest out")
        outputs = [member.head(member.memory) for member in members]
        probabilities = ensemble_mean(torch.sigmoid(logits) for logits, _ in outputs)
        weights = pooling_attention(members, [pooling for _, pooling in outputs])
        threshold = members[0].head.threshold
        return [
            [_hypothesis(each >= threshold, each, None if weights is None else weights[row])]
            for row, each in enumerate(probabilities)
        ]

    @torch.no_grad()
    def force(self, memory: Memory, batch: Batch) -> list[Hypothesis]:
        """The probability of the batch's sets of labels."""
        logits, pooling = self(memory)
        weights = pooling_attention([Member(self, memory, batch)], [pooling])
        assigned, probabilities = gold(batch).values.cpu() > 0, torch.sigmoid(logits).cpu()
        return [
            _hypothesis(assigned[row], each, None if weights is None else weights[row])
            for row, each in enumerate(probabilities)
        ]


def _hypothesis(assigned: Tensor, probabilities: Tensor, weights: Tensor | None) -> Hypothesis:
    """A set of labels, whose probability is the product over all labels, assigned or not."""
    logs = torch.where(assigned, probabilities, 1 - probabilities).clamp(min=1e-45).log()
    total, ids = float(logs.sum()), assigned.nonzero()[:, 0]
    order = ids[probabilities[ids].argsort(descending=True, stable=True)].tolist()
    logprobs = tuple(math.log(max(float(probabilities[n]), 1e-45)) for n in order)
    return Hypothesis(tuple(order), total, logprobs, weights, distribution=probabilities, total=total)
