"""The recurrent encoder, and the two that leave everything to the decoder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, Self, final

import torch
from pydantic import Field

from windlass.core.fitting import Gives, Needs, Term
from windlass.core.records import Batch, Memory
from windlass.encoders.base import Encoder, EncoderBase, TokenEncoder, TokenOptions, VocabularySizes
from windlass.nn import fast
from windlass.nn.embedding import Embedding
from windlass.nn.fast.stack import InferenceStack
from windlass.nn.recurrence import Stack, StackOptions


@final
class RecurrentEncoder(TokenEncoder):
    """A stack of recurrent layers over embedded tokens, in one direction or both.

    h_t = R(h_{t-1}, e(x_t));  states: all h_t;  summary: the last h_t of each direction

    >>> from windlass.core.records import Padded
    >>> from windlass.nn.embedding import Learned
    >>> encoder = RecurrentEncoder.Options(size=4, embedding=Learned(size=3)).build(vocabulary=10)
    >>> memory = encoder(Batch({"source": Padded.of([[5, 6, 7], [8]])}, None, torch.arange(2)))
    >>> memory.states.shape, memory.summary.shape
    (torch.Size([2, 3, 8]), torch.Size([2, 8]))
    """

    class Options(StackOptions, TokenOptions):
        """A recurrent encoder."""

        kind: Literal["recurrent"] = "recurrent"
        bidirectional: bool = Field(True, description="read in both directions")
        start: Literal["zeros", "learned"] = Field("zeros", description="the initial state of every layer")

        @classmethod
        def tiny(cls) -> tuple[Self, ...]:
            """Also from a learned state."""
            return cls.small(), cls.small(start="learned")

        def _terms(self, at: str) -> Iterator[Term]:
            yield from super()._terms(at)
            yield Gives(f"{at} final states", self.cell.stateful)
            yield Gives(f"{at} two directions", self.bidirectional)

    def __init__(self, vocabulary: int | VocabularySizes, options: Options):
        super().__init__(vocabulary, options)
        self.stack = Stack(self.width, options, options.bidirectional, options.start == "learned")
        self.size = self.stack.size
        self.final_sizes = ((self.size,) * self.stack.first.parts,) * options.layers

    def forward(self, batch: Batch) -> Memory:
        """Encode the tokens of `source`."""
        return self._encode(batch, self.stack)

    def infer(self, batch: Batch, int8: bool = False) -> Memory:
        """`forward` with packed weights, if the stack offers them."""
        return self._encode(batch, fast.inference(self.stack, int8) or self.stack)

    def _encode(self, batch: Batch, stack: Stack | InferenceStack) -> Memory:
        source = batch.inputs["source"]
        if isinstance(stack, InferenceStack) and self.spelling is None and isinstance(self.embedding, Embedding):
            tokens, places = source.values.unique(return_inverse=True)  # a repeated token is multiplied once
            states, final = stack(self.embedding(tokens), source.mask, places)
        else:
            source = self.embed(batch)
            states, final = stack(source.values, source.mask)
        # Not the last layer's state, which is before the residual or highway connection.
        summary = states[torch.arange(batch.size, device=states.device), (source.lengths - 1).clamp(min=0)]
        if self.stack.backward_cells:
            half = self.size // 2
            summary = torch.cat([summary[:, :half], states[:, 0, half:]], dim=1)
        return Memory(states, source.mask, summary, final)


class _NoEncoder(Encoder):
    size = 0

    def __init__(self, vocabulary: int | VocabularySizes = 0, options: EncoderBase | None = None):
        super().__init__()

    def forward(self, batch: Batch) -> Memory:
        """An empty memory."""
        return Memory.empty(batch.size, batch.keys.device)


@final
class PrefixEncoder(_NoEncoder):
    """No encoder: the decoder reads the source as a forced prefix.

    One recurrent network runs over source, separator and target, like a language model with a prompt; with
    `feedback: false`, over the source and then the separator at every step.

    >>> from windlass.core.records import Padded
    >>> PrefixEncoder()(Batch({"source": Padded.of([[5, 6, 7], [8]])}, None, torch.arange(2))).states.shape
    torch.Size([2, 0, 0])
    """

    class Options(EncoderBase):
        """No encoder: the decoder reads the source."""

        kind: Literal["prefix"] = "prefix"

        def _terms(self, at: str) -> Iterator[Term]:
            yield Needs("source sequence", f"{at}: prefix reads one sequence of tokens, not source: <source>: use text")
            yield Needs("vocabulary: joint", f"{at}: prefix needs one vocabulary for both sides: set vocabulary: joint")
            yield Gives(f"{at} prefix")

    prefix = "source"


@final
class NoEncoder(_NoEncoder):
    """No encoder and no input: a language model.

    >>> NoEncoder()(Batch({}, None, torch.arange(2))).states.shape
    torch.Size([2, 0, 0])
    """

    class Options(EncoderBase):
        """No encoder: nothing goes in."""

        kind: Literal["none"] = "none"

        def _terms(self, at: str) -> Iterator[Term]:
            yield Needs("source nothing", f"{at}: none reads nothing, not source: <source>: use another encoder")
            yield Needs(
                "model.head writing",
                "model.head: <model.head> needs a source, and a language model has none: set model.head: text",
            )
            yield Needs(
                "model.decoder.feedback", f"with {at}: none the decoder must read its own output: set feedback: true"
            )
