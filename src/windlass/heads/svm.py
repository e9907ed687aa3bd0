"""A linear support vector machine on sparse features of the source, beside the network."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

import torch
from pydantic import Field
from torch import Tensor, nn

from windlass.core.marks import FEATURES
from windlass.core.options import Options
from windlass.core.records import Batch, Padded
from windlass.heads.base import gold
from windlass.nn.fast.optimiser import without_compiler

MOST_CELLS = 1_000_000
"""Texts times labels that it is fitted to, at most: a few minutes."""
STEPS = 60
"""Steps of L-BFGS, at most."""
MOST_LABELS = 32
"""Labels that have a machine, the most frequent ones: each takes a megabyte."""


class SvmOptions(Options):
    """A linear support vector machine, whose scores are added to those of the trained network.

    >>> SvmOptions().gain
    4.0
    """

    gain: float = Field(4.0, gt=0, description="factor of its scores")
    cost: float = Field(1.0, gt=0, description="of errors on the training data, against the size of the weights")

    least: int = Field(1000, ge=0, description="training texts that it takes; with fewer it is left out")

    def build(self, outputs: int) -> Svm:
        """Build it, not fitted yet."""
        return Svm(self, outputs)


@final
class Svm(nn.Module):
    """gain * (W x + b), with x the features of a text weighted by idf, of length 1 (Fan et al. 2008).

    One label against the others, y = 1 for its texts and -1 for all others, with the squared hinge loss:

    |w|^2 / 2 + b^2 / 2 + cost * sum over texts of max(0, 1 - y (w x + b))^2

    Of labels beyond the most frequent ones, which have no weights, the score is -1: that of texts of other labels.
    It is fitted to the training data before the network is trained. It makes hardly an error there, so a network
    trained with it would learn nothing: the two are added only where the model predicts.

    >>> SvmOptions(gain=2.0).build(3)(Padded.of([[7, 9], [8]])).tolist()
    [[-2.0, -2.0, -2.0], [-2.0, -2.0, -2.0]]
    """

    table: Tensor  # (D, C)
    idf: Tensor  # (D,)
    bias: Tensor  # (C,)
    labels: Tensor  # (C,), of the columns

    def __init__(self, options: SvmOptions, outputs: int):
        super().__init__()
        self.gain, self.cost, self.outputs = options.gain, options.cost, outputs
        count = min(outputs, MOST_LABELS)
        self.register_buffer("table", torch.zeros(FEATURES, count))
        self.register_buffer("idf", torch.ones(FEATURES))
        self.register_buffer("bias", -torch.ones(count))  # as of a label that no text has
        self.register_buffer("labels", torch.arange(count))

    def forward(self, features: Padded) -> Tensor:
        """Of features (B, N): (B, V)."""
        weights = self._weights(features)
        scores = nn.functional.embedding_bag(features.values, self.table, per_sample_weights=weights, mode="sum")
        others = scores.new_full((len(scores), self.outputs), -1.0)
        return self.gain * others.index_copy(1, self.labels, scores + self.bias)

    def _weights(self, features: Padded) -> Tensor:
        """The weights (B, N) of features in x."""
        weights = self.idf[features.values] * features.mask
        length: Tensor = torch.linalg.vector_norm(weights, dim=1, keepdim=True)
        return weights / length.clamp(min=1e-8)

    @torch.no_grad()
    def fit(self, batches: Iterable[Batch], anew: bool = True) -> None:
        """Fit idf, weights and biases to batches with targets (B, 1).

        To finetune it, not `anew`: idf stays, and the loss has how far weights are from what they were.
        """
        read: list[tuple[Padded, Tensor]] = []
        left = MOST_CELLS // len(self.bias)
        for batch in batches:
            if left <= 0:
                break
            read.append((batch.inputs["sparse"], gold(batch).values[:, 0]))
            left -= batch.size
        if not read:
            return
        labels = torch.cat([target for _, target in read])
        counts = torch.bincount(torch.cat([f.values[f.mask] for f, _ in read]), minlength=FEATURES)
        if anew:
            self.idf.copy_(1 + ((1 + len(labels)) / (1 + counts)).log())
            self.bias.zero_()
            frequent = torch.bincount(labels, minlength=self.outputs).argsort(descending=True, stable=True)
            self.labels.copy_(frequent[: len(self.labels)].sort().values)
        used = counts.nonzero()[:, 0]
        column = torch.zeros_like(counts)
        column[used] = torch.arange(len(used))
        lengths = torch.cat([f.mask.sum(1) for f, _ in read])
        rows = torch.arange(len(labels)).repeat_interleave(lengths)
        columns = torch.cat([column[f.values[f.mask]] for f, _ in read])
        values = torch.cat([self._weights(f)[f.mask] for f, _ in read])
        at, size = torch.stack([rows, columns]), (len(labels), len(used))
        x = torch.sparse_coo_tensor(at, values, size, check_invariants=False).coalesce()
        for n, label in enumerate(self.labels):
            y = torch.where(labels == label, 1.0, -1.0)
            before = torch.sparse.mm(x, self.table[used, n : n + 1])[:, 0] + self.bias[n]
            weight, bias = _machine(x, y, before, self.cost)
            self.table[used, n] += weight
            self.bias[n] += bias


def _machine(x: Tensor, y: Tensor, before: Tensor, cost: float) -> tuple[Tensor, Tensor]:
    """What weights and bias must change, from scores before, to tell rows of x (N, D) with y = 1 from those with -1."""
    weight, bias = torch.zeros(x.size(1), 1, requires_grad=True), torch.zeros((), requires_grad=True)
    optimiser = without_compiler(torch.optim.LBFGS)([weight, bias], max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        margin = y * (before + torch.sparse.mm(x, weight)[:, 0] + bias)
        value: Tensor = (weight.square().sum() + bias.square()) / 2 + cost * (1 - margin).clamp(min=0).square().sum()
        torch.autograd.backward(value)
        return value

    optimiser.step(loss)
    return weight.detach()[:, 0], bias.detach()
