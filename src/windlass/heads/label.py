"""The label head: one label for a whole memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, final

import torch
from torch import Tensor

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
from windlass.nn.loss import cross_entropy
from windlass.nn.mlp import mlp


class LabelHeadOptions(PooledHeadOptions):
    """One label for the whole input.

    >>> LabelHeadOptions(pool="max", hidden=(64,)).build(Wiring(outputs=3, memory_size=8)).output[0].out_features
    64
    """

    kind: Literal["label"] = "label"

    def build(self, wiring: Wiring) -> LabelHead:
        """Build the head."""
        return LabelHead(self, wiring.outputs, wiring.memory_size, "second" in wiring.part_sizes)


@final
class LabelHead(Head):
    """p(label) = softmax(V f(v) + b), with v pooled from the memory and f hidden layers, if any.

    For a pair, both texts are pooled, to u and v, and classified by [u; v; |u - v|; u * v] (Mou et al. 2016).

    >>> head = LabelHead(LabelHeadOptions(), labels=3, memory_size=4)
    >>> memory = Memory(torch.randn(2, 5, 4), torch.ones(2, 5) > 0, torch.randn(2, 4))
    >>> logprobs, weights = head(memory)
    >>> logprobs.shape, weights.shape
    (torch.Size([2, 3]), torch.Size([2, 5]))
    """

    def __init__(self, options: LabelHeadOptions, labels: int, memory_size: int, pair: bool = False):
        super().__init__()
        self.pool = options.pool.build(memory_size)
        self.output = mlp(self.pool.size * (4 if pair else 1), options.hidden, labels, options.dropout)

    def forward(self, memory: Memory) -> tuple[Tensor, Tensor | None]:
        """Log probabilities (B, V), and the weights (B, S) of attention pooling."""
        vector, weights = pool_memory(self.pool, memory)
        return torch.log_softmax(self.output(vector), dim=-1), weights

    def score(
        self,
        memory: Memory,
        batch: Batch,
        loss: LossOptions | None = None,
        carry: Carry | None = None,
        sampling_prob: float = 0.0,
    ) -> Scored:
        """The training loss of labels (B, 1)."""
        target, smoothing = gold(batch), (loss or LossOptions()).label_smoothing
        vector, _ = pool_memory(self.pool, memory)
        value, nll = cross_entropy(self.output(vector), target.values[:, 0], smoothing)
        return Scored(value, target.mask.sum(), {"nll": nll})

    @classmethod
    @torch.no_grad()
    def predict(cls, members: Sequence[Member], request: SearchRequest) -> list[list[Hypothesis]]:
        """The most probable labels; for an ensemble, by the mean of the probabilities.

        >>> head = LabelHead(LabelHeadOptions(), labels=3, memory_size=4)
        >>> memory = Memory(torch.randn(2, 5, 4), torch.ones(2, 5) > 0, torch.randn(2, 4))
        >>> [len(row) for row in LabelHead.predict([Member(head, memory)], SearchRequest(nbest=2))]
        [2, 2]
        """
        outputs = [member.head(member.memory) for member in members]
        probabilities = ensemble_mean(logprobs.exp() for logprobs, _ in outputs)
        weights = pooling_attention(members, [weights for _, weights in outputs])
        hypotheses = []
        for row, p in enumerate(probabilities):
            best = p.argsort(descending=True, stable=True)[: request.nbest].tolist()
            attention = None if weights is None else weights[row]
            hypotheses.append([_hypothesis(label, p, attention) for label in best])
        return hypotheses

    @torch.no_grad()
    def force(self, memory: Memory, batch: Batch) -> list[Hypothesis]:
        """The probability of the batch's labels."""
        logprobs, pooling = self(memory)
        weights = pooling_attention([Member(self, memory, batch)], [pooling])
        return [
            replace(
                _hypothesis(label, logprobs[row].exp().cpu(), None if weights is None else weights[row]),
                score=float(logprobs[row, label]),
                logprobs=(float(logprobs[row, label]),),
            )
            for row, label in enumerate(gold(batch).values[:, 0].tolist())
        ]


def _hypothesis(label: int, probabilities: Tensor, weights: Tensor | None) -> Hypothesis:
    logprob = math.log(max(float(probabilities[label]), 1e-45))
    return Hypothesis((label,), logprob, (logprob,), weights, distribution=probabilities)
