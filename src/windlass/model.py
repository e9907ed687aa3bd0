"""The model: an encoder and a head, and the one function that builds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator
from torch import nn

from windlass.core.errors import RecipeError
from windlass.core.options import Options, named
from windlass.core.records import Batch, Carry, Memory, Scored
from windlass.encoders.base import Encoder, Sizes, TokenEncoder
from windlass.encoders.document import HierarchicalEncoder
from windlass.encoders.kinds import EncoderOptions
from windlass.encoders.pair import PairEncoder
from windlass.encoders.text import RecurrentEncoder
from windlass.heads.label import LabelHead, LabelHeadOptions
from windlass.heads.options import AttentionContext, HierarchicalContext, TextHeadOptions
from windlass.heads.running import score_on
from windlass.heads.tags import Allowed, TagsHead, TagsHeadOptions
from windlass.heads.text import TextHead
from windlass.nn.embedding import EmbeddingOptions


class WritingOptions(Options):
    """A text, which `model.decoder` writes.

    >>> WritingOptions().kind
    'text'
    """

    kind: Literal["text"] = "text"


HeadOptions = Annotated[WritingOptions | LabelHeadOptions | TagsHeadOptions, Field(discriminator="kind"), named]
"""Everything that can come out."""

Head = TextHead | LabelHead | TagsHead


class ModelOptions(Options):
    """Encoder and decoder, and what they share.

    >>> ModelOptions().encoder.kind
    'recurrent'
    """

    encoder: EncoderOptions = RecurrentEncoder.Options()
    head: HeadOptions = Field(WritingOptions(), description="what comes out; must fit the target")
    decoder: TextHeadOptions | None = Field(None, description="what writes a text; there is none with another head")
    tie: Literal["none", "target", "all"] = Field(
        "none",
        description="one table for the decoder's input and output (target), and the encoder's input too (all)",
    )

    @model_validator(mode="before")
    @classmethod
    def _with_decoder(cls, given: Any) -> Any:
        if isinstance(given, Mapping) and given.get("decoder") is None and head_kind(given) == "text":
            return {**given, "decoder": {}}
        return given

    @model_validator(mode="after")
    def _fits(self) -> ModelOptions:
        encoder, decoder = self.encoder, self.decoder
        if self.head.kind != "text":
            self._check_choosing(self.head)
            return self
        assert decoder is not None  # `_with_decoder` saw to it
        if encoder.kind == "none":
            if decoder.context.kind != "none" or decoder.start not in ("zeros", "learned"):
                raise ValueError("with encoder: none there is no memory: set context: none and start: zeros or learned")
            if not decoder.feedback:
                raise ValueError("with encoder: none the decoder must read what it wrote: set feedback: true")
        elif encoder.kind == "prefix":
            if decoder.context.kind != "none":
                raise ValueError(f"with encoder: prefix there is no memory to see: context: {decoder.context.kind}")
            if decoder.start not in ("zeros", "learned"):
                raise ValueError(f"with encoder: prefix there is no memory to start from: start: {decoder.start}")
            if not decoder.feedback:
                raise ValueError("with encoder: prefix the decoder must read: set feedback: true")
        elif decoder.context.kind == "none" and decoder.start in ("zeros", "learned"):
            raise ValueError(
                f"with context: none and start: {decoder.start} the decoder never sees the source: "
                "set start: summary or final, or another context"
            )
        recurs = isinstance(encoder, RecurrentEncoder.Options) and encoder.cell.kind != "convolution"
        if decoder.start == "final" and not (recurs or encoder.kind == "hierarchical"):
            raise ValueError(f"encoder: {encoder.kind} leaves no last states: use start: summary, zeros or learned")
        if isinstance(encoder, PairEncoder.Options):
            raise ValueError("encoder: pair is for judging, with head: label: nothing is written from two texts")
        if decoder.context.kind == "hierarchical" and encoder.kind != "hierarchical":
            raise ValueError(
                "decoder.context: hierarchical needs sentences and their words: set encoder: hierarchical, or use "
                "context: attention"
            )
        if self.tie != "none":
            self._check_tie(decoder)
        return self

    @property
    def source_embedding(self) -> EmbeddingOptions | None:
        """How what is read becomes vectors, if the encoder looks it up.

        >>> ModelOptions().source_embedding.kind
        'learned'
        """
        found: EmbeddingOptions | None = getattr(getattr(self.encoder, "reader", self.encoder), "embedding", None)
        return found

    def _check_choosing(self, head: LabelHeadOptions | TagsHeadOptions | WritingOptions) -> None:
        """What a head that writes nothing has no use for, or cannot do without."""
        if self.decoder is not None:
            raise ValueError(f"with head: {head.kind} nothing is written: leave decoder out")
        if self.tie != "none":
            raise ValueError(f"with head: {head.kind} there is no output layer to tie: leave tie out")
        if self.encoder.kind in ("prefix", "none"):
            raise ValueError(
                f"with head: {head.kind} there must be states to look at, not encoder: {self.encoder.kind}"
            )
        if self.encoder.kind == "pair" and head.kind != "label":
            raise ValueError(f"encoder: pair is for head: label, not {head.kind}")
        if isinstance(head, LabelHeadOptions):
            encoder, pool = self.encoder, head.pool.kind
            if isinstance(encoder, PairEncoder.Options):
                if encoder.attention is not None and pool in ("ends", "last"):
                    raise ValueError(f"pool: {pool} sees one word's comparison: use mean, max, mean_max or attention")
                encoder = encoder.reader
            both = isinstance(encoder, RecurrentEncoder.Options | HierarchicalEncoder.Options) and encoder.bidirectional
            if pool == "ends" and not both:
                raise ValueError("pool: ends needs a bidirectional network, which has two: use pool: last")
            if pool == "last" and both:
                raise ValueError(
                    "pool: last sees one step of the backward direction: use pool: ends, or bidirectional: false"
                )

    def _check_tie(self, decoder: TextHeadOptions) -> None:
        if not decoder.feedback or decoder.embedding.kind == "one_hot":
            raise ValueError(f"tie: {self.tie} needs a decoder with a learned embedding and feedback")
        if decoder.embedding.kind == "vectors" and decoder.embedding.freeze:
            raise ValueError(f"tie: {self.tie} would freeze the output layer: set freeze: false")
        readout = decoder.size if decoder.readout.kind == "state" else decoder.readout.size
        if readout != decoder.embedding.size:
            raise ValueError(
                f"tie: {self.tie} needs decoder.embedding.size {decoder.embedding.size} to equal the readout's "
                f"size {readout}: change one, or use readout: joined or deep of that size"
            )
        embedding = getattr(self.encoder, "embedding", None)
        if self.tie == "all" and (embedding is None or embedding != decoder.embedding):
            raise ValueError("tie: all needs an encoder whose embedding options equal the decoder's")


def head_kind(model: Any) -> str:
    """The kind of head that a model's options ask for, before they are checked.

    >>> head_kind({"head": "label"}), head_kind({})
    ('label', 'text')
    """
    head = model.get("head") if isinstance(model, Mapping) else getattr(model, "head", None)
    kind = head.get("kind") if isinstance(head, Mapping) else getattr(head, "kind", head)
    return kind if isinstance(kind, str) else "text"


class LossOptions(Options):
    """What is minimised beside the likelihood.

    >>> LossOptions(label_smoothing=0.1).coverage
    0.0
    """

    label_smoothing: float = Field(0.0, ge=0, lt=1)
    coverage: float = Field(0.0, ge=0, description="weight of attending again to what was attended to")
    alignment: float = Field(0.0, ge=0, description="weight of gold alignments against the attention")


class Model(nn.Module):
    """p(target | inputs): `forward` is the training computation and nothing else.

    >>> import torch
    >>> from windlass.core.records import Padded
    >>> model = build(ModelOptions(), LossOptions(), source_vocabulary=20, target_vocabulary=30)
    >>> batch = Batch({"source": Padded.of([[5, 6], [7]])}, Padded.of([[8, 3], [9, 3]]), torch.arange(2))
    >>> scored = model(batch)
    >>> int(scored.count), 3.0 < scored.mean.item() < 4.0  # about log 30 before training
    (4, True)
    """

    def __init__(self, encoder: Encoder, head: Head, loss: LossOptions):
        super().__init__()
        self.encoder = encoder
        self.head = head
        self.loss = loss

    @property
    def writer(self) -> TextHead:
        """The head, where it writes text."""
        if not isinstance(self.head, TextHead):
            raise RecipeError("this model writes no text: it has labels or tags to choose from")
        return self.head

    def encode(self, batch: Batch) -> Memory:
        """Read the inputs."""
        return _with_copy(self.encoder(batch), batch)

    def infer(self, batch: Batch, int8: bool = False) -> Memory:
        """The same for inference only: quicker where there is a way, and in 8 bits if told."""
        return _with_copy(self.encoder.infer(batch, int8), batch)

    def forward(self, batch: Batch, carry: Carry | None = None, sampling_prob: float = 0.0) -> Scored:
        """The loss of a batch.

        `carry` is where running text stands; `sampling_prob` is how often the decoder is fed its own last output
        instead of the right one.
        """
        if batch.target is None:
            raise RecipeError("a batch without targets cannot be trained on")
        loss = self.loss
        if not isinstance(self.head, TextHead):
            return self.head.score(self.encode(batch), batch.target, smoothing=loss.label_smoothing)
        if batch.continues is not None:
            return score_on(self.head, batch, carry, loss.label_smoothing)
        return self.head.score(
            self.encode(batch),
            batch.target,
            smoothing=loss.label_smoothing,
            coverage=loss.coverage,
            alignment=batch.alignment,
            alignment_weight=loss.alignment,
            sampling_prob=sampling_prob,
        )


def _with_copy(memory: Memory, batch: Batch) -> Memory:
    """A memory that says what its places hold, where a batch does: what a head that copies goes by."""
    held = batch.inputs.get("copy")
    return memory if held is None else replace(memory, copy=held.values.flatten(1))


def build(
    options: ModelOptions,
    loss: LossOptions,
    source_vocabulary: int | Sizes,
    target_vocabulary: int,
    allowed: Allowed | None = None,
) -> Model:
    """Make a model of a recipe's options.

    The source's vocabulary is a size, or one for each input by name; `allowed` says which tags may follow which.

    >>> model = build(ModelOptions(), LossOptions(), source_vocabulary=20, target_vocabulary=30)
    >>> model.head.output.weight.shape[0]
    30
    """
    encoder = options.encoder.build(source_vocabulary)
    head = options.head
    if options.decoder is None or isinstance(head, LabelHeadOptions | TagsHeadOptions):
        pair = options.encoder.kind == "pair"
        return Model(encoder, _chooser(head, loss, target_vocabulary, encoder.size, allowed, pair), loss)
    context = options.decoder.context
    if loss.alignment and context.kind != "attention":
        raise RecipeError(f"loss.alignment needs attention, but model.decoder.context is {context.kind}")
    scores = [context.score] if isinstance(context, AttentionContext) else []
    if isinstance(context, HierarchicalContext):
        assert isinstance(encoder, HierarchicalEncoder)  # the options were checked
        encoder.keep_lower = True
        scores = [context.score, context.within]
    if loss.coverage and not any(score.coverage for score in scores):
        raise RecipeError("loss.coverage needs an attention with coverage: true")
    shared = None
    if options.tie == "all":
        if isinstance(source_vocabulary, Mapping):
            source_vocabulary = source_vocabulary["source"]
        if source_vocabulary != target_vocabulary:
            raise RecipeError("model.tie: all needs one vocabulary for both sides: set vocabulary: joint")
        assert isinstance(encoder, TokenEncoder)
        shared = encoder.embedding
    below = encoder.lower_size if isinstance(encoder, HierarchicalEncoder) else 0
    writer = TextHead(
        options.decoder, target_vocabulary, encoder.size, encoder.final_sizes, shared, options.tie != "none", below
    )
    return Model(encoder, writer, loss)


def _chooser(
    head: HeadOptions, loss: LossOptions, vocabulary: int, memory_size: int, allowed: Allowed | None, pair: bool
) -> LabelHead | TagsHead:
    if loss.alignment or loss.coverage:
        raise RecipeError(f"loss.alignment and loss.coverage are for a decoder's attention, not for head: {head.kind}")
    if isinstance(head, LabelHeadOptions):
        return LabelHead(head, vocabulary, memory_size, pair)
    assert isinstance(head, TagsHeadOptions)
    if head.output == "crf" and loss.label_smoothing:
        raise RecipeError("loss.label_smoothing is for single outputs, not for output: crf: set it to 0")
    return TagsHead(head, vocabulary, memory_size, allowed)
