"""The labels head: any number of labels for a whole memory."""

from __future__ import annotations

import math
from typing import Annotated, Literal, final

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from windlass.core.records import Hypothesis
from windlass.heads.base import Wiring
from windlass.heads.cutoff import Auto, Cutoff
from windlass.heads.pooled import PooledHead, PooledHeadOptions

THRESHOLDS = (0.5, 0.4, 0.3, 0.25, 0.2, 0.15, 0.1)
"""Of `threshold: auto`: F1 is largest at half of the F1 that is reached, so never above 0.5 (Lipton et al. 2014)."""


class LabelsHeadOptions(PooledHeadOptions):
    """Any number of labels for the whole input.

    >>> LabelsHeadOptions(hidden=(64,)).build(Wiring(outputs=3, memory_size=8)).output[-1].out_features
    3
    """

    kind: Literal["labels"] = "labels"
    threshold: Annotated[float, Field(gt=0, lt=1)] | Auto = Field(
        0.5,
        description="a label is assigned if its probability reaches this; auto: the best on dev, after training",
    )

    def build(self, wiring: Wiring) -> LabelsHead:
        """Build the head."""
        return LabelsHead(self, wiring.outputs, wiring.memory_size, "second" in wiring.part_sizes)


@final
class LabelsHead(PooledHead):
    """p(label k) = sigmoid(V_k f(v) + b_k), with v pooled from the memory and f hidden layers, if any.

    >>> from windlass.core.records import Memory
    >>> head = LabelsHead(LabelsHeadOptions(), labels=3, memory_size=4)
    >>> head(Memory(torch.randn(2, 5, 4), torch.ones(2, 5) > 0, torch.randn(2, 4)))[0].shape
    torch.Size([2, 3])
    """

    single = "a set of labels"

    def __init__(self, options: LabelsHeadOptions, labels: int, memory_size: int, pair: bool = False):
        super().__init__(options, labels, memory_size, pair)
        self.threshold = Cutoff("threshold", options.threshold, 0.3, THRESHOLDS)

    def loss(self, logits: Tensor, target: Tensor, smoothing: float) -> tuple[Tensor, dict[str, Tensor]]:
        """The binary cross-entropy of every label; targets (B, V) are 1 where a label is assigned."""
        nll = F.binary_cross_entropy_with_logits(logits, target, reduction="sum")
        soft = target * (1 - smoothing) + smoothing / 2
        value = F.binary_cross_entropy_with_logits(logits, soft, reduction="sum") if smoothing else nll
        return value, {"nll": nll.detach()}

    def expected(self, predicted: Tensor) -> Tensor:
        """Probabilities."""
        return torch.sigmoid(predicted)

    def best(self, expected: Tensor, weights: Tensor | None, nbest: int) -> list[Hypothesis]:
        """The labels whose probability reaches the threshold."""
        return [_hypothesis(expected >= self.threshold.value, expected, weights)]

    def forced(self, predicted: Tensor, target: Tensor, weights: Tensor | None) -> Hypothesis:
        """The set of labels with its probability."""
        return _hypothesis(target.cpu() > 0, torch.sigmoid(predicted).cpu(), weights)


def _hypothesis(assigned: Tensor, probabilities: Tensor, weights: Tensor | None) -> Hypothesis:
    """A set of labels, whose probability is the product over all labels, assigned or not."""
    logs = torch.where(assigned, probabilities, 1 - probabilities).clamp(min=1e-45).log()
    total, ids = float(logs.sum()), assigned.nonzero()[:, 0]
    order = ids[probabilities[ids].argsort(descending=True, stable=True)].tolist()
    logprobs = tuple(math.log(max(float(probabilities[n]), 1e-45)) for n in order)
    return Hypothesis(tuple(order), total, logprobs, weights, distribution=probabilities, total=total)
