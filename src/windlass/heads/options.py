"""What a recipe can say of a decoder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from windlass.core.fitting import Equal, Gives, Needs, Refuses, Term
from windlass.core.options import Options, named
from windlass.nn.attention import Additive, AttentionOptions
from windlass.nn.embedding import EmbeddingOptions, Learned
from windlass.nn.recurrence import StackOptions


class _Context(Options):
    constant: ClassVar[bool] = False  # one vector for all steps: the summary


class NoContext(_Context):
    """The memory is seen at the start only: s_0.

    >>> NoContext() == TextHeadOptions(context="none", start="final").context, NoContext().constant
    (True, False)
    """

    kind: Literal["none"] = "none"


class SummaryContext(_Context):
    """The summary is part of the input of every step.

    >>> Gives("model.decoder.context vector") in SummaryContext().declare("model.decoder.context")
    True
    """

    constant: ClassVar[bool] = True
    kind: Literal["summary"] = "summary"

    def _terms(self, at: str) -> Iterator[Term]:
        yield Gives(f"{at} vector")
        yield Needs("model.encoder summary", f"with model.encoder: <model.encoder> there is no memory: set {at}: none")


class AttentionContext(_Context):
    """A new context for every step, by attention.

    >>> AttentionContext(score="dot", query="current").score.kind
    'dot'
    """

    kind: Literal["attention"] = "attention"
    score: AttentionOptions = Field(Additive.Options(), description="how well a query fits a key")
    query: Literal["previous", "current"] = Field("previous", description="the state that asks: s_{t-1} or s_t")
    input_feeding: bool = Field(False, description="feed the last readout into the next step")
    links: Literal["writing", "reading"] = Field(
        "writing",
        description="the step whose attention links a word to the source: the one that writes it, or the next, which "
        "has read it (Chen et al. 2020)",
    )

    @model_validator(mode="after")
    def _asks(self) -> AttentionContext:
        if self.links == "reading" and self.query == "previous":
            raise ValueError("links: reading needs query: current, the state that has read the word")
        return self

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """Both queries."""
        return cls.small(), cls.small(query="current")

    def _terms(self, at: str) -> Iterator[Term]:
        yield from _attention(at, self.query)
        yield Gives(f"{at} coverage", self.score.coverage)
        yield Gives(f"{at} links")
        if self.links == "reading":
            yield Needs(
                "data.alignment",
                f"{at}.links: reading is for gold links: name their column in data.alignment, or leave it out",
            )


class HierarchicalContext(_Context):
    """A new context for every step, by attention over sentences (or turns) and over the words of each.

    >>> HierarchicalContext(score="bilinear", within="bilinear").within.kind
    'bilinear'
    """

    kind: Literal["hierarchical"] = "hierarchical"
    score: AttentionOptions = Field(Additive.Options(), description="how well a query fits a sentence")
    within: AttentionOptions = Field(Additive.Options(), description="how well a query fits a word of a sentence")
    query: Literal["previous", "current"] = Field("previous", description="the state that asks: s_{t-1} or s_t")
    input_feeding: bool = Field(False, description="feed the last readout into the next step")

    def _terms(self, at: str) -> Iterator[Term]:
        yield from _attention(at, self.query)
        yield Gives(f"{at} words")
        yield Gives(f"{at} coverage", self.score.coverage or self.within.coverage)
        yield Needs(
            "model.encoder words",
            f"{at}: hierarchical needs sentences and their words: set encoder: hierarchical, or use context: attention",
        )


def _attention(at: str, query: str) -> Iterator[Term]:
    """States to attend to; where the new state asks, a readout that sees the answer."""
    yield Gives(f"{at} vector")
    yield Gives(f"{at} weights")
    yield Needs("model.encoder states", f"with model.encoder: <model.encoder> there is no memory: set {at}: none")
    if query == "current":
        yield Needs(
            "model.decoder.readout context",
            f"{at}: with query: current the context reaches the output only by readout: joined or deep",
        )


ContextOptions = Annotated[
    NoContext | SummaryContext | AttentionContext | HierarchicalContext, Field(discriminator="kind"), named
]
"""Everything a decoder can see of the memory."""


class _Readout(Options):
    joins: ClassVar[bool] = True  # a layer over the state and what else is seen
    reads_output: ClassVar[bool] = False  # the last output is part of it


class StateReadout(_Readout):
    """o = s.

    >>> StateReadout().joins
    False
    """

    joins: ClassVar[bool] = False
    kind: Literal["state"] = "state"


class JoinedReadout(_Readout):
    """o = tanh(W [s; c]).

    >>> TextHeadOptions(readout=JoinedReadout(size=128), size=64).readout_size
    128
    """

    kind: Literal["joined"] = "joined"
    size: int = Field(256, ge=1, description="units of the readout")
    dropout: float = Field(0.0, ge=0, lt=1, description="on the readout")

    def _terms(self, at: str) -> Iterator[Term]:
        yield Gives(f"{at} context")
        yield Needs(
            "model.decoder.context vector",
            f"{at}: joined joins state and context, but context is none: use state or deep",
        )


class DeepReadout(_Readout):
    """o = tanh(W [s; c; e(y)]), without c where context is none.

    >>> DeepReadout(size=128).reads_output
    True
    """

    reads_output: ClassVar[bool] = True
    kind: Literal["deep"] = "deep"
    size: int = Field(256, ge=1, description="units of the readout")
    dropout: float = Field(0.0, ge=0, lt=1, description="on the readout")

    def _terms(self, at: str) -> Iterator[Term]:
        yield Gives(f"{at} context")
        yield Needs(
            "model.decoder.feedback",
            f"{at}: deep looks at the last output, but feedback is off: use state or joined",
        )


ReadoutOptions = Annotated[StateReadout | JoinedReadout | DeepReadout, Field(discriminator="kind"), named]
"""Everything an output layer can look at."""


class TextHeadOptions(StackOptions):
    """A recurrent decoder.

    >>> TextHeadOptions(context="summary", start="summary").readout.kind
    'state'
    """

    embedding: EmbeddingOptions = Field(Learned(), description="the vectors of the tokens fed back in")
    start: Literal["zeros", "learned", "summary", "final"] = Field(
        "zeros", description="the first state: zeros, learned, the encoder's summary, or its last states (final)"
    )
    context: ContextOptions = Field(AttentionContext(), description="what is seen of the source at every step")
    feedback: bool = Field(True, description="feed the last output back in")
    readout: ReadoutOptions = Field(StateReadout(), description="what the output layer looks at")
    copying: bool = Field(
        False, description="a token is written, or copied from the source, also one that the vocabulary has not"
    )

    @property
    def readout_size(self) -> int:
        """The units that the output layer sees: R."""
        return int(getattr(self.readout, "size", self.size))

    @model_validator(mode="after")
    def _all_used(self) -> TextHeadOptions:
        if not self.feedback and self.embedding != Learned():
            raise ValueError("embedding is not used where feedback is off: leave it out")
        return self

    def _terms(self, at: str) -> Iterator[Term]:
        yield Needs("model.head writing", "with model.head: <model.head> nothing is written: leave decoder out")
        yield Refuses(
            f"{at}.embedding.more", f"{at}.embedding.more: a word that training lacks is never written: leave it out"
        )
        yield Gives(f"{at} readout size", self.readout_size)
        yield Gives(f"{at}.cell state", self.cell.stateful)
        if self.start in ("summary", "final"):
            yield Needs(
                f"{at}.cell state",
                f"{at}.cell: <{at}.cell> has no state that start: {self.start} could set: use start: zeros or learned",
            )
        if self.start == "summary":
            yield Needs(
                "model.encoder summary",
                f"with model.encoder: <model.encoder> there is no memory: set {at}.start: zeros or learned",
            )
        if self.start == "final":
            yield Needs(
                "model.encoder final states",
                f"model.encoder: <model.encoder> leaves no last states: set {at}.start: summary, zeros or learned",
            )
        if self.copying:
            yield from self._declare_copying(at)

    def _declare_copying(self, at: str) -> Iterator[Term]:
        """Weights over places whose tokens are cut like those of the target."""
        key = f"{at}.copying"
        yield Needs(
            f"{at}.context weights",
            f"{key}: copying needs attention, which says where from: set {at}.context: attention",
        )
        yield Needs("source pieces", f"{key} cannot copy from source: <source>: use source: text")
        yield Needs(
            ("model.encoder token states", f"{at}.context words"),
            f"{key} copies words, and not sentences: set context: hierarchical",
        )
        yield Equal(
            ("source pieces", "target pieces"),
            f"{key}: the source is cut into <source pieces>, but the target into <target pieces>: cut both alike",
        )
        yield Equal(
            ("source.tokens.cut", "target.tokens.cut"),
            f"{key}: words end at <source.tokens.cut> in the source, but at <target.tokens.cut> in the target: "
            "set cut alike",
        )
        yield Needs(
            ("source whole tokens", "vocabulary: joint"),
            f"{key}: pieces of words are the same on both sides only with vocabulary: joint",
        )
        for name in ("normal_form", "lowercase"):
            yield Equal(
                (f"source.{name}", f"target.{name}"),
                f"{key}: source.{name} and target.{name} differ, so that the same word is not the same: set them alike",
            )
