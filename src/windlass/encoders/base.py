"""The interface of encoders, and the embedding of tokens that most of them begin with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from windlass.core.fitting import Gives, Needs, Offers, Refuses, Term
from windlass.core.options import Options, Part, named
from windlass.core.records import Batch, Memory, Padded
from windlass.nn.character_encoder import CharacterEncoderOptions
from windlass.nn.embedding import Embedding, Learned, OneHot, Vectors
from windlass.nn.features import FeatureOptions, Features

VocabularySizes = Mapping[str, int]
"""The vocabulary size of each input, by name; of features, how many numbers a place has."""
SourceEmbedding = Annotated[Learned | OneHot | Vectors | FeatureOptions, Field(discriminator="kind"), named]
"""How the places of a source become vectors: tokens by a table, numbers by a projection."""


class EncoderBase(Options):
    """The options of every encoder.

    >>> EncoderBase().source_embedding is None
    True
    """

    @property
    def source_embedding(self) -> SourceEmbedding | None:
        """The embedding of the source tokens, if the encoder has one."""
        return getattr(self, "embedding", None)

    def build(self, vocabulary: int | VocabularySizes) -> Encoder:
        """Build the encoder."""
        return self.part(vocabulary, self)  # type: ignore[no-any-return]


class MemoryOptions(EncoderBase):
    """The options of an encoder whose memory has states and a summary; a head must use one of them.

    >>> sorted(term.feature for term in MemoryOptions().declare("model.encoder") if isinstance(term, Gives))
    ['model.encoder states', 'model.encoder summary']
    """

    def _terms(self, at: str) -> Iterator[Term]:
        yield Gives(f"{at} states")
        yield Gives(f"{at} summary")
        yield Offers(
            (f"{at} states", f"{at} summary", f"{at} final states"),
            "with model.decoder.context: <model.decoder.context> the decoder never sees the source: use another "
            "context or, if it is recurrent, set model.decoder.start: summary or final",
        )


class TokenOptions(MemoryOptions):
    """The embedding of the source tokens.

    >>> TokenOptions(embedding={"kind": "learned", "size": 4}).source_embedding.build(10).size
    4
    """

    embedding: SourceEmbedding = Field(Learned(), description="the embedding of the source tokens, or of its features")
    spelling: CharacterEncoderOptions | None = Field(
        None, description="a character encoder, concatenated to the embedding; needs source: words with characters"
    )

    def _terms(self, at: str) -> Iterator[Term]:
        yield Needs(
            "source sequence", f"{at}: <{at}> reads one sequence of tokens, not source: <source>: change one of the two"
        )
        if not isinstance(self.embedding, FeatureOptions):
            what = f"{at}.embedding: {self.embedding.kind} is of tokens, and source: <source> gives numbers"
            yield Refuses("source features", f"{what}: set {at}.embedding: features")
        yield from super()._terms(at)
        yield Gives(f"{at} token states")
        if self.spelling is not None:
            yield Needs("source letters", f"{at}.spelling reads letters: set source: words and source.characters: true")


class Encoder(Part, nn.Module, ABC):
    """Encodes the inputs of a batch into a memory."""

    size: int
    """The size of the memory's states and summary: D."""
    final_sizes: tuple[tuple[int, ...], ...] = ()
    """The sizes of the tensors in every layer's last state."""
    prefix: str | None = None
    """The input that the decoder reads as a prefix, for an encoder that leaves the source to it."""
    part_sizes: Mapping[str, int] = {}
    """The sizes of the states of the memory's parts, by name."""
    embedding: Embedding | Features
    """The embedding of the source tokens or features, if the encoder has one."""
    joined: int = 1
    """How many places of the source each place of the memory stands for."""
    front: nn.Module | None
    """Trained layers in front of it, which a source may bring along: the last blocks of a CNN."""

    def __init__(self) -> None:
        super().__init__()
        self.front = None  # not on the class, where it would hide a module that is set later

    def embeddings(self) -> list[Embedding]:
        """All embeddings of source tokens."""
        table = getattr(self, "embedding", None)
        return [table] if isinstance(table, Embedding) else []

    def self_attention(self, batch: Batch) -> tuple[Tensor, ...]:
        """The self-attention of every layer (B, heads, S, S); of none if the encoder has no such layers."""
        return ()

    def keep(self, parts: Collection[str]) -> None:
        """Keep these parts in the memory for the head; others may be dropped."""

    @abstractmethod
    def forward(self, batch: Batch) -> Memory:
        """Batch.inputs -> Memory."""

    def infer(self, batch: Batch, int8: bool = False) -> Memory:
        """`forward` for inference: with packed weights, in 8 bits if `int8`, if the encoder offers them."""
        memory: Memory = self(batch)
        return memory


class TokenEncoder(Encoder):
    """An encoder over embedded tokens, x_t = e(word_t) or [e(word_t); spelling(characters_t)], or over features."""

    def __init__(self, sizes: int | VocabularySizes, options: TokenOptions):
        super().__init__()
        by_name = {"source": sizes} if isinstance(sizes, int) else dict(sizes)
        self.embedding = options.embedding.build(by_name["source"])
        self.spelling: nn.Module | None = None
        self.width = self.embedding.size  # of an embedded token
        if isinstance(options.embedding, FeatureOptions):
            self.joined = options.embedding.stack
        if options.spelling is not None:
            spelling = options.spelling.build(by_name["characters"])
            self.spelling, self.width = spelling, self.width + spelling.size

    def embed(self, batch: Batch) -> Padded:
        """The embedded places of `source`: (B, S, E)."""
        source = batch.inputs["source"]
        if isinstance(self.embedding, Features):
            numbers = source if self.front is None else self.front(source)
            embedded: Padded = self.embedding(numbers)
            return embedded
        x: Tensor = self.embedding(source.values)
        if self.spelling is not None:
            x = torch.cat([x, self.spelling(batch.inputs["characters"])], dim=-1)
        return replace(source, values=x)
