"""What the heads that pool the memory to one vector share: label, labels and number."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar, Self

import torch
from pydantic import Field
from torch import Tensor, nn

from windlass.core.errors import RecipeError
from windlass.core.fitting import Gives, Needs, Refuses, Term
from windlass.core.marks import BUCKETS
from windlass.core.options import Options
from windlass.core.records import Batch, Carry, Hypothesis, Member, Memory, Padded, Scored
from windlass.decoding.search import SearchRequest
from windlass.heads.base import Head, LossOptions, ensemble_mean, gold, mlp
from windlass.nn.dropout import drop
from windlass.nn.pooling import AttentionPooling, PoolOptions


class WideOptions(Options):
    """A linear layer on the n-grams of the source, added to the output of the network (Cheng et al. 2016).

    >>> WideOptions(dropout=0.3).gain
    10.0
    """

    dropout: float = Field(0.5, ge=0, lt=1, description="share of n-grams left out in training")
    gain: float = Field(10.0, gt=0, description="factor of its weights: the larger, the faster they are learned")


def extra_input(batch: Batch, name: str) -> Padded:
    """What a head reads of a source beside its tokens.

    >>> extra_input(Batch({}, None, torch.arange(1)), "ngrams")
    Traceback (most recent call last):
    windlass.core.errors.RecipeError: this model reads ngrams of its source, and there are none: set source.ngrams
    """
    if name not in batch.inputs:
        raise RecipeError(f"this model reads {name} of its source, and there are none: set source.{name}")
    return batch.inputs[name]


class Wide(nn.Module):
    """gain / sqrt(N) * sum of W_n over the N n-grams of a text; W begins at 0.

    >>> from windlass.core.records import Padded
    >>> Wide(WideOptions(), outputs=3)(Padded.of([[7, 9], [8]])).tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """

    def __init__(self, options: WideOptions, outputs: int):
        super().__init__()
        self.dropout, self.gain = options.dropout, options.gain
        self.table = nn.Parameter(torch.zeros(BUCKETS, outputs))

    def forward(self, ngrams: Padded) -> Tensor:
        """Of n-grams (B, N): (B, V)."""
        mask = ngrams.mask.to(self.table.dtype)
        share = mask / mask.sum(1, keepdim=True).clamp(min=1).sqrt()
        weights = drop(share * self.gain, self.dropout, self.training)
        return nn.functional.embedding_bag(ngrams.values, self.table, per_sample_weights=weights, mode="sum")


class PooledHeadOptions(Options):
    """The options that all of them have.

    >>> [options.hidden for options in PooledHeadOptions.tiny()]
    [(), (6, 3)]
    """

    kind: str = ""
    pool: PoolOptions = Field(AttentionPooling.Options(), description="the pooling of the states to one vector")
    hidden: tuple[Annotated[int, Field(ge=1)], ...] = Field((), description="units of the hidden layers")
    dropout: float = Field(0.0, ge=0, lt=1, description="on the input of each layer")
    wide: WideOptions | None = Field(None, description="a linear layer on n-grams beside the network")

    def _terms(self, at: str) -> Iterator[Term]:
        yield Gives(f"{at} pairs")
        reads = self.pool.reads
        yield Needs(
            f"model.encoder {reads}",
            f"{at}.pool: {self.pool.kind} reads {reads}, which encoder: <model.encoder> does not give: "
            f"use pool: {'summary' if reads == 'states' else 'attention'}, or another encoder",
        )
        yield from self.pool.declare_over("model.encoder", f"{at}.pool")
        if self.wide is not None:
            yield Needs("source ngrams", f"{at}.wide reads n-grams of a text: set source.ngrams: 2, or {at}.wide: null")
            yield Refuses("source pair", f"{at}.wide reads n-grams of one text, not of a pair: leave it out")

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """Without hidden layers, and with two."""
        return cls.small(), cls.small(hidden=(6, 3))


class PooledHead(Head):
    """V f(v) + b, with v pooled from the memory and f hidden layers, if any.

    The texts of a pair are pooled to u and v, and judged by [u; v; |u - v|; u * v] (Mou et al. 2016).
    """

    single: ClassVar[str | None] = None
    """What it predicts, if that has no alternatives."""

    def __init__(self, options: PooledHeadOptions, labels: int, memory_size: int, pair: bool = False):
        super().__init__()
        self.pool = options.pool.build(memory_size)
        self.output = mlp(self.pool.size * (4 if pair else 1), options.hidden, labels, options.dropout)
        self.wide = None if options.wide is None else Wide(options.wide, labels)

    def logits(self, memory: Memory, batch: Batch | None = None) -> tuple[Tensor, Tensor | None]:
        """V f(v) + b (B, V), and the weights (B, S) of attention pooling."""
        vector, weights = self.pool(memory)
        if "second" in memory.parts:
            u, (v, _) = vector, self.pool(memory.parts["second"])
            vector = torch.cat([u, v, (u - v).abs(), u * v], dim=-1)
        output = self.output(vector)
        if self.wide is not None and batch is not None:
            output = output + self.wide(extra_input(batch, "ngrams"))
        return output, weights

    def forward(self, memory: Memory, batch: Batch | None = None) -> tuple[Tensor, Tensor | None]:
        """What the head predicts, and the weights (B, S) of attention pooling."""
        return self.logits(memory, batch)

    @abstractmethod
    def loss(self, logits: Tensor, target: Tensor, smoothing: float) -> tuple[Tensor, dict[str, Tensor]]:
        """The summed loss, and its terms for the log."""

    def expected(self, predicted: Tensor) -> Tensor:
        """Probabilities or numbers from what `forward` returns: an ensemble averages them."""
        return predicted

    @abstractmethod
    def best(self, expected: Tensor, weights: Tensor | None, nbest: int) -> list[Hypothesis]:
        """The best hypotheses of one row."""

    @abstractmethod
    def forced(self, predicted: Tensor, target: Tensor, weights: Tensor | None) -> Hypothesis:
        """The target of one row as a hypothesis."""

    def score(
        self,
        memory: Memory,
        batch: Batch,
        loss: LossOptions | None = None,
        carry: Carry | None = None,
        sampling_prob: float = 0.0,
    ) -> Scored:
        """The training loss of one target for each row."""
        target, smoothing = gold(batch), (loss or LossOptions()).label_smoothing
        value, terms = self.loss(self.logits(memory, batch)[0], target.values, smoothing)
        return Scored(value, target.mask.sum(), terms)

    @classmethod
    @torch.no_grad()
    def predict(cls, members: Sequence[Member], request: SearchRequest) -> list[list[Hypothesis]]:
        """The best hypotheses; for an ensemble, by the mean of the probabilities or numbers."""
        if cls.single is not None and request.nbest > 1:
            raise RecipeError(f"{cls.single} has no alternatives: leave nbest out")
        outputs, head = [member.head(member.memory, member.batch) for member in members], members[0].head
        expected = ensemble_mean(head.expected(predicted) for predicted, _ in outputs)
        weights = _attention([member.memory for member in members], [pooling for _, pooling in outputs])
        return [head.best(*row, request.nbest) for row in zip(expected, weights, strict=True)]

    @torch.no_grad()
    def force(self, memory: Memory, batch: Batch) -> list[Hypothesis]:
        """Score the batch's targets."""
        predicted, pooling = self(memory, batch)
        rows = zip(predicted, gold(batch).values, _attention([memory], [pooling]), strict=True)
        return [self.forced(*row) for row in rows]


def _attention(memories: Sequence[Memory], pooling: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
    """For each row, the attention (rows, S) of pooling, of the second text over the first, or of a question."""
    weights = [m.parts["cross_attention"].states for m in memories if "cross_attention" in m.parts]
    if not weights and "second" not in memories[0].parts:
        weights = [w[:, None] for w in pooling if w is not None]
    return ensemble_mean(weights).unbind(0) if weights else [None] * len(memories[0].mask)
