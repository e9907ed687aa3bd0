"""The model: an encoder and a head, and the one function that builds them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator
from torch import nn

from windlass.core.errors import RecipeError
from windlass.core.options import Options
from windlass.core.records import Batch, Memory, Record, Scored
from windlass.encoders.text import Encoder, EncoderOptions, RecurrentEncoder
from windlass.heads.options import TextHeadOptions
from windlass.heads.text import TextHead


class ModelOptions(Options):
    """Encoder and decoder, and what they share.

    >>> ModelOptions().encoder.kind
    'recurrent'
    """

    encoder: EncoderOptions = RecurrentEncoder.Options()
    decoder: TextHeadOptions = TextHeadOptions()
    tie: Literal["none", "target", "all"] = Field(
        "none",
        description="one table for the decoder's input and output (target), and the encoder's input too (all)",
    )

    @model_validator(mode="after")
    def _fits(self) -> ModelOptions:
        encoder, decoder = self.encoder, self.decoder
        if encoder.kind == "prefix":
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
        if self.tie != "none":
            self._check_tie()
        return self

    def _check_tie(self) -> None:
        decoder = self.decoder
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
        if self.tie == "all" and (self.encoder.kind == "prefix" or self.encoder.embedding != decoder.embedding):
            raise ValueError("tie: all needs an encoder whose embedding options equal the decoder's")


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

    def __init__(self, encoder: Encoder, head: TextHead, loss: LossOptions):
        super().__init__()
        self.encoder = encoder
        self.head = head
        self.loss = loss

    def encode(self, batch: Batch) -> Memory:
        """Read the inputs."""
        memory: Memory = self.encoder(batch)
        return memory

    def forward(self, batch: Batch, carry: Record | None = None, own: float = 0.0) -> Scored:
        """The loss of a batch; `own` is how often the decoder is fed its own last output instead of the right one."""
        if batch.target is None:
            raise RecipeError("a batch without targets cannot be trained on")
        loss = self.loss
        return self.head.score(
            self.encode(batch),
            batch.target,
            smoothing=loss.label_smoothing,
            coverage=loss.coverage,
            alignment=batch.alignment,
            alignment_weight=loss.alignment,
            own=own,
        )


def build(options: ModelOptions, loss: LossOptions, source_vocabulary: int, target_vocabulary: int) -> Model:
    """Make a model of a recipe's options.

    >>> model = build(ModelOptions(), LossOptions(), source_vocabulary=20, target_vocabulary=30)
    >>> model.head.output.weight.shape[0]
    30
    """
    context = options.decoder.context
    if loss.alignment and context.kind != "attention":
        raise RecipeError(f"loss.alignment needs attention, but model.decoder.context is {context.kind}")
    if loss.coverage and not (context.kind == "attention" and context.score.coverage):
        raise RecipeError("loss.coverage needs an attention with coverage: true")
    encoder = options.encoder.build(source_vocabulary)
    shared = None
    if options.tie == "all":
        if source_vocabulary != target_vocabulary:
            raise RecipeError("model.tie: all needs one vocabulary for both sides: set vocabulary: joint")
        assert isinstance(encoder, RecurrentEncoder)
        shared = encoder.embedding
    head = TextHead(
        options.decoder, target_vocabulary, encoder.size, encoder.final_sizes, shared, options.tie != "none"
    )
    return Model(encoder, head, loss)
