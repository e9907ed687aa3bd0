"""The tags head: a tag for every place of a memory, by a softmax at each place or by a CRF."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, Self, final

import torch
from pydantic import Field
from torch import Tensor

from windlass.core.errors import RecipeError
from windlass.core.fitting import Needs, Refuses, Term
from windlass.core.options import Options
from windlass.core.records import Batch, Carry, Hypothesis, Member, Memory, Padded, Scored
from windlass.decoding.search import SearchRequest
from windlass.heads.base import AllowedTransitions, Head, LossOptions, Wiring, ensemble_mean, gold, mlp
from windlass.heads.cutoff import Auto, Cutoff
from windlass.nn.crf import CRF, Chain
from windlass.nn.loss import cross_entropy

FACTORS = (1.0, 0.7, 0.5, 0.35, 0.25, 0.18, 0.12, 0.08)
"""Of `outside: auto`: F1 is largest at a factor of F1 / (2 - F1), for probabilities that are right."""


class TagsHeadOptions(Options):
    """A tag for every place.

    >>> from windlass.core.fitting import Gives, misfits
    >>> list(misfits(TagsHeadOptions(output="crf").declare("head"), [Gives("loss.label_smoothing", 0.1)], ("loss",)))
    ['loss.label_smoothing is for single outputs, not for output: crf: set it to 0']
    """

    kind: Literal["tags"] = "tags"
    output: Literal["softmax", "crf"] = Field(
        "softmax", description="a softmax at every place or a CRF over the sequence, within the target's tag scheme"
    )
    hidden: tuple[Annotated[int, Field(ge=1)], ...] = Field((), description="units of the hidden layers")
    dropout: float = Field(0.0, ge=0, lt=1, description="on the input of each layer")
    outside: Annotated[float, Field(gt=0)] | Auto = Field(
        1.0,
        description="factor on the probability of O, outside of all spans: below 1 more spans are found; "
        "auto: the best on dev, after training",
    )

    def _terms(self, at: str) -> Iterator[Term]:
        yield Needs(
            "model.encoder states", f"with {at}: tags the encoder must have states, not encoder: <model.encoder>"
        )
        if self.output == "crf":
            yield Refuses(
                "loss.label_smoothing", "loss.label_smoothing is for single outputs, not for output: crf: set it to 0"
            )

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """Both output layers, without hidden layers and with two."""
        return cls(), cls(output="crf"), cls(hidden=(3, 6)), cls(output="crf", hidden=(3, 6))

    def build(self, wiring: Wiring) -> TagsHead:
        """Build the head."""
        if self.outside not in (1, "auto") and wiring.outside is None:
            raise RecipeError(
                "model.head.outside is for tags that mark spans (B-x I-x O), and these do not: leave it out"
            )
        return TagsHead(self, wiring.outputs, wiring.memory_size, wiring.allowed, wiring.outside)


@final
class TagsHead(Head):
    """p(tags) = softmax(V h_t + b) at every place t, or a CRF with these scores as emissions.

    >>> head = TagsHead(TagsHeadOptions(output="crf"), tags=3, memory_size=4)
    >>> memory = Memory(torch.randn(2, 5, 4), torch.ones(2, 5) > 0, torch.randn(2, 4))
    >>> head.best_tags(memory).shape, head(memory).sum(-1)[0, 0].round(decimals=4).item()
    (torch.Size([2, 5]), 1.0)
    """

    first: Tensor
    after: Tensor
    last: Tensor

    def __init__(
        self,
        options: TagsHeadOptions,
        tags: int,
        memory_size: int,
        allowed: AllowedTransitions | None = None,
        outside: int | None = None,
    ):
        super().__init__()
        self.outside = outside
        self.factor = Cutoff("outside", 1.0 if outside is None else options.outside, 1.0, FACTORS)
        self.output = mlp(memory_size, options.hidden, tags, options.dropout)
        self.crf = CRF(tags) if options.output == "crf" else None
        masks = allowed or ([True] * tags, [[True] * tags] * tags, [True] * tags)
        chain = Chain.from_masks(*(torch.tensor(mask) for mask in masks))
        for name, tensor in (("first", chain.start), ("after", chain.transitions), ("last", chain.end)):
            self.register_buffer(name, tensor, persistent=False)  # saved with the target side

    @property
    def scheme(self) -> Chain:
        """The tag scheme: which transitions it allows."""
        return Chain(self.first, self.after, self.last)

    def forward(self, memory: Memory) -> Tensor:
        """The probability of every tag at every place (B, S, V), zero on padding."""
        scores = self.output(memory.states)
        if self.crf is not None:
            return self.crf(self.scheme).marginals(scores, memory.mask)  # type: ignore[no-any-return]
        return torch.softmax(scores, -1) * memory.mask[..., None]

    def best_tags(self, memory: Memory) -> Tensor:
        """The most probable tags (B, S) that the scheme allows."""
        scores = torch.log_softmax(self.output(memory.states), -1)
        chain = self.scheme if self.crf is None else self.crf(self.scheme)
        return chain.viterbi(scores, memory.mask)[0]

    def best_of_marginals(self, marginals: Tensor, mask: Tensor) -> Tensor:
        """The tags (B, S) with the largest product of marginals (B, S, V), that of O weighted, within the scheme."""
        scores = marginals.clamp(min=1e-12).log()
        if self.outside is not None:
            scores[..., self.outside] += math.log(self.factor.value)
        return self.scheme.cpu().viterbi(scores, mask)[0]

    def score(
        self,
        memory: Memory,
        batch: Batch,
        loss: LossOptions | None = None,
        carry: Carry | None = None,
        sampling_prob: float = 0.0,
    ) -> Scored:
        """The training loss of tags (B, S)."""
        target, scores = gold(batch), self.output(memory.states)
        if self.crf is not None:
            nll = self.crf(self.scheme).loss(scores, target.values, target.mask).sum()
            return Scored(nll, target.mask.sum(), {"nll": nll.detach()})
        smoothing = (loss or LossOptions()).label_smoothing
        value, nll = cross_entropy(scores[target.mask], target.values[target.mask], smoothing)
        return Scored(value, target.mask.sum(), {"nll": nll})

    @classmethod
    @torch.no_grad()
    def predict(cls, members: Sequence[Member], request: SearchRequest) -> list[list[Hypothesis]]:
        """The best tags that the scheme allows: by marginals for an ensemble, or if O is weighted."""
        if request.nbest > 1:
            raise RecipeError("a tagger has one output, with the probability of each tag: leave nbest out")
        first = members[0]
        mask = first.memory.mask.cpu()
        marginals = ensemble_mean(member.head(member.memory) for member in members)
        if len(members) == 1 and first.head.factor.value == 1:
            best = first.head.best_tags(first.memory).cpu()
        else:
            best = first.head.best_of_marginals(marginals, mask)
        return [
            [_hypothesis(best[row, :length].tolist(), marginals[row, :length])]
            for row, length in enumerate(mask.sum(1).tolist())
        ]

    @torch.no_grad()
    def force(self, memory: Memory, batch: Batch) -> list[Hypothesis]:
        """The probability of the batch's tags: of each one, and of the sequence."""
        target = gold(batch)
        totals, marginals = self.sequence_logprob(memory, target).tolist(), self(memory).cpu()
        lengths = target.mask.sum(1).tolist()
        return [
            _hypothesis(target.values[row, :length].tolist(), marginals[row, :length], total)
            for row, (length, total) in enumerate(zip(lengths, totals, strict=True))
        ]

    def sequence_logprob(self, memory: Memory, target: Padded) -> Tensor:
        """The log probability of the tags of each row: (B,)."""
        scores = self.output(memory.states)
        if self.crf is not None:
            return -self.crf(self.scheme).loss(scores, target.values, target.mask)  # type: ignore[no-any-return]
        logp = torch.log_softmax(scores, -1).gather(2, target.values[..., None]).squeeze(2)
        return (logp * target.mask).sum(1)


def _hypothesis(tags: list[int], marginals: Tensor, total: float | None = None) -> Hypothesis:
    """Tags with their marginals (S, V); `total` is the log probability of the sequence, if known."""
    chosen = marginals[torch.arange(len(tags)), torch.tensor(tags, dtype=torch.long)].tolist()
    logprobs = tuple(math.log(max(probability, 1e-45)) for probability in chosen)
    score = sum(logprobs) if total is None else total
    return Hypothesis(tuple(tags), score, logprobs, distribution=marginals, total=total)
