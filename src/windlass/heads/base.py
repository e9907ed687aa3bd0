"""The interface of heads, p(target | memory): training loss, prediction and forced scoring."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from windlass.core.errors import DataError, RecipeError
from windlass.core.fitting import Needs, Term
from windlass.core.options import Options
from windlass.core.records import Batch, Carry, Hypothesis, Member, Memory, Padded, Scored
from windlass.decoding.options import SearchOptions
from windlass.decoding.search import SearchRequest
from windlass.nn.embedding import Embedding

if TYPE_CHECKING:
    from windlass.heads.kinds import DecoderOptions


class LossOptions(Options):
    """Terms of the loss beside the negative log likelihood.

    >>> from windlass.core.fitting import misfits
    >>> list(misfits(LossOptions(coverage=1).declare("loss")))
    ['loss.coverage needs a decoder with context: attention; else set loss.coverage: 0']
    """

    label_smoothing: float = Field(0.0, ge=0, lt=1)
    coverage: float = Field(0.0, ge=0, description="weight of the coverage loss, which penalises repeated attention")
    alignment: float = Field(0.0, ge=0, description="weight of the alignment loss: attention against gold alignments")
    doubly_stochastic: float = Field(
        0.0,
        ge=0,
        description="weight of a penalty on places whose attention, summed over all steps, is not 1 (Xu et al. 2015)",
    )

    def _terms(self, at: str) -> Iterator[Term]:
        for name, feature in (("alignment", "links"), ("coverage", "weights"), ("doubly_stochastic", "weights")):
            if getattr(self, name):
                why = f"{at}.{name} needs a decoder with context: attention; else set {at}.{name}: 0"
                yield Needs(f"model.decoder.context {feature}", why)


class Head(nn.Module, ABC):
    """p(target | memory).

    A head works with ids; the target side of the model decodes them. So a new head needs a target side of its kind and
    nothing else.
    """

    searches: ClassVar[bool] = False
    """Whether prediction is a search, with options that a user may set."""
    in_order: ClassVar[bool] = False
    """Whether tokens can only be written in the order of what they come from."""
    limits_targets: ClassVar[bool] = False
    """Whether a target can be too long for its input; it is then left out of the loss."""

    @property
    def output_blocks(self) -> int:
        """Blocks of the output layer, one after the other, each with a row for every output."""
        return 1

    @classmethod
    def check_search(cls, options: SearchOptions) -> None:
        """Refuse a search that this head cannot do."""
        if not cls.searches:
            raise RecipeError("search options have no use: this model writes no text; leave them out")

    def too_long(self, batch: Batch, places: Tensor) -> Tensor:
        """Which targets (B,) are too long for memories of the given numbers of places (B,)."""
        return torch.zeros_like(places, dtype=torch.bool)

    def prepare(self, batches: Iterable[Batch], anew: bool = True) -> None:
        """Fit to the training data what is not trained by gradients: nothing, in most heads."""

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

        `carry` is the state from which running text continues; `sampling_prob` is the probability that a decoder reads
        its own last output instead of the reference (scheduled sampling). Other heads ignore both, and a recipe that
        sets them is refused.
        """

    @classmethod
    @abstractmethod
    def predict(cls, members: Sequence[Member], request: SearchRequest) -> list[list[Hypothesis]]:
        """The best hypotheses of every row, best first. Several members are an ensemble of heads of this class."""

    @abstractmethod
    def force(self, memory: Memory, batch: Batch) -> list[Hypothesis]:
        """Score the batch's targets instead of predicting."""

    def log_probabilities(self, memory: Memory, batch: Batch) -> Tensor:
        """The log probability of every target (B,), without what else `force` tells of it."""
        return torch.tensor([hypothesis.score for hypothesis in self.force(memory, batch)], device=memory.mask.device)


AllowedTransitions = tuple[list[bool], list[list[bool]], list[bool]]
"""Which tags may come first, after each other, and last."""


@dataclass(frozen=True)
class Wiring:
    """What a head needs to know of the rest of the model: sizes, and what it shares with the encoder.

    >>> from windlass.heads.label import LabelHeadOptions
    >>> LabelHeadOptions().build(Wiring(outputs=3, memory_size=8)).output[-1].out_features
    3
    """

    outputs: int  # V
    memory_size: int  # D
    final_sizes: tuple[tuple[int, ...], ...] = ()  # of the tensors in every layer's last state
    part_sizes: Mapping[str, int] = field(default_factory=dict)  # of the states of the memory's parts, by name
    decoder: DecoderOptions | None = None  # of the text head
    tied: bool = False  # the output layer shares the decoder's embedding
    embedding: Embedding | None = None  # the encoder's, if the decoder shares it
    allowed: AllowedTransitions | None = None  # of the tags
    outside: int | None = None  # the tag of a place that is in no span
    prefix: str | None = None  # the input that the decoder reads as a prefix


def mlp(size: int, hidden: Sequence[int], outputs: int, dropout: float) -> nn.Sequential:
    """o = V tanh(... tanh(W_1 x + b_1) ...) + b, with dropout on the input of every layer.

    >>> [type(module).__name__ for module in mlp(4, [3], 2, dropout=0.1)]
    ['Dropout', 'Linear', 'Tanh', 'Dropout', 'Linear']
    """
    modules: list[nn.Module] = []
    for width in hidden:
        modules += [*([nn.Dropout(dropout)] if dropout else []), nn.Linear(size, width), nn.Tanh()]
        size = width
    return nn.Sequential(*modules, *([nn.Dropout(dropout)] if dropout else []), nn.Linear(size, outputs))


def gold(batch: Batch) -> Padded:
    """The targets of a batch; an error if it has none.

    >>> gold(Batch({}, Padded.of([[5]]), torch.arange(1))).values.tolist()
    [[5]]
    """
    if batch.target is None:
        raise DataError("this batch has no targets: use examples with targets")
    return batch.target


def ensemble_mean(parts: Iterable[Tensor]) -> Tensor:
    """The mean of the outputs of an ensemble, on the CPU.

    >>> ensemble_mean([torch.zeros(2), torch.ones(2)]).tolist()
    [0.5, 0.5]
    """
    return torch.stack([part.cpu() for part in parts]).mean(0)
