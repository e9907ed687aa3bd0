"""What a head is: p(target | memory), for training, for prediction and for scoring given targets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from windlass.core.errors import DataError
from windlass.core.fitting import Needs, Term
from windlass.core.options import Options
from windlass.core.records import Batch, Carry, Hypothesis, Member, Memory, Padded, Scored
from windlass.decoding.search import SearchRequest


class LossOptions(Options):
    """What is minimised beside the negative log likelihood.

    >>> LossOptions(label_smoothing=0.1).coverage
    0.0
    """

    label_smoothing: float = Field(0.0, ge=0, lt=1)
    coverage: float = Field(0.0, ge=0, description="weight of attending again to what was attended to")
    alignment: float = Field(0.0, ge=0, description="weight of gold alignments against the attention")

    def _terms(self, at: str) -> Iterator[Term]:
        if self.alignment:
            yield Needs("model.decoder.context links", f"{at}.alignment needs a decoder with context: attention")
        if self.coverage:
            yield Needs("model.decoder.context coverage", f"{at}.coverage needs an attention with coverage: true")


class Head(nn.Module, ABC):
    """Models p(target | memory).

    A head speaks of ids alone. The target side of a model turns ids into what a user sees, so that a new head needs a
    target side of its kind and nothing else.
    """

    searches: ClassVar[bool] = False
    """Whether an output is found by a search, whose options a user may set."""

    @abstractmethod
    def score(
        self,
        memory: Memory,
        batch: Batch,
        loss: LossOptions | None = None,
        carry: Carry | None = None,
        sampling_prob: float = 0.0,
    ) -> Scored:
        """The training loss of a batch's targets.

        `carry` is the state that running text goes on from; `sampling_prob` is the probability that a decoder reads
        its own last output instead of the reference (scheduled sampling). A head that has neither ignores them: the
        recipe refuses both where they would change nothing.
        """

    @classmethod
    @abstractmethod
    def predict(cls, members: Sequence[Member], request: SearchRequest) -> list[list[Hypothesis]]:
        """The best hypotheses of every row, best first. Several members are an ensemble of heads of this class."""

    @abstractmethod
    def force(self, memory: Memory, batch: Batch) -> list[Hypothesis]:
        """Score the batch's targets instead of predicting."""


def gold(batch: Batch) -> Padded:
    """The targets of a batch, which must have some.

    >>> gold(Batch({}, Padded.of([[5]]), torch.arange(1))).values.tolist()
    [[5]]
    """
    if batch.target is None:
        raise DataError("this batch has no targets: give examples with their answers")
    return batch.target


def ensemble_mean(parts: Iterable[Tensor]) -> Tensor:
    """The mean of what the members of an ensemble say, on the CPU.

    >>> ensemble_mean([torch.zeros(2), torch.ones(2)]).tolist()
    [0.5, 0.5]
    """
    return torch.stack([part.cpu() for part in parts]).mean(0)


def pooled(pool: nn.Module, memory: Memory) -> tuple[Tensor, Tensor | None]:
    """A memory as one vector (B, D), a pair as [u; v; |u - v|; u * v]; and the weights of its places (B, S).

    >>> from windlass.nn.pooling import Attended
    >>> memory = Memory(torch.randn(2, 5, 4), torch.ones(2, 5) > 0, torch.randn(2, 4))
    >>> pooled(Attended.Options().build(4), memory)[0].shape
    torch.Size([2, 4])
    """
    u, weights = pool(memory)
    second = memory.parts.get("second")
    if second is None:
        return u, weights
    v, _ = pool(second)
    return torch.cat([u, v, (u - v).abs(), u * v], dim=-1), weights


def attention_of(members: Sequence[Member], pooling: Sequence[Tensor | None]) -> Tensor | None:
    """The attention (B, rows, S) behind a pooled memory: of a pair, the second text's words over the first's.

    >>> memory = Memory(torch.randn(2, 5, 4), torch.ones(2, 5) > 0, torch.randn(2, 4))
    >>> attention_of([Member(None, memory)], [torch.ones(2, 5) / 5]).shape
    torch.Size([2, 1, 5])
    """
    if "second" in members[0].memory.parts:
        crossed = [m.memory.parts["cross_attention"].states for m in members if "cross_attention" in m.memory.parts]
        return ensemble_mean(crossed) if crossed else None
    weighed = [weights[:, None] for weights in pooling if weights is not None]
    return ensemble_mean(weighed) if weighed else None
