"""The layers of a transformer's decoder, and the cache of keys and values by which it writes token by token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from windlass.core.records import CellState, Record
from windlass.nn.attention import MemoryAttention, spread
from windlass.nn.linear import Linear
from windlass.nn.positions import Rotation
from windlass.nn.selfattention import MultiHead, TransformerLayer, attend, split_heads


@dataclass(frozen=True)
class Cache(Record):
    """The keys and values (N, heads, C, d) of the last C tokens that a decoder has read, for every layer.

    The last tokens of all rows are side by side, at the end: a row that has read fewer than C has padding before them.

    >>> cache = Cache.empty(layers=2, rows=3, heads=2, size=4, like=torch.zeros(1))
    >>> cache.width, cache.select(torch.tensor([0, 0])).layers[1][0].shape
    (0, torch.Size([2, 2, 0, 4]))
    """

    layers: tuple[CellState, ...]
    read: Tensor | int  # (N,) how many tokens each row has read; a number if it is that of all, and C or more

    @classmethod
    def empty(cls, layers: int, rows: int, heads: int, size: int, like: Tensor) -> Cache:
        """Nothing read."""
        nothing = like.new_zeros(rows, heads, 0, size)
        return cls(((nothing, nothing),) * layers, 0)

    @classmethod
    def of(cls, layers: tuple[CellState, ...], read: Tensor) -> Cache:
        """The cache of rows that have read this many tokens each (N,)."""
        first, width = int(read[0]), layers[0][0].size(2)
        return cls(layers, first if first >= width and bool((read == first).all()) else read)

    def select(self, rows: Tensor) -> Self:
        """Return the rows named by an index: a copy of every key and value, at every step of a beam."""
        return self.map(lambda t: t.index_select(0, rows))

    @property
    def width(self) -> int:
        """C."""
        return self.layers[0][0].size(2)

    def places(self, count: int, device: torch.device) -> Tensor:
        """The places of the next tokens, counted from the first one read: (count,) or (N, count)."""
        ahead = torch.arange(count, device=device)
        return ahead + (self.read if isinstance(self.read, int) else self.read[:, None])

    def view(self, count: int, window: int | None, device: torch.device) -> View:
        """What each of the next tokens sees of the cache and of those before it."""
        width, padded = self.width, isinstance(self.read, Tensor)
        narrow = window is not None and width + count - 1 > window
        if count == 1 and not padded and not narrow:
            return View(None, causal=False)
        if not width and not padded and not narrow:
            return View(None, causal=True)
        key, query = torch.arange(width + count, device=device), torch.arange(count, device=device)[:, None] + width
        seen = key <= query  # (T, C + T)
        if window is not None:
            seen = seen & (key >= query - window)
        if isinstance(self.read, Tensor):
            seen = seen & (key >= width - self.read[:, None])[:, None]
            seen = seen[:, None]  # (N, 1, T, C + T)
        return View(seen, causal=False)

    def after(self, layers: tuple[CellState, ...], mask: Tensor | None, window: int | None) -> Cache:
        """The cache with more tokens behind, `layers` (N, heads, C + T, d); of each row those in the mask (N, T).

        Only what the next token sees is kept.
        """
        total = layers[0][0].size(2)
        width = total if window is None else min(total, window)
        if mask is None or bool(mask.all()):
            kept = tuple((k[:, :, total - width :], v[:, :, total - width :]) for k, v in layers)
            return Cache(kept, self.read + total - self.width)
        lengths = mask.sum(1)
        ends = self.width + lengths  # the places behind each row's last token
        index = (ends[:, None] + torch.arange(-width, 0, device=mask.device)).clamp(min=0)  # (N, C')
        rows = torch.arange(len(index), device=mask.device)[:, None]
        kept = tuple(
            (k.transpose(1, 2)[rows, index].transpose(1, 2), v.transpose(1, 2)[rows, index].transpose(1, 2))
            for k, v in layers
        )
        return Cache(kept, self.read + lengths)


class View(NamedTuple):
    """What queries see: everything, the places up to their own (`causal`), or what a mask says.

    >>> View(None, causal=True).mask is None
    True
    """

    mask: Tensor | None  # (T, C + T) or (N, 1, T, C + T)
    causal: bool


class CausalAttention(MultiHead):
    """Multi-head self-attention of each token over itself and those before it.

    >>> layer, x = CausalAttention(size=8, heads=2), torch.randn(3, 5, 8)
    >>> cache = Cache.empty(1, rows=3, heads=2, size=4, like=x)
    >>> out, keys_values = layer(x, cache.layers[0], cache.view(5, None, x.device), None)
    >>> out.shape, keys_values[0].shape
    (torch.Size([3, 5, 8]), torch.Size([3, 2, 5, 4]))
    """

    def forward(self, x: Tensor, cached: CellState, view: View, turn: Rotation | None) -> tuple[Tensor, CellState]:
        """The next tokens (N, T, D) -> (N, T, D), and the keys and values (N, heads, C + T, d) with theirs."""
        q, k, v = self._heads(x, cached, turn)
        dropout = self.dropout if self.training else 0.0
        context = F.scaled_dot_product_attention(q, k, v, view.mask, dropout, view.causal)
        return self.out(context.transpose(1, 2).flatten(2)), (k, v)

    def weights(self, x: Tensor, cached: CellState, view: View, turn: Rotation | None) -> Tensor:
        """The attention (N, heads, T, C + T) of the next tokens over those before them and themselves."""
        q, k, v = self._heads(x, cached, turn)
        seen = view.mask
        if view.causal:
            seen = torch.ones(q.size(2), k.size(2), dtype=torch.bool, device=x.device).tril()
        return attend(q, k, v, seen, 0.0)[1]

    def _heads(self, x: Tensor, cached: CellState, turn: Rotation | None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries of the next tokens; keys and values of those before them and their own."""
        q, k, v = (split_heads(part, self.heads) for part in self.project(x).chunk(3, dim=-1))
        if turn is not None:
            q, k = turn(q), turn(k)
        if cached[0].size(2):
            k, v = torch.cat([cached[0], k], dim=2), torch.cat([cached[1], v], dim=2)
        return q, k, v


