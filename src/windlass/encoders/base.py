"""What an encoder is, and how tokens get their vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from windlass.core.errors import RecipeError
from windlass.core.options import Options
from windlass.core.records import Batch, Memory
from windlass.nn.embedding import EmbeddingOptions, Learned
from windlass.nn.spelling import SpellingOptions

Sizes = Mapping[str, int]
"""How many ids each input has, by its name."""


class EncoderBase(Options):
    """What the options of every encoder say: which kinds of source it reads.

    >>> EncoderBase.reads
    ('text', 'words')
    """

    reads: ClassVar[tuple[str, ...]] = ("text", "words")


class TokenOptions(EncoderBase):
    """How tokens become vectors.

    >>> TokenOptions().spelling is None
    True
    """

    embedding: EmbeddingOptions = Field(Learned(), description="the vectors of the source tokens")
    spelling: SpellingOptions | None = Field(
        None, description="a second vector for every word, from its letters; needs source: words with characters"
    )


class Encoder(nn.Module, ABC):
    """Turns the inputs of a batch into a memory."""

    size: int
    """The length of a memory's states and of its summary: D."""
    final_sizes: tuple[tuple[int, ...], ...]
    """The lengths of the parts of every layer's last state."""

    @abstractmethod
    def forward(self, batch: Batch) -> Memory:
        """Batch.inputs -> Memory."""

    def infer(self, batch: Batch, int8: bool = False) -> Memory:
        """The same for inference: with packed weights, in 8 bits if `int8`, where an encoder offers them."""
        memory: Memory = self(batch)
        return memory


class TokenEncoder(Encoder):
    """An encoder that begins with the vectors of tokens: x_t = [e(word); spelling(letters)]."""

    def __init__(self, sizes: int | Sizes, options: TokenOptions):
        super().__init__()
        known = {"source": sizes} if isinstance(sizes, int) else dict(sizes)
        self.embedding = options.embedding.build(known["source"])
        self.spelling: nn.Module | None = None
        self.width = self.embedding.size  # of a token's vector
        if options.spelling is not None:
            if "characters" not in known:
                raise RecipeError("model.encoder.spelling needs the letters of words: set source: words")
            spelling = options.spelling.build(known["characters"])
            self.spelling, self.width = spelling, self.width + spelling.size

    def vectors(self, batch: Batch) -> Tensor:
        """The vectors of the tokens of `source`: (B, S, E)."""
        found: Tensor = self.embedding(batch.inputs["source"].values)
        if self.spelling is None:
            return found
        return torch.cat([found, self.spelling(batch.inputs["characters"])], dim=-1)
