"""What an encoder is, and how tokens get their vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping

import torch
from pydantic import Field
from torch import Tensor, nn

from windlass.core.errors import WindlassError
from windlass.core.fitting import Gives, Needs, Offers, Term
from windlass.core.options import Options
from windlass.core.records import Batch, Memory
from windlass.nn.embedding import Embedding, EmbeddingOptions, Learned
from windlass.nn.spelling import SpellingOptions

Sizes = Mapping[str, int]
"""How many ids each input has, by its name."""


class EncoderBase(Options):
    """What the options of every encoder have.

    >>> EncoderBase().source_embedding is None
    True
    """

    @property
    def source_embedding(self) -> EmbeddingOptions | None:
        """How tokens of the source become vectors, if the encoder looks them up."""
        return None


class MemoryOptions(EncoderBase):
    """The options of an encoder that leaves a memory of states and their summary, one of which a head must use.

    >>> sorted(term.feature for term in MemoryOptions().declare("model.encoder") if isinstance(term, Gives))
    ['model.encoder states', 'model.encoder summary']
    """

    def _terms(self, at: str) -> Iterator[Term]:
        yield Gives(f"{at} states")
        yield Gives(f"{at} summary")
        yield Offers(
            (f"{at} states", f"{at} summary", f"{at} final states"),
            "with context: <model.decoder.context> and start: <model.decoder.start> the decoder never sees the source: "
            "set model.decoder.start: summary or final, or another context",
        )


class TokenOptions(MemoryOptions):
    """How tokens become vectors.

    >>> TokenOptions().spelling is None
    True
    """

    embedding: EmbeddingOptions = Field(Learned(), description="the vectors of the source tokens")
    spelling: SpellingOptions | None = Field(
        None, description="a second vector for every word, from its letters; needs source: words with characters"
    )

    @property
    def source_embedding(self) -> EmbeddingOptions:
        """How tokens become vectors."""
        return self.embedding

    def _terms(self, at: str) -> Iterator[Term]:
        yield Needs(
            "source sequence", f"{at}: <{at}> reads one sequence of tokens, not source: <source>: change one of the two"
        )
        yield from super()._terms(at)
        yield Gives(f"{at} token states")
        if self.spelling is not None:
            yield Needs("source letters", f"{at}.spelling reads letters: set source: words and source.characters: true")


class Encoder(nn.Module, ABC):
    """Turns the inputs of a batch into a memory."""

    size: int
    """The length of a memory's states and of its summary: D."""
    final_sizes: tuple[tuple[int, ...], ...]
    """The lengths of the parts of every layer's last state."""
    prefix: str | None = None
    """The input that a decoder reads before it writes, for an encoder that leaves the source to the decoder."""
    part_sizes: Mapping[str, int] = {}
    """The lengths of the states of a memory's parts, by name."""
    embedding: Embedding
    """The vectors of the source's tokens, where an encoder looks them up."""

    def embeddings(self) -> list[Embedding]:
        """Every table of vectors of the source's tokens."""
        return [self.embedding] if hasattr(self, "embedding") else []

    def self_attention(self, batch: Batch) -> tuple[Tensor, ...]:
        """The weights of every layer (B, heads, S, S), for an encoder whose places attend to each other."""
        raise WindlassError("there is no self-attention in this model: its encoder is of another kind")

    def keep(self, parts: Collection[str]) -> None:
        """Leave these parts in the memory, as the head reads them; others need not be held."""

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
            spelling = options.spelling.build(known["characters"])
            self.spelling, self.width = spelling, self.width + spelling.size

    def vectors(self, batch: Batch) -> Tensor:
        """The vectors of the tokens of `source`: (B, S, E)."""
        found: Tensor = self.embedding(batch.inputs["source"].values)
        if self.spelling is None:
            return found
        return torch.cat([found, self.spelling(batch.inputs["characters"])], dim=-1)
