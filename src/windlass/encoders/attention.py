"""The self-attention encoder: a transformer's."""

from __future__ import annotations

from typing import Literal, Self, final

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from windlass.core.records import Batch, Memory
from windlass.encoders.base import TokenEncoder, TokenOptions, VocabularySizes
from windlass.nn import fast
from windlass.nn.dropout import drop
from windlass.nn.fast.interface import laid_out
from windlass.nn.fast.packed import pack_linear_layers
from windlass.nn.linear import Linear
from windlass.nn.pooling import masked_mean
from windlass.nn.positions import LearnedPositions, Rotation, sinusoids
from windlass.nn.recurrence import BidirectionalOptions, Stack
from windlass.nn.selfattention import AttentionLayer, TransformerOptions


@final
class AttentionEncoder(TokenEncoder):
    """Transformer layers over embedded tokens, or over a recurrent network (Vaswani et al. 2017).

    x_t = e(x_t) + position_t;  every layer: self-attention, then a feed-forward network
    states: the last layer's;  summary: their mean

    Self-attention ignores the order of tokens: positions encode it, or the recurrent network `below`.

    >>> from windlass.core.records import Padded
    >>> from windlass.nn.embedding import Learned
    >>> options = AttentionEncoder.Options(size=4, heads=2, hidden=8, embedding=Learned(size=3))
    >>> memory = options.build(vocabulary=10)(Batch({"source": Padded.of([[5, 6, 7], [8]])}, None, torch.arange(2)))
    >>> memory.states.shape, memory.summary.shape
    (torch.Size([2, 3, 4]), torch.Size([2, 4]))
    """

    class Options(TransformerOptions, TokenOptions):
        """A self-attention encoder."""

        kind: Literal["attention"] = "attention"
        below: BidirectionalOptions | None = Field(None, description="a recurrent network below the attention")

        @model_validator(mode="after")
        def _fits(self) -> AttentionEncoder.Options:
            if self.below is not None and self.positions != "none":
                raise ValueError("the recurrent network below knows the order: set positions: none")
            return self

        @classmethod
        def tiny(cls) -> tuple[Self, ...]:
            """Both places of the norms, every kind of position, and a recurrent network below."""
            after = cls.small(heads=3, hidden=5, norm="after", positions="learned")
            recurrent = BidirectionalOptions.small(cell="gru", size=4)
            below = cls.small(heads=1, hidden=5, layers=1, positions="none", below=recurrent)
            turned = cls.small(heads=3, hidden=5, positions="rotary")
            return cls.small(heads=2, hidden=5, layers=1), after, turned, below

    def __init__(self, vocabulary: int | VocabularySizes, options: Options):
        super().__init__(vocabulary, options)
        self.options, self.size = options, options.size
        width = self.width
        self.below: Stack | None = None
        if options.below is not None:
            self.below = Stack(width, options.below, options.below.bidirectional)
            width = self.below.size
        self.fit = Linear(width, self.size, bias=False) if width != self.size else nn.Identity()
        self.positions = LearnedPositions(options.longest or 512, self.size) if options.positions == "learned" else None
        self.layers = nn.ModuleList(
            AttentionLayer(
                *(self.size, options.heads, options.hidden, options.norm, options.dropout, options.attention_dropout)
            )
            for _ in range(options.layers)
        )
        self.last = nn.LayerNorm(self.size) if options.norm == "before" else nn.Identity()

    def forward(self, batch: Batch) -> Memory:
        """Encode the tokens of `source`."""
        return self._encode(batch, look=False)[0]

    def inference(self, int8: bool = False) -> AttentionEncoder:
        """The encoder with packed weights."""
        return laid_out(self, int8, lambda: pack_linear_layers(self, int8))

    def infer(self, batch: Batch, int8: bool = False) -> Memory:
        """`forward` with packed weights."""
        return (fast.inference(self, int8) or self).forward(batch)

    def self_attention(self, batch: Batch) -> tuple[Tensor, ...]:
        """The attention of every layer (B, heads, S, S)."""
        return self._encode(batch, look=True)[1]

    def _encode(self, batch: Batch, look: bool) -> tuple[Memory, tuple[Tensor, ...]]:
        source = self.embed(batch)
        x = source.values
        if self.below is not None:
            x, _ = self.below(x, source.mask)
        x = self.fit(x)
        if self.positions is not None:
            x = x + self.positions(x.size(1))
        elif self.options.positions == "sinusoidal":
            x = x + sinusoids(x.size(1), self.size, x)
        turn = None
        if self.options.positions == "rotary":
            turn = Rotation.at(torch.arange(x.size(1), device=x.device), self.size // self.options.heads, x)
        x = drop(x, self.options.dropout, self.training)
        attention = []
        for layer in self.layers:
            x, weights = layer(x, source.mask, turn, look)
            attention.append(weights)
        states = self.last(x) * source.mask[..., None]
        return Memory(states, source.mask, masked_mean(states, source.mask)), tuple(attention)
