"""The encoder of a question about a picture."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal, Self, final

import torch
from pydantic import Field, model_validator
from torch import Tensor

from windlass.core.fitting import Gives, Needs, Term
from windlass.core.options import Options as BaseOptions
from windlass.core.records import Batch, Memory
from windlass.encoders.base import Encoder, EncoderBase, SourceEmbedding, VocabularySizes
from windlass.encoders.pair import ReaderOptions
from windlass.encoders.text import RecurrentEncoder
from windlass.nn.attention import Additive, Attention, AttentionOptions
from windlass.nn.embedding import Embedding
from windlass.nn.features import FeatureOptions
from windlass.nn.pooling import masked_mean


class RegionOptions(BaseOptions):
    """The regions of the picture, and how they become one vector.

    >>> RegionOptions(attention="bilinear").attention.kind
    'bilinear'
    """

    size: int | None = Field(256, ge=1, description="units of a linear projection of a region; none: as it is")
    activation: Literal["none", "relu", "tanh"] = Field("none", description="of the projection")
    norm: bool = Field(False, description="layer normalisation of the numbers of a region")
    dropout: float = Field(0.0, ge=0, lt=1, description="on the projected regions")
    attention: AttentionOptions | None = Field(
        Additive.Options(), description="attention of the question over the regions; none: their mean"
    )

    @model_validator(mode="after")
    def _all_used(self) -> RegionOptions:
        if self.attention is not None and self.attention.coverage:
            raise ValueError("coverage changes nothing as the question attends once: leave it out")
        return self


@final
class QuestionEncoder(Encoder):
    """A question and a picture: the state of the question beside a vector of the picture.

    q = reader(question)        r_j = f(W v_j + b)                  v_j: region j of the picture
    c = sum_j a_j r_j           a = softmax_j(score(q, r_j))        without attention, a_j = 1 / S (Ren et al. 2015)
    summary: [q; c]

    Attention as in Yang et al. (2016) with one layer. The memory has the regions, and as its part `cross_attention` the
    weights a. With `picture: null` the model is blind: its summary is q, and what it scores is what the questions alone
    give away.

    >>> from windlass.core.records import Padded
    >>> options = QuestionEncoder.Options(reader={"kind": "recurrent", "size": 3}, picture={"size": 4})
    >>> picture = Padded(torch.ones(2, 9, 5), torch.ones(2, 9) > 0)
    >>> batch = Batch({"source": Padded.of([[5, 6, 7], [8]]), "picture": picture}, None, torch.arange(2))
    >>> memory = options.build({"source": 10, "picture": 5})(batch)
    >>> memory.summary.shape, memory.parts["cross_attention"].states.shape
    (torch.Size([2, 10]), torch.Size([2, 1, 9]))
    """

    class Options(EncoderBase):
        """An encoder of a question about a picture."""

        kind: Literal["question"] = "question"
        reader: ReaderOptions = Field(RecurrentEncoder.Options(), description="the encoder of the question")
        picture: RegionOptions | None = Field(
            RegionOptions(),
            description="the regions of the picture; none: a blind model, which reads the question alone",
        )

        @property
        def source_embedding(self) -> SourceEmbedding:
            """The embedding of the tokens of the question."""
            return self.reader.embedding

        def _terms(self, at: str) -> Iterator[Term]:
            what = f"{at}: question reads a picture and a question, not source: <source>"
            yield Needs("source question", f"{what}: set source: question")
            yield Needs(f"{at}.reader summary", f"{at}.reader must give a summary: use another one")
            yield Gives(f"{at} summary")

        @classmethod
        def tiny(cls) -> tuple[Self, ...]:
            """With attention by several scores, without attention, and blind."""
            reader = RecurrentEncoder.Options.small(cell="gru", size=3)
            seen = RegionOptions.small(size=4)
            bilinear = RegionOptions(size=4, attention={"kind": "bilinear", "keys": 3, "values": 2}, activation="tanh")
            mean = RegionOptions(size=None, norm=True, attention=None)
            return (*(cls(reader=reader, picture=picture) for picture in (seen, bilinear, mean, None)),)

    def __init__(self, vocabulary: int | VocabularySizes, options: Options):
        super().__init__()
        sizes = {"source": vocabulary, "picture": 1} if isinstance(vocabulary, int) else vocabulary
        self.reader = options.reader.build(sizes)
        self.size, self.regions, self.attend = self.reader.size, None, None
        if (seen := options.picture) is not None:
            projection = {name: getattr(seen, name) for name in ("size", "activation", "norm", "dropout")}
            self.regions = FeatureOptions(**projection).build(sizes["picture"])
            width = self.regions.size
            if seen.attention is not None:
                self.attend = Attention(seen.attention, self.reader.size, width)
                width = self.attend.size
            self.size += width

    def embeddings(self) -> list[Embedding]:
        """The embedding of the tokens of the question."""
        return self.reader.embeddings()

    def forward(self, batch: Batch) -> Memory:
        """Encode `source` and `picture`."""
        return self._look(batch, self.reader(batch).summary)

    def infer(self, batch: Batch, int8: bool = False) -> Memory:
        """`forward` with the packed weights of the reader, if it offers them."""
        return self._look(batch, self.reader.infer(batch, int8).summary)

    def _look(self, batch: Batch, q: Tensor) -> Memory:
        if self.regions is None:
            return Memory(q[:, None, :][:, :0], q.new_zeros(len(q), 0, dtype=torch.bool), q)  # no regions
        picture = batch.inputs["picture"]
        seen = self.regions(picture if self.front is None else self.front(picture))
        regions = Memory(seen.values, seen.mask, masked_mean(seen.values, seen.mask), places="grid")
        if self.attend is None:
            return replace(regions, summary=torch.cat([q, regions.summary], dim=1))
        context, weights = self.attend(q[:, None], self.attend.prepare(regions))
        looked = Memory.of_weights(weights, torch.ones_like(weights[..., 0], dtype=torch.bool))
        return replace(regions, summary=torch.cat([q, context[:, 0]], dim=1), parts={"cross_attention": looked})
