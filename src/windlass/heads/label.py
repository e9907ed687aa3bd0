"""The label head: one label for a whole memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Literal, Self, final

import torch
from pydantic import Field
from torch import Tensor

from windlass.core.fitting import Needs, Refuses, Term
from windlass.core.records import Batch, Hypothesis, Memory
from windlass.heads.base import Wiring
from windlass.heads.pooled import PooledHead, PooledHeadOptions, WideOptions, extra_input
from windlass.heads.svm import SvmOptions
from windlass.nn.loss import cross_entropy


class LabelHeadOptions(PooledHeadOptions):
    """One label for the whole input.

    >>> LabelHeadOptions(pool="max", hidden=(64,)).build(Wiring(outputs=3, memory_size=8)).output[0].out_features
    64
    """

    kind: Literal["label"] = "label"
    svm: SvmOptions | None = Field(
        None, description="a linear support vector machine, fitted apart and added to the network where it predicts"
    )

    def _terms(self, at: str) -> Iterator[Term]:
        yield from super()._terms(at)
        if self.svm is not None:
            kinds = "[ngrams, skip, affix, opening, shape]"
            yield Needs(
                "source sparse", f"{at}.svm reads sparse features: set source.sparse: {kinds}, or {at}.svm: null"
            )
            yield Refuses("source pair", f"{at}.svm reads features of one text, not of a pair: leave it out")

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """And with n-grams and a support vector machine."""
        return *super().tiny(), cls.small(wide=WideOptions(dropout=0.0), svm=SvmOptions())

    def build(self, wiring: Wiring) -> LabelHead:
        """Build the head."""
        return LabelHead(self, wiring.outputs, wiring.memory_size, "second" in wiring.part_sizes)


@final
class LabelHead(PooledHead):
    """p(label) = softmax(V f(v) + b), with v pooled from the memory and f hidden layers, if any.

    >>> head = LabelHead(LabelHeadOptions(), labels=3, memory_size=4)
    >>> memory = Memory(torch.randn(2, 5, 4), torch.ones(2, 5) > 0, torch.randn(2, 4))
    >>> logprobs, weights = head(memory)
    >>> logprobs.shape, weights.shape
    (torch.Size([2, 3]), torch.Size([2, 5]))
    """

    def __init__(self, options: LabelHeadOptions, labels: int, memory_size: int, pair: bool = False):
        super().__init__(options, labels, memory_size, pair)
        self.svm = None if options.svm is None else options.svm.build(labels)

    def prepare(self, batches: Iterable[Batch], anew: bool = True) -> None:
        """Fit the support vector machine."""
        if self.svm is not None:
            self.svm.fit(batches, anew)

    def forward(self, memory: Memory, batch: Batch | None = None) -> tuple[Tensor, Tensor | None]:
        """Log probabilities (B, V), and the weights (B, S) of attention pooling.

        The support vector machine counts except in training; the loss is always that of the network alone.
        """
        logits, weights = self.logits(memory, batch)
        if self.svm is not None and batch is not None and not self.training:
            logits = logits + self.svm(extra_input(batch, "sparse"))
        return torch.log_softmax(logits, dim=-1), weights

    def loss(self, logits: Tensor, target: Tensor, smoothing: float) -> tuple[Tensor, dict[str, Tensor]]:
        """Cross-entropy with labels (B, 1)."""
        value, nll = cross_entropy(logits, target[:, 0], smoothing)
        return value, {"nll": nll}

    def expected(self, predicted: Tensor) -> Tensor:
        """Probabilities."""
        return predicted.exp()

    def best(self, expected: Tensor, weights: Tensor | None, nbest: int) -> list[Hypothesis]:
        """The most probable labels."""
        labels = expected.argsort(descending=True, stable=True)[:nbest].tolist()
        logprobs = [math.log(max(float(expected[label]), 1e-45)) for label in labels]
        return [
            Hypothesis((n,), p, (p,), weights, distribution=expected) for n, p in zip(labels, logprobs, strict=True)
        ]

    def forced(self, predicted: Tensor, target: Tensor, weights: Tensor | None) -> Hypothesis:
        """The label with its probability."""
        label = int(target[0])
        logprob = float(predicted[label])
        return Hypothesis((label,), logprob, (logprob,), weights, distribution=predicted.exp().cpu())
