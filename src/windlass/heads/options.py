"""What a recipe can say of a decoder."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from windlass.core.options import Options, named
from windlass.nn.attention import Additive, AttentionOptions
from windlass.nn.cells import Convolution
from windlass.nn.embedding import EmbeddingOptions, Learned
from windlass.nn.recurrence import StackOptions


class NoContext(Options):
    """The memory is seen at the start only: s_0.

    >>> NoContext().kind
    'none'
    """

    kind: Literal["none"] = "none"


class SummaryContext(Options):
    """The summary is part of the input of every step.

    >>> SummaryContext().kind
    'summary'
    """

    kind: Literal["summary"] = "summary"


class AttentionContext(Options):
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


ContextOptions = Annotated[NoContext | SummaryContext | AttentionContext, Field(discriminator="kind"), named]
"""Everything a decoder can see of the memory."""


class StateReadout(Options):
    """o = s.

    >>> StateReadout().kind
    'state'
    """

    kind: Literal["state"] = "state"


class JoinedReadout(Options):
    """o = tanh(W [s; c]).

    >>> JoinedReadout(size=128).size
    128
    """

    kind: Literal["joined"] = "joined"
    size: int = Field(256, ge=1, description="units of the readout")
    dropout: float = Field(0.0, ge=0, lt=1, description="on the readout")


class DeepReadout(Options):
    """o = tanh(W [s; c; e(y)]), c where there is one.

    >>> DeepReadout(size=128).size
    128
    """

    kind: Literal["deep"] = "deep"
    size: int = Field(256, ge=1, description="units of the readout")
    dropout: float = Field(0.0, ge=0, lt=1, description="on the readout")


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

    @model_validator(mode="after")
    def _fits(self) -> TextHeadOptions:
        context, readout = self.context, self.readout
        if readout.kind == "joined" and context.kind == "none":
            raise ValueError("readout: joined joins state and context, but context is none: use state or deep")
        if readout.kind == "deep" and not self.feedback:
            raise ValueError("readout: deep looks at the last output, but feedback is off: use state or joined")
        if context.kind == "attention" and context.query == "current" and readout.kind == "state":
            raise ValueError("with query: current the context reaches the output only by readout: joined or deep")
        if isinstance(self.cell, Convolution.Options) and self.start in ("summary", "final"):
            raise ValueError(f"cell: convolution has no state that start: {self.start} could set: use zeros or learned")
        if not self.feedback and "embedding" in self.model_fields_set and self.embedding != Learned():
            raise ValueError("embedding is not used where feedback is off: leave it out")
        return self
