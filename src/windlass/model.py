"""The model: an encoder and a head, and the one function that builds them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field, ValidationInfo, field_validator
from torch import nn

from windlass.core.errors import RecipeError
from windlass.core.fitting import Equal, Gives, Needs, Term, misfits
from windlass.core.options import Options
from windlass.core.records import Batch, Carry, Memory, Scored
from windlass.encoders.base import Encoder, VocabularySizes
from windlass.encoders.kinds import EncoderOptions
from windlass.encoders.text import RecurrentEncoder
from windlass.heads.base import AllowedTransitions, Head, LossOptions, Wiring
from windlass.heads.kinds import DecoderOptions, HeadOptions, WritingOptions
from windlass.heads.recurrent import RecurrentDecoder


class ModelOptions(Options):
    """Encoder, head and decoder, and the tables they share.

    >>> ModelOptions().encoder.kind
    'recurrent'
    """

    encoder: EncoderOptions = RecurrentEncoder.Options()
    head: HeadOptions = Field(WritingOptions(), description="predicts the target; must fit its kind")
    decoder: DecoderOptions | None = Field(None, description="of a text head; other heads have none")
    tie: Literal["none", "target", "all"] = Field(
        "none", description="tie the decoder's input and output embeddings (target), and the encoder's too (all)"
    )

    @field_validator("decoder")
    @classmethod
    def _with_decoder(cls, decoder: DecoderOptions | None, info: ValidationInfo) -> DecoderOptions | None:
        head = info.data.get("head")
        if decoder is None and head is not None and Gives("model.head writing") in head.declare("model.head"):
            return RecurrentDecoder.Options()
        return decoder

    def _terms(self, at: str) -> Iterator[Term]:
        key = f"{at}.tie: {self.tie}"
        if self.tie != "none":
            yield Needs(
                f"{at}.head writing", f"with {at}.head: <{at}.head> there is no output layer to tie: leave {at}.tie out"
            )
            yield Needs(
                f"{at}.decoder.feedback", f"{key} needs a decoder that is fed its last output: set feedback: true"
            )
            yield Needs(
                f"{at}.decoder.embedding trained",
                f"{key} needs a decoder embedding that is trained: use learned, or vectors with freeze: false",
            )
            yield Equal(
                (f"{at}.decoder.embedding.size", f"{at}.decoder readout size"),
                f"{key} needs decoder.embedding.size <{at}.decoder.embedding.size> to equal the size of the output "
                f"layer's input, <{at}.decoder readout size>: change one; a recurrent decoder may use readout: joined "
                "or deep of that size",
            )
        if self.tie == "all":
            yield Needs("vocabulary: joint", f"{key} needs one vocabulary for both sides: set vocabulary: joint")
            yield Equal(
                (f"{at}.encoder.embedding", f"{at}.decoder.embedding"),
                f"{key} needs an encoder whose embedding options equal the decoder's",
            )


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

    def encode(self, batch: Batch) -> Memory:
        """Encode the inputs."""
        memory: Memory = self.encoder(batch)
        return memory

    def infer(self, batch: Batch, int8: bool = False) -> Memory:
        """Encode for inference: with packed weights, in 8 bits if `int8`, if the encoder offers them."""
        return self.encoder.infer(batch, int8)

    def forward(self, batch: Batch, carry: Carry | None = None, sampling_prob: float = 0.0) -> Scored:
        """Return the loss of a batch.

        `carry` is the state after the previous batch of running text; `sampling_prob` is for scheduled sampling.
        """
        return self.head.score(self.encode(batch), batch, self.loss, carry, sampling_prob)


def build(
    options: ModelOptions,
    loss: LossOptions,
    source_vocabulary: int | VocabularySizes,
    target_vocabulary: int,
    allowed: AllowedTransitions | None = None,
    front: nn.Module | None = None,
    outside: int | None = None,
) -> Model:
    """Build a model from a recipe's options.

    `source_vocabulary` is a size, or one per named input; `allowed` holds the tag transitions that may occur; `front`
    are trained layers that the source brings along, such as the last blocks of a CNN; `outside` is the tag O, if there.

    >>> model = build(ModelOptions(), LossOptions(), source_vocabulary=20, target_vocabulary=30)
    >>> model.head.output.weight.shape[0]
    30
    """
    declared = (*options.declare("model"), *loss.declare("loss"))
    for misfit in misfits(declared, within=("model", "loss")):
        raise RecipeError(misfit)
    encoder = options.encoder.build(source_vocabulary)
    encoder.front = front
    needed = {feature for term in declared if isinstance(term, Needs) for feature in term.features}
    encoder.keep([part for part in encoder.part_sizes if f"model.encoder {part}" in needed])
    shared = None
    if options.tie == "all":
        (shared,) = encoder.embeddings()
        if len(shared.table) != target_vocabulary:
            raise RecipeError("model.tie: all needs one vocabulary for both sides: set vocabulary: joint")
    wiring = Wiring(
        outputs=target_vocabulary,
        memory_size=encoder.size,
        final_sizes=encoder.final_sizes,
        part_sizes=encoder.part_sizes,
        decoder=options.decoder,
        tied=options.tie != "none",
        embedding=shared,
        allowed=allowed,
        outside=outside,
        prefix=encoder.prefix,
    )
    return Model(encoder, options.head.build(wiring), loss)
