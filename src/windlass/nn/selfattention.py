"""Multi-head self-attention, transformer layers and positions (Vaswani et al. 2017)."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from windlass.core.errors import DataError
from windlass.nn.attention import masked_softmax


class SelfAttention(nn.Module):
    """Multi-head self-attention.

    Q = X W_Q    K = X W_K    V = X W_V
    head = softmax(Q K' / sqrt(d)) V        out = [head_1; ...; head_n] W_O + b

    Q, K and V have no biases: softmax would cancel that of K, and that of V would add to b.

    >>> attend = SelfAttention(size=8, heads=2)
    >>> out, weights = attend(torch.randn(3, 5, 8), torch.ones(3, 5) > 0)
    >>> out.shape, weights.shape
    (torch.Size([3, 5, 8]), torch.Size([3, 2, 5, 5]))
    """

    def __init__(self, size: int, heads: int, dropout: float = 0.0):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.project = nn.Linear(size, 3 * size, bias=False)  # W_Q, W_K, W_V stacked
        self.out = nn.Linear(size, size)
        nn.init.xavier_uniform_(self.project.weight)

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Sequences (B, S, D) -> (B, S, D) and weights (B, heads, S, S), from each place over all places."""
        q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in self.project(x).chunk(3, dim=-1))
        scores = q @ k.transpose(2, 3) / math.sqrt(q.size(-1))  # (B, heads, S, S)
        weights = masked_softmax(scores, mask[:, None, None])
        context = F.dropout(weights, self.dropout, self.training) @ v
        return self.out(context.transpose(1, 2).flatten(2)), weights


class AttentionLayer(nn.Module):
    """A transformer layer: self-attention and a feed-forward network, both with residual connection and layer norm.

    norm after:   x = norm(x + attend(x));  x = norm(x + ffn(x))          as published
    norm before:  x = x + attend(norm(x));  x = x + ffn(norm(x))          easier to train
    ffn(x) = W_2 relu(W_1 x + b_1) + b_2

    >>> layer = AttentionLayer(size=8, heads=2, hidden=16, norm="before")
    >>> layer(torch.randn(3, 5, 8), torch.ones(3, 5) > 0)[0].shape
    torch.Size([3, 5, 8])
    """

    def __init__(self, size: int, heads: int, hidden: int, norm: Literal["before", "after"], dropout: float = 0.0):
        super().__init__()
        self.before, self.dropout = norm == "before", dropout
        self.attend = SelfAttention(size, heads, dropout)
        self.enter, self.leave = nn.Linear(size, hidden), nn.Linear(hidden, size)
        self.norms = nn.ModuleList([nn.LayerNorm(size), nn.LayerNorm(size)])

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Sequences (B, S, D) -> (B, S, D) and attention weights (B, heads, S, S)."""
        first, second = self.norms
        if self.before:
            attended, weights = self.attend(first(x), mask)
            x = x + self._drop(attended)
            return x + self._drop(self._feed_forward(second(x))), weights
        attended, weights = self.attend(x, mask)
        x = first(x + self._drop(attended))
        return second(x + self._drop(self._feed_forward(x))), weights

    def _feed_forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.leave(self._drop(torch.relu(self.enter(x))))
        return y

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training)


def sinusoids(places: int, size: int, like: Tensor) -> Tensor:
    """Sinusoidal positions (places, size), with the device and dtype of `like`.

    p_{t,2i} = sin(t / 10000^(2i / size))        p_{t,2i+1} = cos(t / 10000^(2i / size))

    >>> sinusoids(2, 4, torch.zeros(1))[0].tolist()
    [0.0, 1.0, 0.0, 1.0]
    """
    rates = torch.exp(torch.arange(0, size, 2, device=like.device, dtype=torch.float64) * (-math.log(10000.0) / size))
    angles = torch.arange(places, device=like.device, dtype=torch.float64)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :size].to(like.dtype)


class LearnedPositions(nn.Module):
    """Learned positions, up to a longest sequence.

    >>> LearnedPositions(longest=6, size=4)(3).shape
    torch.Size([3, 4])
    """

    def __init__(self, longest: int, size: int):
        super().__init__()
        self.table = nn.Parameter(torch.randn(longest, size) * 0.1)

    def forward(self, places: int) -> Tensor:
        """The vectors of the first `places` places."""
        if places > self.table.size(0):
            raise DataError(
                f"the source has {places} tokens, but model.encoder.longest is {self.table.size(0)}: "
                "train with a larger one, or with positions: sinusoidal, which has no limit"
            )
        return self.table[:places]
