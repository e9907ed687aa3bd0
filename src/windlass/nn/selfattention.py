"""Self-attention: every place of a sequence looks at every other (Vaswani et al. 2017)."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from windlass.core.errors import DataError


class SelfAttention(nn.Module):
    """Several heads of attention of a sequence over itself, in matrix form.

    Q = X W_Q    K = X W_K    V = X W_V
    head = softmax(Q K' / sqrt(d)) V        out = [head_1; ...; head_n] W_O + b

    There are no biases on Q, K and V: a key's would move all scores of a query alike, a value's would be b again.

    >>> attend = SelfAttention(size=8, heads=2)
    >>> out, weights = attend(torch.randn(3, 5, 8), torch.ones(3, 5) > 0)
    >>> out.shape, weights.shape
    (torch.Size([3, 5, 8]), torch.Size([3, 2, 5, 5]))
    """

    def __init__(self, size: int, heads: int, dropout: float = 0.0):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.project = nn.Linear(size, 3 * size, bias=False)  # W_Q, W_K, W_V under each other
        self.out = nn.Linear(size, size)
        nn.init.xavier_uniform_(self.project.weight)

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Sequences (B, S, D) -> (B, S, D) and weights (B, heads, S, S): a row a place, over all places."""
        q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in self.project(x).chunk(3, dim=-1))
        scores = q @ k.transpose(2, 3) / math.sqrt(q.size(-1))  # (B, heads, S, S)
        real = mask[:, None, None]
        # The least finite number rather than -inf: a row with no real place gives zeros, not NaN.
        weights = torch.softmax(scores.masked_fill(~real, torch.finfo(scores.dtype).min), dim=-1) * real
        seen = F.dropout(weights, self.dropout, self.training) @ v
        return self.out(seen.transpose(1, 2).flatten(2)), weights


class AttentionLayer(nn.Module):
    """Self-attention and a small network at every place, each with a residual connection and a layer norm.

    norm after:   x = norm(x + attend(x));  x = norm(x + feed(x))          as published
    norm before:  x = x + attend(norm(x));  x = x + feed(norm(x))          easier to train
    feed(x) = W_2 relu(W_1 x + b_1) + b_2

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
        """Sequences (B, S, D) -> (B, S, D) and the weights of attention (B, heads, S, S)."""
        first, second = self.norms
        if self.before:
            seen, weights = self.attend(first(x), mask)
            x = x + self._drop(seen)
            return x + self._drop(self._feed(second(x))), weights
        seen, weights = self.attend(x, mask)
        x = first(x + self._drop(seen))
        return second(x + self._drop(self._feed(x))), weights

    def _feed(self, x: Tensor) -> Tensor:
        fed: Tensor = self.leave(self._drop(torch.relu(self.enter(x))))
        return fed

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training)


def sinusoids(places: int, size: int, like: Tensor) -> Tensor:
    """A vector for every place, waves of many lengths: (places, size), of the type of `like`.

    p_{t,2i} = sin(t / 10000^(2i / size))        p_{t,2i+1} = cos(t / 10000^(2i / size))

    >>> sinusoids(2, 4, torch.zeros(1))[0].tolist()
    [0.0, 1.0, 0.0, 1.0]
    """
    rates = torch.exp(torch.arange(0, size, 2, device=like.device, dtype=torch.float64) * (-math.log(10000.0) / size))
    angles = torch.arange(places, device=like.device, dtype=torch.float64)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :size].to(like.dtype)


class LearnedPositions(nn.Module):
    """A vector for every place up to the longest, learned with the rest.

    >>> LearnedPositions(longest=6, size=4)(3).shape
    torch.Size([3, 4])
    """

    def __init__(self, longest: int, size: int):
        super().__init__()
        self.table = nn.Parameter(torch.randn(longest, size) * 0.1)

    def forward(self, places: int) -> Tensor:
        """The vectors of the first places."""
        if places > self.table.size(0):
            raise DataError(
                f"a source of {places} places, but model.encoder.longest is {self.table.size(0)}: "
                "train with a larger one, or with positions: sinusoidal, which has no limit"
            )
        return self.table[:places]
