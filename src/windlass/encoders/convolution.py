"""The convolutional encoder."""

from __future__ import annotations

from typing import Literal, Self, final

from windlass.core.records import Batch, Memory
from windlass.encoders.base import TokenEncoder, TokenOptions, VocabularySizes
from windlass.nn.convolution import ConvolutionOptions, Convolutions
from windlass.nn.pooling import masked_max


@final
class ConvolutionEncoder(TokenEncoder):
    """Convolutions over embedded tokens (Collobert et al. 2011, Kim 2014).

    h_t = act(sum over k of W_k e(x_{t+k}) + b);  states: all h_t;  summary: max_t h_t

    It has no last state: start a decoder from its summary.

    >>> import torch
    >>> from windlass.core.records import Padded
    >>> from windlass.nn.embedding import Learned
    >>> encoder = ConvolutionEncoder.Options(size=4, widths=(2, 3), embedding=Learned(size=3)).build(vocabulary=10)
    >>> memory = encoder(Batch({"source": Padded.of([[5, 6, 7], [8]])}, None, torch.arange(2)))
    >>> memory.states.shape, memory.summary.shape
    (torch.Size([2, 3, 8]), torch.Size([2, 8]))
    """

    class Options(ConvolutionOptions, TokenOptions):
        """A convolutional encoder."""

        kind: Literal["convolution"] = "convolution"

        @classmethod
        def tiny(cls) -> tuple[Self, ...]:
            """One width, several widths, and several layers."""
            layers = cls.small(layers=3, connect="residual", activation="gated")
            return cls.small(), cls.small(widths=(1, 2, 4), activation="tanh"), layers

    def __init__(self, vocabulary: int | VocabularySizes, options: Options):
        super().__init__(vocabulary, options)
        self.layers = Convolutions(self.width, options)
        self.size = self.layers.size

    def forward(self, batch: Batch) -> Memory:
        """Encode the tokens of `source`."""
        source = self.embed(batch)
        states = self.layers(source.values, source.mask)
        return Memory(states, source.mask, masked_max(states, source.mask))
