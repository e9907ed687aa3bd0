"""The pyramidal encoder: recurrent layers, each over half as many places as the one below."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, Self, final

import torch
from pydantic import Field, model_validator
from torch import nn

from windlass.core.fitting import Gives, Refuses, Term
from windlass.core.records import Batch, Memory
from windlass.encoders.base import TokenEncoder, TokenOptions, VocabularySizes
from windlass.nn.features import stack_places
from windlass.nn.recurrence import Stack, StackOptions


@final
class PyramidEncoder(TokenEncoder):
    """Recurrent layers of which each reads the states of the one below, `factor` at a time (Chan et al. 2016).

    h^1_t = R(h^1_{t-1}, e(x_t));  h^j_t = R(h^j_{t-1}, [h^{j-1}_{kt}; ...; h^{j-1}_{kt+k-1}])

    states: those of the last layer;  summary: its last state in each direction

    >>> from windlass.core.records import Padded
    >>> options = PyramidEncoder.Options(size=4, layers=3, embedding={"kind": "features", "size": 3})
    >>> source = Padded(torch.ones(2, 9, 5), torch.ones(2, 9) > 0)
    >>> options.build(5)(Batch({"source": source}, None, torch.arange(2))).states.shape
    torch.Size([2, 3, 8])
    """

    class Options(StackOptions, TokenOptions):
        """A pyramidal encoder."""

        kind: Literal["pyramid"] = "pyramid"
        layers: int = Field(3, ge=2, le=100, description="number of layers")
        factor: int = Field(2, ge=2, description="states of a layer that the next reads as one")
        bidirectional: bool = Field(True, description="read in both directions")

        @model_validator(mode="after")
        def _fits(self) -> PyramidEncoder.Options:
            if self.connect != "plain":
                raise ValueError("the layers of a pyramid differ in length and have no connections: set connect: plain")
            return self

        def _terms(self, at: str) -> Iterator[Term]:
            yield from super()._terms(at)
            yield Gives(f"{at} final states", self.cell.stateful)
            yield Gives(f"{at} two directions", self.bidirectional)
            yield Refuses("target: tags", f"{at}: pyramid joins places that have a tag each: use recurrent")

        @classmethod
        def tiny(cls) -> tuple[Self, ...]:
            """Both directions, and one with another factor; of two layers, so that the last has places left."""
            return cls.small(cell="gru", layers=2), cls.small(cell="lstm", layers=2, factor=3, bidirectional=False)

    def __init__(self, vocabulary: int | VocabularySizes, options: Options):
        super().__init__(vocabulary, options)
        single = StackOptions(**{name: getattr(options, name) for name in StackOptions.model_fields} | {"layers": 1})
        self.factor, width = options.factor, self.width
        self.joined *= options.factor ** (options.layers - 1)
        stacks = []
        for _ in range(options.layers):
            stacks.append(Stack(width, single, options.bidirectional))
            width = stacks[-1].size * options.factor
        self.stacks, top = nn.ModuleList(stacks), stacks[-1]
        self.size, self.two = top.size, options.bidirectional
        self.final_sizes = ((self.size,) * top.first.parts,) * options.layers

    def forward(self, batch: Batch) -> Memory:
        """Encode the places of `source`."""
        source = self.embed(batch)
        x, mask, final = source.values, source.mask, []
        for n, stack in enumerate(self.stacks):
            if n:
                x, mask = stack_places(x, mask, self.factor)
            x, last = stack(x, mask)
            final += last
        summary = x[torch.arange(batch.size, device=x.device), (mask.sum(1) - 1).clamp(min=0)]
        if self.two:
            half = self.size // 2
            summary = torch.cat([summary[:, :half], x[:, 0, half:]], dim=1)
        return Memory(x, mask, summary, tuple(final))
