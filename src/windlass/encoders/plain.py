"""The plain encoder: no network over the embedded places."""

from __future__ import annotations

from typing import Literal, final

from windlass.core.records import Batch, Memory
from windlass.encoders.base import TokenEncoder, TokenOptions, VocabularySizes
from windlass.nn.pooling import masked_mean


@final
class PlainEncoder(TokenEncoder):
    """The embedded places themselves: regions of a photo to attend to (Xu et al. 2015), or a bag of words.

    states: all e(x_t);  summary: their mean

    It has no last state: start a decoder from its summary.

    >>> import torch
    >>> from windlass.core.records import Padded
    >>> encoder = PlainEncoder.Options(embedding={"kind": "features", "size": 4}).build(3)
    >>> memory = encoder(Batch({"source": Padded(torch.ones(2, 5, 3), torch.ones(2, 5) > 0)}, None, torch.arange(2)))
    >>> memory.states.shape, memory.summary.shape
    (torch.Size([2, 5, 4]), torch.Size([2, 4]))
    """

    class Options(TokenOptions):
        """No network over the embedded places."""

        kind: Literal["plain"] = "plain"

    def __init__(self, vocabulary: int | VocabularySizes, options: Options):
        super().__init__(vocabulary, options)
        self.size = self.width

    def forward(self, batch: Batch) -> Memory:
        """Embed the places of `source`."""
        source = self.embed(batch)
        states = source.values * source.mask[..., None]
        return Memory(states, source.mask, masked_mean(states, source.mask))
