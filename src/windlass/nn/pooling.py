"""Pooling: the states of a memory to one vector per row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal, final

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from windlass.core.fitting import Needs, Refuses, Term
from windlass.core.options import Options, Part, named
from windlass.core.records import Memory
from windlass.nn.attention import Additive, Attention, AttentionOptions


class _PoolOptions(Options):
    ends: ClassVar[int] = 0  # reads the last states of a network with this many directions; 0: reads all states
    reads: ClassVar[str] = "states"  # what of a memory

    def build(self, size: int) -> Pool:
        """Build the pool."""
        return self.part(size, self)  # type: ignore[no-any-return]

    def declare_over(self, network: str, at: str) -> Iterator[Term]:
        """The terms between the pool and the network whose states it pools."""
        what = f"{at}: <{at}>"
        if self.ends:
            mend = f"{what} sees one word's comparison only: use mean, max, mean_max or attention"
            yield Refuses(f"{network} comparisons", mend)
        if self.ends == 1:
            mend = f"{what} reads one step of the backward direction only: use pool: ends, or bidirectional: false"
            yield Refuses(f"{network} two directions", mend)
        if self.ends == 2:
            mend = f"{what} needs a bidirectional network: use pool: last"
            yield Needs(f"{network} two directions", mend)


class Pool(Part, nn.Module, ABC):
    """Memory -> a vector (B, D), and the weights (B, S) if pooling is by attention."""

    def __init__(self, size: int, options: _PoolOptions | None = None):
        super().__init__()
        self.size = size  # of the vector: D

    @abstractmethod
    def forward(self, memory: Memory) -> tuple[Tensor, Tensor | None]:
        """One vector per row."""


def masked_mean(states: Tensor, mask: Tensor) -> Tensor:
    """The mean of states (B, S, D) over real places: (B, D), zeros if there is none.

    >>> masked_mean(torch.tensor([[[1.0], [2.0], [9.0]]]), torch.tensor([[True, True, False]])).item()
    1.5
    """
    real = mask[..., None].to(states.dtype)
    return (states * real).sum(1) / real.sum(1).clamp(min=1)


def masked_max(states: Tensor, mask: Tensor) -> Tensor:
    """The maximum of states (B, S, D) over real places: (B, D), zeros if there is none.

    >>> masked_max(torch.tensor([[[1.0], [2.0], [9.0]]]), torch.tensor([[True, True, False]])).item()
    2.0
    """
    highest = states.masked_fill(~mask[..., None], torch.finfo(states.dtype).min).max(1).values
    return torch.where(mask.any(1, keepdim=True), highest, torch.zeros_like(highest))


@final
class Last(Pool):
    """The state of the last place.

    v = h_S

    >>> memory = Memory(torch.tensor([[[1.0], [2.0], [0.0]]]), torch.tensor([[True, True, False]]), torch.zeros(1, 1))
    >>> Last(1)(memory)[0].tolist()
    [[2.0]]
    """

    class Options(_PoolOptions):
        """The last state."""

        ends: ClassVar[int] = 1
        kind: Literal["last"] = "last"

    def forward(self, memory: Memory) -> tuple[Tensor, Tensor | None]:
        """The state of the last real place; zeros if there is none."""
        last = (memory.mask.sum(1) - 1).clamp(min=0)
        picked = memory.states[torch.arange(last.numel(), device=last.device), last]
        return picked * memory.mask.any(1, keepdim=True), None


@final
class Mean(Pool):
    """Mean pooling: the mean of all states.

    v = (1 / S) sum_j h_j

    >>> memory = Memory(torch.tensor([[[1.0], [2.0], [9.0]]]), torch.tensor([[True, True, False]]), torch.zeros(1, 1))
    >>> Mean(1)(memory)[0].tolist()
    [[1.5]]
    """

    class Options(_PoolOptions):
        """Mean pooling."""

        kind: Literal["mean"] = "mean"

    def forward(self, memory: Memory) -> tuple[Tensor, Tensor | None]:
        """The mean over real places; zeros if there is none."""
        return masked_mean(memory.states, memory.mask), None


@final
class Max(Pool):
    """Max pooling: the maximum of every unit over all places.

    v_d = max_j h_jd

    >>> memory = Memory(torch.tensor([[[1.0], [-2.0], [9.0]]]), torch.tensor([[True, True, False]]), torch.zeros(1, 1))
    >>> Max(1)(memory)[0].tolist()
    [[1.0]]
    """

    class Options(_PoolOptions):
        """Max pooling."""

        kind: Literal["max"] = "max"

    def forward(self, memory: Memory) -> tuple[Tensor, Tensor | None]:
        """The maximum over real places; zeros if there is none."""
        return masked_max(memory.states, memory.mask), None


@final
class Ends(Pool):
    """The last state of each direction of a bidirectional network.

    v = [forward h_S; backward h_1]

    >>> Ends(2)(Memory(torch.zeros(1, 1, 2), torch.ones(1, 1) > 0, torch.tensor([[3.0, 4.0]])))[0].tolist()
    [[3.0, 4.0]]
    """

    class Options(_PoolOptions):
        """The last states of both directions."""

        ends: ClassVar[int] = 2
        kind: Literal["ends"] = "ends"

    def forward(self, memory: Memory) -> tuple[Tensor, Tensor | None]:
        """The encoder's summary, which holds them."""
        return memory.summary, None


