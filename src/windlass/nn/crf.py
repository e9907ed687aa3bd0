"""A linear-chain conditional random field over tags: partition, best path and marginals, all rows and tags at once.

    score(y) = start[y_1] + sum_t e_t[y_t] + sum_t A[y_{t-1}, y_t] + end[y_S]      p(y) = exp(score(y)) / Z

The forward and backward sums run as products with exp(A), every few steps scaled to a sum of 1 and the scales added as
logarithms: the same numbers as in log space, at a fraction of the time. The gradient of log Z is known: it is the
expected counts. So the steps leave no graph behind. Doubles inside leave 170 nats between two tags of a place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

FORBIDDEN = -1e4
"""The score of a transition that is not allowed: its probability is zero, its arithmetic finite."""
_TINY = 1e-300
SCALED = 4
"""Sums are scaled again every so many steps."""


@dataclass(frozen=True)
class Chain:
    """What tags say of their neighbours: scores of the first tag (V,), of pairs (V, V), of the last (V,).

    >>> chain = Chain(torch.zeros(3), torch.zeros(3, 3), torch.zeros(3))
    >>> emissions, mask = torch.randn(2, 4, 3), torch.ones(2, 4, dtype=torch.bool)
    >>> tags, score = chain.best(emissions, mask)
    >>> torch.equal(tags, emissions.argmax(-1)), bool((score <= chain.partition(emissions, mask)).all())
    (True, True)
    """

    start: Tensor
    pairs: Tensor
    end: Tensor

    @classmethod
    def allowing(cls, first: Tensor, after: Tensor, last: Tensor) -> Chain:
        """A chain that forbids what these masks do not allow, and says nothing else."""
        return cls(*(torch.zeros(m.shape).masked_fill(~m, FORBIDDEN) for m in (first, after, last)))

    def cpu(self) -> Chain:
        """The chain on the processor's own memory."""
        return Chain(self.start.cpu(), self.pairs.cpu(), self.end.cpu())

    def path(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """score(y) of given tags (B, S), for emissions (B, S, V): (B,)."""
        real = mask.to(emissions.dtype)
        places = emissions.gather(2, tags[..., None]).squeeze(2) * real
        steps = self.pairs[tags[:, :-1], tags[:, 1:]] * real[:, 1:]
        last = tags.gather(1, _last(mask)[:, None]).squeeze(1)
        return places.sum(1) + steps.sum(1) + (self.start[tags[:, 0]] + self.end[last]) * real[:, 0]

    def partition(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """log Z: (B,)."""
        total: Tensor = _Partition.apply(emissions, self.start, self.pairs, self.end, mask)  # type: ignore[no-untyped-call]
        return total

    def marginals(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """p(y_t = tag) at every place: (B, S, V), zero on padding."""
        with torch.no_grad():
            return _Sums(self, emissions, mask).expected()[0].to(emissions.dtype)

    def best(self, emissions: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The most probable tags (B, S), zero on padding, and their score (B,): the Viterbi algorithm."""
        places, real, full = emissions.unbind(1), mask.t(), mask.all(0).tolist()
        into = self.pairs.t().contiguous()  # (to, from): the maximum is over neighbours in memory
        scores = [places[0] + self.start]  # of the best way to every tag: (B, V) each
        for t in range(1, len(places)):
            found = (scores[-1][:, None] + into).amax(2) + places[t]
            scores.append(found if full[t] else torch.where(real[t, :, None], found, scores[-1]))
        total, tag = (scores[-1] + self.end).max(1)
        tags = [tag]
        for t in range(len(places) - 1, 0, -1):
            # Where it came from is asked of the tag that was taken alone: V sums a row, not V * V.
            before = (scores[t - 1] + into.index_select(0, tag)).argmax(1)
            tag = before if full[t] else torch.where(real[t], before, tag)
            tags.append(tag)
        return torch.stack(tags[::-1], 1) * mask, total * real[0]


class CRF(nn.Module):
    """A chain whose scores are learned (Lafferty et al. 2001), within what another allows.

    >>> CRF(3)().pairs.shape
    torch.Size([3, 3])
    """

    def __init__(self, tags: int):
        super().__init__()
        self.start, self.end = (nn.Parameter(torch.empty(tags).uniform_(-0.1, 0.1)) for _ in range(2))
        self.transitions = nn.Parameter(torch.empty(tags, tags).uniform_(-0.1, 0.1))

    def forward(self, within: Chain | None = None) -> Chain:
        """The chain as it is now."""
        if within is None:
            return Chain(self.start, self.transitions, self.end)
        return Chain(self.start + within.start, self.transitions + within.pairs, self.end + within.end)


def _last(mask: Tensor) -> Tensor:
    """Which place is the last of every row."""
    return (mask.sum(1) - 1).clamp(min=0)


class _Sums:
    """The forward sums of a chain, scaled, in doubles."""

    def __init__(self, chain: Chain, emissions: Tensor, mask: Tensor):
        e, start, pairs, end = (t.double() for t in (emissions, chain.start, chain.pairs, chain.end))
        highest = e.max(2).values
        self.mask, self.full = mask, mask.all(0).tolist()
        self.weights = torch.exp(e - highest[..., None])  # (B, S, V)
        self.factor = torch.exp(pairs - pairs.max())  # (V, V)
        self.end = torch.exp(end - end.max())
        places = self.weights.unbind(1)
        a = places[0] * torch.exp(start - start.max())
        scales = highest.new_zeros(len(e))
        states = [a]
        for t in range(1, len(places)):
            moved = (a @ self.factor) * places[t]
            a = moved if self.full[t] else torch.where(mask[:, t, None], moved, a)
            if t % SCALED == 0:
                total = a.sum(1, keepdim=True).clamp(min=_TINY)
                a = a / total
                scales = scales + total.log()[:, 0]
            states.append(a)
        self.states = torch.stack(states, 1)  # (B, S, V), each place in a scale of its own
        ends = start.max() + end.max() - pairs.max() + (a @ self.end).clamp(min=_TINY).log()
        self.total = ((highest + pairs.max()) * mask).sum(1) + (scales + ends) * mask[:, 0]  # (B,)

    def expected(self, share: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The probability of every tag at every place (B, S, V), and of pairs, summed (V, V), by each row's share."""
        b = self.end.expand(self.weights.size(0), -1)
        turned = self.factor.t().contiguous()
        after = [b]
        weights = self.weights.unbind(1)
        for t in range(len(weights) - 1, 0, -1):
            moved = (weights[t] * b) @ turned
            if t % SCALED == 0:
                moved = moved / moved.sum(1, keepdim=True).clamp(min=_TINY)
            b = moved if self.full[t] else torch.where(self.mask[:, t, None], moved, b)
            after.append(b)
        rest = torch.stack(after[::-1], 1)
        places = self.states * rest
        places = places / places.sum(2, keepdim=True).clamp(min=_TINY) * self.mask[..., None]
        before, then = self.states[:, :-1], self.weights[:, 1:] * rest[:, 1:]
        then = then / ((before @ self.factor) * then).sum(2, keepdim=True).clamp(min=_TINY) * self.mask[:, 1:, None]
        if share is not None:
            places, then = places * share[:, None, None], then * share[:, None, None]
        return places, self.factor * (before.flatten(0, 1).t() @ then.flatten(0, 1))


class _Partition(torch.autograd.Function):
    """log Z, whose gradient is the expected counts."""

    @staticmethod
    def forward(ctx: Any, emissions: Tensor, start: Tensor, pairs: Tensor, end: Tensor, mask: Tensor) -> Tensor:
        ctx.sums = _Sums(Chain(start, pairs, end), emissions, mask)
        total: Tensor = ctx.sums.total
        return total.to(emissions.dtype)

    @staticmethod
    def backward(ctx: Any, *given: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, None]:
        sums: _Sums = ctx.sums
        places, pairs = sums.expected(given[0].double())
        last = places.gather(1, _last(sums.mask)[:, None, None].expand(-1, 1, places.size(2))).squeeze(1)
        e, start, steps, end = (t.to(given[0].dtype) for t in (places, places[:, 0].sum(0), pairs, last.sum(0)))
        return e, start, steps, end, None
