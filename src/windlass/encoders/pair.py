"""The encoder of pairs: two texts, read independently or compared word by word."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Literal, Self, final

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from windlass.core.fitting import Gives, Needs, Term
from windlass.core.options import Options as BaseOptions
from windlass.core.options import named
from windlass.core.records import Batch, Memory
from windlass.encoders.attention import AttentionEncoder
from windlass.encoders.base import Encoder, MemoryOptions, SourceEmbedding, VocabularySizes
from windlass.encoders.convolution import ConvolutionEncoder
from windlass.encoders.text import RecurrentEncoder
from windlass.nn.attention import Attention, AttentionOptions, ScaledDot
from windlass.nn.character_encoder import CharacterCNN
from windlass.nn.dropout import drop
from windlass.nn.embedding import Embedding
from windlass.nn.linear import Linear
from windlass.nn.pooling import masked_mean
from windlass.nn.recurrence import BidirectionalOptions, Stack

ReaderOptions = Annotated[
    RecurrentEncoder.Options | ConvolutionEncoder.Options | AttentionEncoder.Options, Field(discriminator="kind"), named
]
"""Every encoder that can read one text of a pair."""


class CompareOptions(BaseOptions):
    """Cross-attention: each word is compared with its context in the other text.

    >>> CompareOptions(score={"kind": "dot", "coverage": True})
    Traceback (most recent call last):
    ...
    pydantic_core._pydantic_core.ValidationError: ...
    """

    score: AttentionOptions = Field(
        ScaledDot.Options(), description="the score of a word of one text and a word of the other"
    )
    size: int = Field(128, ge=1, description="units of the comparison")
    dropout: float = Field(0.0, ge=0, lt=1, description="on the input and output of the comparison")
    compose: BidirectionalOptions | None = Field(None, description="a recurrent network over the comparisons")

    @model_validator(mode="after")
    def _all_used(self) -> CompareOptions:
        if self.score.coverage:
            raise ValueError("coverage changes nothing when all words attend at once: leave it out")
        if self.score.values is not None:
            raise ValueError("a word is compared with the states themselves: leave score.values out")
        return self


@final
class PairEncoder(Encoder):
    """Two texts, read by one network or by two; with attention, each word is compared with its context in the other.

    c_j = sum_i a_ji h_i,  a = softmax_i(score(k_j, h_i))          word j of one text over the words i of the other
    m_j = relu(W [k_j; c_j; k_j - c_j; k_j * c_j] + b)             then, with `compose`, a recurrent network over m

    Both texts are compared with the same weights (Parikh et al. 2016; with `compose` Chen et al. 2017). The memory has
    the states of the first text; its part `second` has those of the second, and `cross_attention` the weights a of the
    second text over the first.

    >>> from windlass.core.records import Padded
    >>> options = PairEncoder.Options(reader={"kind": "recurrent", "size": 3}, attention={"size": 5})
    >>> inputs = {"source": Padded.of([[5, 6, 7], [8]]), "second": Padded.of([[5, 6], [9]])}
    >>> memory = options.build({"source": 10})(Batch(inputs, None, torch.arange(2)))
    >>> memory.states.shape, *(memory.parts[name].states.shape for name in ("second", "cross_attention"))
    (torch.Size([2, 3, 5]), torch.Size([2, 2, 5]), torch.Size([2, 2, 3]))
    """

    class Options(MemoryOptions):
        """A pair encoder."""

        kind: Literal["pair"] = "pair"
        reader: ReaderOptions = Field(RecurrentEncoder.Options(), description="the encoder of each text")
        shared: bool = Field(True, description="one reader for both texts; false: one for each")
        attention: CompareOptions | None = Field(
            None, description="compare the words of both texts by cross-attention; none: encode the texts independently"
        )

        @property
        def source_embedding(self) -> SourceEmbedding:
            """The embedding of the tokens of both texts."""
            return self.reader.embedding

        def _terms(self, at: str) -> Iterator[Term]:
            yield Needs("source pair", f"{at}: pair reads two texts, not source: <source>: set source: pair")
            yield Needs("model.head pairs", f"{at}: pair cannot feed model.head: <model.head>: use label")
            yield from super()._terms(at)
            yield Needs(f"{at}.reader states", f"{at}.reader must give states: use another one")
            if self.attention is not None:
                yield Gives(f"{at} comparisons")
            else:  # the states are the reader's own
                directions = Gives(f"{at} two directions")
                yield from (term for term in self.reader.declare(at) if term == directions)

        @classmethod
        def tiny(cls) -> tuple[Self, ...]:
            """Each text by itself, and compared by several scores, with one network and with two."""
            reader, compared = RecurrentEncoder.Options.small(cell="gru"), CompareOptions.small(size=4)
            scores = [
                CompareOptions.small(score=score, size=4) for score in ("additive", {"kind": "bilinear", "keys": 3})
            ]
            composed = CompareOptions.small(size=4, compose=BidirectionalOptions.small(cell="gru", size=3))
            others = [cls(reader=reader, attention=attention) for attention in (compared, *scores, composed)]
            apart = [cls(reader=reader, shared=False, attention=attention) for attention in (None, compared)]
            letters = reader.model_copy(update={"spelling": CharacterCNN.Options.small(size=4)})
            return cls(reader=reader), *others, *apart, cls(reader=letters, attention=compared)

    def __init__(self, vocabulary: int | VocabularySizes, options: Options):
        super().__init__()
        self.reader = options.reader.build(vocabulary)
        self.other = None if options.shared else options.reader.build(vocabulary)
        self.size = self.reader.size
        self.compare = _Compare(self.size, options.attention) if options.attention is not None else None
        if self.compare is not None:
            self.size = self.compare.size
        self.part_sizes = {"second": self.size}

    def embeddings(self) -> list[Embedding]:
        """The embeddings of both readers."""
        return [*self.reader.embeddings(), *(self.other.embeddings() if self.other is not None else [])]

    def forward(self, batch: Batch) -> Memory:
        """Encode `source` and `second`."""
        first: Memory = self.reader(batch)
        second: Memory = (self.other or self.reader)(_second(batch))
        return replace(first, parts={"second": second}) if self.compare is None else self.compare(first, second)


def _second(batch: Batch) -> Batch:
    """The second text as the source of a batch."""
    inputs, prefix = batch.inputs, "second_"
    others = {name.removeprefix(prefix): part for name, part in inputs.items() if name.startswith(prefix)}
    return replace(batch, inputs={"source": inputs["second"], **others})


class _Compare(nn.Module):
    """Compares the words of two texts by cross-attention."""

    def __init__(self, size: int, options: CompareOptions):
        super().__init__()
        self.attend = Attention(options.score, size, size)
        self.layer = Linear(4 * size, options.size)
        self.dropout = options.dropout
        self.stack: Stack | None = None
        self.size = options.size
        if options.compose is not None:
            self.stack = Stack(options.size, options.compose, options.compose.bidirectional)
            self.size = self.stack.size

    def forward(self, first: Memory, second: Memory) -> Memory:
        """Compare each word with its context in the other text."""
        first_context, _ = self.attend(first.states, self.attend.prepare(second))
        second_context, weights = self.attend(second.states, self.attend.prepare(first))
        compared = self._compare(first, first_context)  # first, as dropout draws in this order
        parts = {"second": self._compare(second, second_context)}
        parts["cross_attention"] = Memory.of_weights(weights, second.mask)
        return replace(compared, parts=parts)

    def _compare(self, memory: Memory, c: Tensor) -> Memory:
        k = memory.states
        joined = torch.cat([k, c, k - c, k * c], dim=-1)
        states = self._drop(torch.relu(self.layer(self._drop(joined)))) * memory.mask[..., None]
        if self.stack is not None:
            states, _ = self.stack(states, memory.mask)
        return Memory(states, memory.mask, masked_mean(states, memory.mask))

    def _drop(self, x: Tensor) -> Tensor:
        return drop(x, self.dropout, self.training)