@final
class AttentionPooling(Pool):
    """Attention pooling: attention with a learned query (Yang et al. 2016).

    v = sum_j a_j h_j        a = softmax_j(score(q, h_j))        q is a parameter

    >>> pool = AttentionPooling.Options(score={"kind": "additive", "size": 3}).build(4)
    >>> vector, weights = pool(Memory(torch.randn(2, 5, 4), torch.ones(2, 5) > 0, torch.zeros(2, 4)))
    >>> vector.shape, round(weights.sum().item(), 4)
    (torch.Size([2, 4]), 2.0)
    """

    class Options(_PoolOptions):
        """Attention with a learned query."""

        kind: Literal["attention"] = "attention"
        score: AttentionOptions = Field(Additive.Options(size=128), description="the score of query and state")

        @model_validator(mode="after")
        def _all_used(self) -> AttentionPooling.Options:
            if self.score.coverage:
                raise ValueError("coverage changes nothing with a single query: leave it out")
            return self

    def __init__(self, size: int, options: Options):
        super().__init__(options.score.values or size)
        width = options.score.keys or size
        self.query = nn.Parameter(torch.randn(width) * width**-0.5)
        self.attention = Attention(options.score, width, size)

    def forward(self, memory: Memory) -> tuple[Tensor, Tensor | None]:
        """Attend with the learned query."""
        query = self.query.expand(memory.states.size(0), 1, -1)
        context, weights = self.attention(query, self.attention.prepare(memory))
        return context.squeeze(1), weights.squeeze(1)


@final
class MeanMax(Pool):
    """Mean and max pooling, concatenated.

    v = [(1 / S) sum_j h_j; max_j h_j]

    >>> memory = Memory(torch.tensor([[[1.0], [2.0], [9.0]]]), torch.tensor([[True, True, False]]), torch.zeros(1, 1))
    >>> MeanMax(1)(memory)[0].tolist()
    [[1.5, 2.0]]
    """

    class Options(_PoolOptions):
        """Mean and max pooling."""

        kind: Literal["mean_max"] = "mean_max"

    def __init__(self, size: int, options: Options | None = None):
        super().__init__(2 * size)

    def forward(self, memory: Memory) -> tuple[Tensor, Tensor | None]:
        """Both, over real places; zeros if there is none."""
        return torch.cat([masked_mean(memory.states, memory.mask), masked_max(memory.states, memory.mask)], dim=1), None


@final
class Summary(Pool):
    """The encoder's own summary of what it read.

    >>> Summary(2)(Memory(torch.zeros(1, 1, 2), torch.ones(1, 1) > 0, torch.tensor([[3.0, 4.0]])))[0].tolist()
    [[3.0, 4.0]]
    """

    class Options(_PoolOptions):
        """The encoder's summary."""

        reads: ClassVar[str] = "summary"
        kind: Literal["summary"] = "summary"

    def forward(self, memory: Memory) -> tuple[Tensor, Tensor | None]:
        """The summary."""
        return memory.summary, None


PoolOptions = Annotated[
    Last.Options
    | Mean.Options
    | Max.Options
    | Ends.Options
    | AttentionPooling.Options
    | MeanMax.Options
    | Summary.Options,
    Field(discriminator="kind"),
    named,
]
"""Every pooling that a recipe can name."""