class CrossAttention(MemoryAttention):
    """Multi-head attention of the decoder's tokens over the places of a memory.

    Q = X W_Q    K = M W_K    V = M W_V        out = [head_1; ...; head_n] W_O + b

    >>> layer = CrossAttention(size=8, memory_size=6, heads=2)
    >>> out, weights = layer(torch.randn(3, 5, 8), layer.prepare(torch.randn(3, 7, 6)), None, look=True)
    >>> out.shape, weights.shape
    (torch.Size([3, 5, 8]), torch.Size([3, 2, 5, 7]))
    """

    def __init__(self, size: int, memory_size: int, heads: int, dropout: float = 0.0):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query = Linear(size, size, bias=False)
        self.memory = Linear(memory_size, 2 * size, bias=False)  # W_K, W_V stacked
        self.out = Linear(size, size)
        nn.init.xavier_uniform_(self.query.weight)
        nn.init.xavier_uniform_(self.memory.weight)

    def prepare(self, states: Tensor) -> CellState:
        """The keys and values (B, heads, S, d) of a memory's states (B, S, M)."""
        keys, values = self.memory(states).chunk(2, dim=-1)
        return split_heads(keys, self.heads), split_heads(values, self.heads)

    def forward(self, x: Tensor, prepared: CellState, real: Tensor | None, look: bool) -> tuple[Tensor, Tensor | None]:
        """Tokens (N, T, D) -> (N, T, D) and weights (B, heads, K * T, S), if one looks.

        The memory has B rows, each for K rows of tokens (hypotheses); `real` (B, S) is None if all places are.
        """
        keys, values = prepared
        q = split_heads(self.query(x).view(keys.size(0), -1, x.size(2)), self.heads)  # (B, heads, K * T, d)
        mask, dropout, weights = None if real is None else real[:, None, None], self.dropout * self.training, None
        if look:
            context, weights = attend(q, keys, values, mask, dropout)
        else:
            context = F.scaled_dot_product_attention(q, keys, values, mask, dropout)
        return self._merge(context, x), weights

    def impose(
        self, row: Tensor, x: Tensor, prepared: CellState, real: Tensor | None, look: bool
    ) -> tuple[Tensor, Tensor | None]:
        """`row` in place of the weights of every query in every head."""
        weights = spread(row.to(prepared[1]), real).expand(1, self.heads, x.size(0) * x.size(1), -1)
        return self._merge(weights @ prepared[1], x), weights if look else None

    def _merge(self, context: Tensor, x: Tensor) -> Tensor:
        """[head_1; ...; head_n] W_O + b for the tokens x (N, T, D)."""
        merged: Tensor = self.out(context.transpose(1, 2).flatten(2).view(x.shape))
        return merged


class DecoderLayer(TransformerLayer):
    """A layer of a transformer's decoder: causal self-attention, attention over the memory, a feed-forward network.

    >>> layer = DecoderLayer(size=8, heads=2, hidden=16, memory_size=6, norm="before")
    >>> x, cache = torch.randn(3, 5, 8), Cache.empty(1, rows=3, heads=2, size=4, like=torch.zeros(1))
    >>> memory = layer.cross.prepare(torch.randn(3, 7, 6))
    >>> layer(x, cache.layers[0], cache.view(5, None, x.device), None, memory, None, look=True)[0].shape
    torch.Size([3, 5, 8])
    """

    def __init__(
        self,
        size: int,
        heads: int,
        hidden: int,
        memory_size: int,
        norm: Literal["before", "after"],
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
    ):
        super().__init__(norm, dropout)
        self.attend = CausalAttention(size, heads, attention_dropout)
        self.cross = CrossAttention(size, memory_size, heads, attention_dropout) if memory_size else None
        self.with_feed_forward(size, hidden, sublayers=3 if memory_size else 2)

    def forward(
        self,
        x: Tensor,
        cached: CellState,
        view: View,
        turn: Rotation | None,
        memory: CellState | None,
        real: Tensor | None,
        look: bool,
    ) -> tuple[Tensor, CellState, Tensor | None]:
        """The next tokens (N, T, D) -> (N, T, D), keys and values with theirs, and weights over the memory."""
        attended, cached = self.attend(self.into(0, x), cached, view, turn)
        x, weights = self.add(0, x, attended), None
        if self.cross is not None and memory is not None:
            attended, weights = self.cross(self.into(1, x), memory, real, look)
            x = self.add(1, x, attended)
        return self.feed_forward(x), cached, weights
