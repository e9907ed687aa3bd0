"""Multi-head self-attention and the layers of a transformer's encoder (Vaswani et al. 2017)."""

from __future__ import annotations

import math
from typing import Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from windlass.core.options import Options
from windlass.nn.attention import masked_softmax
from windlass.nn.dropout import drop
from windlass.nn.linear import Linear
from windlass.nn.positions import Rotation


class TransformerOptions(Options):
    """What the encoder and the decoder of a transformer have alike.

    >>> TransformerOptions(size=8, heads=3)
    Traceback (most recent call last):
    ...
    pydantic_core._pydantic_core.ValidationError: 1 validation error for TransformerOptions
      Value error, size 8 cannot be shared among 3 heads: change one of them ...
    """

    size: int = Field(256, ge=1, description="size of the states")
    heads: int = Field(4, ge=1, description="attention heads")
    hidden: int = Field(512, ge=1, description="units of the feed-forward network")
    layers: int = Field(2, ge=1, le=100, description="number of layers")
    positions: Literal["sinusoidal", "learned", "rotary", "none"] = Field(
        "sinusoidal", description="position encoding; rotary: in the self-attention, by distance"
    )
    longest: int | None = Field(None, ge=1, description="learned positions: the longest sequence; none: 512")
    norm: Literal["before", "after"] = Field("before", description="where the layer norms are; after: as published")
    dropout: float = Field(0.0, ge=0, lt=1, description="on inputs and sublayers")
    attention_dropout: float = Field(
        0.0, ge=0, lt=1, description="on attention weights; slow: torch's own attention has none on a CPU"
    )

    @model_validator(mode="after")
    def _heads_and_positions_fit(self) -> Self:
        if self.size % self.heads:
            raise ValueError(f"size {self.size} cannot be shared among {self.heads} heads: change one of them")
        if self.positions == "rotary" and self.size // self.heads % 2:
            what = f"positions: rotary needs heads of an even size, not {self.size // self.heads}"
            raise ValueError(f"{what}: change size or heads")
        if self.longest is not None and self.positions != "learned":
            raise ValueError("longest is for positions: learned: leave it out")
        return self


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(B, S, D) -> (B, heads, S, D / heads).

    >>> split_heads(torch.zeros(2, 5, 6), heads=3).shape
    torch.Size([2, 3, 5, 2])
    """
    parts: Tensor = x.unflatten(2, (heads, -1))
    return parts.transpose(1, 2)


def attend(q: Tensor, k: Tensor, v: Tensor, real: Tensor | None, dropout: float) -> tuple[Tensor, Tensor]:
    """Scaled dot-product attention of all heads: contexts (B, heads, T, d) and weights (B, heads, T, S).

    head = softmax(q k' / sqrt(d)) v

    >>> attend(*torch.randn(3, 2, 1, 5, 4), real=None, dropout=0.0)[1].shape
    torch.Size([2, 1, 5, 5])
    """
    weights = masked_softmax(q @ k.transpose(2, 3) / math.sqrt(q.size(-1)), real)
    return drop(weights, dropout) @ v, weights


class MultiHead(nn.Module):
    """The projections of multi-head self-attention: of queries, keys and values, and of the heads' outputs.

    >>> MultiHead(size=8, heads=2).project.weight.shape
    torch.Size([24, 8])
    """

    def __init__(self, size: int, heads: int, dropout: float = 0.0):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.project = Linear(size, 3 * size, bias=False)  # W_Q, W_K, W_V stacked
        self.out = Linear(size, size)
        nn.init.xavier_uniform_(self.project.weight)


class SelfAttention(MultiHead):
    """Multi-head self-attention.

    Q = X W_Q    K = X W_K    V = X W_V
    head = softmax(Q K' / sqrt(d)) V        out = [head_1; ...; head_n] W_O + b

    Q, K and V have no biases: softmax would cancel that of K, and that of V would add to b.

    >>> layer = SelfAttention(size=8, heads=2)
    >>> out, weights = layer(torch.randn(3, 5, 8), torch.ones(3, 5) > 0)
    >>> out.shape, weights.shape
    (torch.Size([3, 5, 8]), torch.Size([3, 2, 5, 5]))
    """

    def forward(
        self, x: Tensor, mask: Tensor, turn: Rotation | None = None, look: bool = True
    ) -> tuple[Tensor, Tensor | None]:
        """Sequences (B, S, D) -> (B, S, D) and weights (B, heads, S, S), from each place over all places.

        There are no weights unless `look`: torch's own attention, which is faster, returns none.
        """
        q, k, v = (split_heads(part, self.heads) for part in self.project(x).chunk(3, dim=-1))
        if turn is not None:
            q, k = turn(q), turn(k)
        dropout, real = self.dropout if self.training else 0.0, mask[:, None, None]
        if look:
            context, weights = attend(q, k, v, real, dropout)
        else:
            context, weights = F.scaled_dot_product_attention(q, k, v, real, dropout), None
        return self.out(context.transpose(1, 2).flatten(2)), weights


class TransformerLayer(nn.Module):
    """What the layers of encoder and decoder share: a feed-forward network, residual connections and layer norms.

    norm after:   x = norm(x + f(x)) for every sublayer f          as published
    norm before:  x = x + f(norm(x))                               easier to train
    ffn(x) = W_2 relu(W_1 x + b_1) + b_2
    """

    enter: nn.Linear
    leave: nn.Linear
    norms: nn.ModuleList

    def __init__(self, norm: Literal["before", "after"], dropout: float):
        super().__init__()
        self.before, self.dropout = norm == "before", dropout

    def with_feed_forward(self, size: int, hidden: int, sublayers: int) -> None:
        """Add the feed-forward network, and the norm of each of its sublayers."""
        self.enter, self.leave = Linear(size, hidden), Linear(hidden, size)
        self.norms = nn.ModuleList(nn.LayerNorm(size) for _ in range(sublayers))

    def into(self, sublayer: int, x: Tensor) -> Tensor:
        """The input of a sublayer."""
        y: Tensor = self.norms[sublayer](x) if self.before else x
        return y

    def add(self, sublayer: int, x: Tensor, y: Tensor) -> Tensor:
        """The input x of a sublayer and what it made of it."""
        x = x + self._drop(y)
        return x if self.before else self.norms[sublayer](x)

    def feed_forward(self, x: Tensor) -> Tensor:
        """The last sublayer."""
        last = len(self.norms) - 1
        return self.add(last, x, self.leave(self._drop(torch.relu(self.enter(self.into(last, x))))))

    def _drop(self, x: Tensor) -> Tensor:
        return drop(x, self.dropout, self.training)


class AttentionLayer(TransformerLayer):
    """A layer of a transformer's encoder: self-attention, then a feed-forward network.

    >>> layer = AttentionLayer(size=8, heads=2, hidden=16, norm="before")
    >>> layer(torch.randn(3, 5, 8), torch.ones(3, 5) > 0)[0].shape
    torch.Size([3, 5, 8])
    """

    def __init__(
        self,
        size: int,
        heads: int,
        hidden: int,
        norm: Literal["before", "after"],
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
    ):
        super().__init__(norm, dropout)
        self.attend = SelfAttention(size, heads, attention_dropout)
        self.with_feed_forward(size, hidden, sublayers=2)

    def forward(
        self, x: Tensor, mask: Tensor, turn: Rotation | None = None, look: bool = True
    ) -> tuple[Tensor, Tensor | None]:
        """Sequences (B, S, D) -> (B, S, D) and attention weights (B, heads, S, S), if one looks."""
        attended, weights = self.attend(self.into(0, x), mask, turn, look)
        return self.feed_forward(self.add(0, x, attended)), weights
