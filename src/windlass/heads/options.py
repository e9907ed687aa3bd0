"""The options of a decoder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from windlass.core.fitting import Equal, Gives, Needs, Term
from windlass.core.options import Options, named
from windlass.nn.attention import Additive, AttentionOptions


class _Context(Options):
    constant: ClassVar[bool] = False  # the context is the same at every step
    aligns: ClassVar[bool] = False  # its attention is over tokens, and aligns them with those of the target

    @property
    def aligns_late(self) -> bool:
        """Whether the step after a word aligns it."""
        return False


class NoContext(_Context):
    """No context: the decoder sees the memory only in its initial state.

    >>> Gives("model.decoder.context vector") in NoContext().declare("model.decoder.context")
    False
    """

    kind: Literal["none"] = "none"


class SummaryContext(_Context):
    """The summary, at every step.

    >>> Gives("model.decoder.context vector") in SummaryContext().declare("model.decoder.context")
    True
    """

    constant: ClassVar[bool] = True
    kind: Literal["summary"] = "summary"

    def _terms(self, at: str) -> Iterator[Term]:
        yield Gives(f"{at} vector")
        yield Needs("model.encoder summary", f"with model.encoder: <model.encoder> there is no memory: set {at}: none")


class AttentionContext(_Context):
    """Attention, at every step.

    >>> Gives("model.decoder.context weights") in AttentionContext(score="dot").declare("model.decoder.context")
    True
    """

    aligns: ClassVar[bool] = True
    kind: Literal["attention"] = "attention"
    score: AttentionOptions = Field(Additive.Options(), description="the score of query and key")
    query: Literal["previous", "current"] = Field("previous", description="the query: s_{t-1} or s_t")
    input_feeding: bool = Field(False, description="feed the last readout into the next step")
    links: Literal["writing", "reading"] = Field(
        "writing",
        description="the step whose attention aligns a word: the one that writes it, or the next, which reads it "
        "(Chen et al. 2020)",
    )

    @model_validator(mode="after")
    def _fits(self) -> AttentionContext:
        if self.links == "reading" and self.query == "previous":
            raise ValueError("links: reading needs query: current, the state after reading the word")
        return self

    @property
    def aligns_late(self) -> bool:
        """With `links: reading`."""
        return self.links == "reading"

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """Both queries."""
        return cls.small(), cls.small(query="current")

    def _terms(self, at: str) -> Iterator[Term]:
        yield from _attention(at, self.query)
        yield Gives(f"{at} links")
        if self.links == "reading":
            yield Needs(
                "data.alignment",
                f"{at}.links: reading is for gold links: name their column in data.alignment, or leave it out",
            )


class HierarchicalContext(_Context):
    """Attention over sentences (or turns) and over the words of each, at every step.

    >>> Gives("model.decoder.context words") in HierarchicalContext(score="dot").declare("model.decoder.context")
    True
    """

    kind: Literal["hierarchical"] = "hierarchical"
    score: AttentionOptions = Field(Additive.Options(), description="the score of query and sentence")
    within: AttentionOptions = Field(Additive.Options(), description="the score of query and word")
    query: Literal["previous", "current"] = Field("previous", description="the query: s_{t-1} or s_t")
    input_feeding: bool = Field(False, description="feed the last readout into the next step")

    def _terms(self, at: str) -> Iterator[Term]:
        yield from _attention(at, self.query)
        yield Gives(f"{at} words")
        yield Needs(
            "model.encoder words",
            f"{at}: hierarchical needs sentences and their words: set encoder: hierarchical, or use context: attention",
        )


def _attention(at: str, query: str) -> Iterator[Term]:
    """Attention needs states and, with query: current, a readout that sees the context."""
    yield Gives(f"{at} vector")
    yield Gives(f"{at} weights")
    yield Needs("model.encoder states", f"with model.encoder: <model.encoder> there is no memory: set {at}: none")
    if query == "current":
        yield Needs(
            "model.decoder.readout context",
            f"{at}: with query: current the context reaches the output only with readout: joined or deep",
        )


ContextOptions = Annotated[
    NoContext | SummaryContext | AttentionContext | HierarchicalContext, Field(discriminator="kind"), named
]
"""Every context that a recipe can name."""


class _Readout(Options):
    joins: ClassVar[bool] = True  # has a layer of its own
    reads_output: ClassVar[bool] = False  # reads the last output, e(y)


class StateReadout(_Readout):
    """o = s: the state itself.

    >>> StateReadout().joins
    False
    """

    joins: ClassVar[bool] = False
    kind: Literal["state"] = "state"


class JoinedReadout(_Readout):
    """o = tanh(W [s; c]).

    >>> Gives("model.decoder.readout context") in JoinedReadout().declare("model.decoder.readout")
    True
    """

    kind: Literal["joined"] = "joined"
    size: int = Field(256, ge=1, description="units of the readout")
    dropout: float = Field(0.0, ge=0, lt=1, description="on the readout")

    def _terms(self, at: str) -> Iterator[Term]:
        yield Gives(f"{at} context")
        yield Needs(
            "model.decoder.context vector",
            f"{at}: joined reads state and context, but context is none: use state or deep",
        )


class DeepReadout(_Readout):
    """o = tanh(W [s; c; e(y)]), without c if context is none.

    >>> from windlass.core.fitting import misfits
    >>> list(misfits(DeepReadout().declare("readout"), [Gives("model.decoder.feedback", False)]))
    ['readout: deep reads the last output, but feedback is off: use state or joined']
    """

    reads_output: ClassVar[bool] = True
    kind: Literal["deep"] = "deep"
    size: int = Field(256, ge=1, description="units of the readout")
    dropout: float = Field(0.0, ge=0, lt=1, description="on the readout")

    def _terms(self, at: str) -> Iterator[Term]:
        yield Gives(f"{at} context")
        yield Needs(
            "model.decoder.feedback", f"{at}: deep reads the last output, but feedback is off: use state or joined"
        )


ReadoutOptions = Annotated[StateReadout | JoinedReadout | DeepReadout, Field(discriminator="kind"), named]
"""Every readout that a recipe can name."""


def copying_terms(at: str, words: str = "set context: hierarchical") -> Iterator[Term]:
    """What copying declares: it needs attention over tokens, tokenised like those of the target.

    `words` says how a decoder attends to words if the memory is of sentences.

    >>> sum(isinstance(term, Needs) for term in copying_terms("model.decoder"))
    4
    """
    key = f"{at}.copying"
    yield Needs(f"{at}.context weights", f"{key}: copying needs attention: set {at}.context: attention")
    yield Needs("source pieces", f"{key} cannot copy from source: <source>: use source: text")
    yield Needs(
        ("model.encoder token states", f"{at}.context words"),
        f"{key} copies words, not sentences: {words}",
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
            f"{key}: source.{name} and target.{name} differ, so words would not match: set them alike",
        )
