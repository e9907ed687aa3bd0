"""The label head: one label for a whole memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from windlass.core.fitting import Gives, Needs, Term
from windlass.core.options import Options
from windlass.core.records import Memory, Padded, Scored
from windlass.heads.wiring import Wiring
from windlass.nn.layers import layers
from windlass.nn.loss import cross_entropy
from windlass.nn.pooling import Attended, PoolOptions


class LabelHeadOptions(Options):
    """One label, from the memory pooled to one vector.

    >>> LabelHeadOptions(pool="max", hidden=(64,)).pool.kind
    'max'
    """

    kind: Literal["label"] = "label"
    pool: PoolOptions = Field(Attended.Options(), description="how the states become one vector")
    hidden: tuple[Annotated[int, Field(ge=1)], ...] = Field((), description="units of layers before the output layer")
    dropout: float = Field(0.0, ge=0, lt=1, description="on what goes into each of these layers")

    def _terms(self, at: str) -> Iterator[Term]:
        yield Gives(f"{at} pairs")
        yield Needs(
            "model.encoder states", f"with {at}: label there must be states to look at, not encoder: <model.encoder>"
        )
        yield from self.pool.declare_over("model.encoder", f"{at}.pool")

    def build(self, wiring: Wiring) -> LabelHead:
        """Make the head."""
        return LabelHead(self, wiring.outputs, wiring.memory_size, "second" in wiring.part_sizes)


class LabelHead(nn.Module):
    """p(label) = softmax(V f(v) + b), v pooled from the memory, f no layer or several.

    Of a pair, both texts are pooled alike, to u and v, and judged by [u; v; |u - v|; u * v] (Mou et al. 2016).

    >>> head = LabelHead(LabelHeadOptions(), labels=3, memory_size=4)
    >>> memory = Memory(torch.randn(2, 5, 4), torch.ones(2, 5) > 0, torch.randn(2, 4))
    >>> logprobs, weights = head(memory)
    >>> logprobs.shape, weights.shape
    (torch.Size([2, 3]), torch.Size([2, 5]))
    """

    def __init__(self, options: LabelHeadOptions, labels: int, memory_size: int, pair: bool = False):
        super().__init__()
        self.pool = options.pool.build(memory_size)
        self.output = layers(self.pool.size * (4 if pair else 1), options.hidden, labels, options.dropout)

    def forward(self, memory: Memory) -> tuple[Tensor, Tensor | None]:
        """Log probabilities (B, V), and how much each place counted (B, S) where pooling weighs them."""
        pooled, weights = self._pool(memory)
        return torch.log_softmax(self.output(pooled), dim=-1), weights

    def _pool(self, memory: Memory) -> tuple[Tensor, Tensor | None]:
        u, weights = self.pool(memory)
        if memory.second is None:
            return u, weights
        v, _ = self.pool(memory.second)
        return torch.cat([u, v, (u - v).abs(), u * v], dim=-1), weights

    def score(self, memory: Memory, target: Padded, smoothing: float = 0.0) -> Scored:
        """The training loss of labels (B, 1)."""
        pooled, _ = self._pool(memory)
        loss, nll = cross_entropy(self.output(pooled), target.values[:, 0], smoothing)
        return Scored(loss, target.mask.sum(), {"nll": nll})

    def force(self, memory: Memory, target: Padded) -> Tensor:
        """The log probability of given labels: (B,)."""
        return self(memory)[0].gather(1, target.values).squeeze(1)  # type: ignore[no-any-return]
