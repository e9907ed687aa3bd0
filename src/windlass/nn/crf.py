"""A linear-chain conditional random field over tags: partition, best path and marginals, all rows and tags at once.

    score(y) = start[y_1] + sum_t e_t[y_t] + sum_t A[y_{t-1}, y_t] + end[y_S]      p(y) = exp(score(y)) / Z

The forward and backward sums run as products with exp(A), every few steps scaled to a sum of 1 and the scales added as
logarithms: the same numbers as in log space, at a fraction of the time. The gradient of log Z is known: it is the
expected counts. So the steps leave no graph behind. Doubles inside leave 170 nats between two tags of a place.

Steps are small: what they cost is the call, not the sum. So rows lie side by side in memory, (S, V, B), where a step
for all of them is one run; and on a processor the same lines run in numpy, whose calls cost a third of torch's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

FORBIDDEN = -1e4
"""The score of a transition that is not allowed: its probability is zero, its arithmetic finite."""
_TINY = 1e-300
SCALED = 4
"""Sums are scaled again every so many steps."""
_Array = Any
"""Of numpy or of torch."""


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

    def partition(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """log Z: (B,)."""
        return _field(self, emissions, mask, None)

    def loss(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """-log p(y) of given tags (B, S): (B,), the partition less the path's score, in one go."""
        return _field(self, emissions, mask, tags)

    def marginals(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """p(y_t = tag) at every place: (B, S, V), zero on padding."""
        sums = _Sums(self, emissions, mask, None)
        return _rows(sums.expected(sums.zeros(len(mask)) + 1)[0], emissions.dtype)

    @torch.no_grad()
    def best(self, emissions: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The most probable tags (B, S), zero on padding, and their score (B,): the Viterbi algorithm."""
        kind = torch.double if torch.double in (emissions.dtype, self.pairs.dtype) else torch.float32
        pairs, end = self.pairs.to(kind), self.end.to(kind)
        step, each = pairs[:, :, None], emissions.new_empty((*pairs.shape, len(mask)), dtype=kind)  # (from, to, B)
        scores = emissions.permute(1, 2, 0).to(kind, copy=True, memory_format=torch.contiguous_format)  # (S, V, B)
        before, *later = scores[:, :, None].unbind(0)
        before.add_(self.start[:, None, None])
        found = scores.new_empty(1, *scores.shape[1:])  # (1, to, B)
        turned = found.transpose(0, 1)
        for now in later:  # past the end of a row too: it is read at its own last place
            torch.add(before, step, out=each)
            torch.amax(each, 0, keepdim=True, out=found)
            before = now.add_(turned)
        best = _back(*(part.cpu().numpy() for part in (scores, pairs, end, mask)))
        tags, total = (torch.from_numpy(part).to(mask.device) for part in best)
        return tags, total.to(emissions.dtype)


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


def _back(scores: _Array, pairs: _Array, end: _Array, mask: _Array) -> tuple[_Array, _Array]:
    """From the scores of the best ways to every tag (S, V, B): the best tags (B, S) and their scores (B,), in numpy.

    Where a way came from is asked of the tag that was taken alone: V sums a row and place, not V * V.
    """
    lengths, real, ways = mask.sum(1), mask.T, scores.transpose(0, 2, 1).copy()  # (S, B, V)
    ends = ways[np.maximum(lengths - 1, 0), np.arange(len(lengths))] + end
    tag = ends.argmax(1)
    into, full, tags = pairs.T.copy(), lengths.min(), np.empty(real.shape, dtype=np.int64)
    tags[-1] = tag
    for t in range(len(ways) - 1, 0, -1):
        taken = into.take(tag, 0)
        taken += ways[t - 1]
        before = taken.argmax(1)
        tag = before if t < full else np.where(real[t], before, tag)
        tags[t - 1] = tag
    return tags.T * mask, ends.max(1) * mask[:, 0]


class _Sums:
    """The forward sums of a chain, scaled, in doubles: in numpy or, where the emissions are not on a processor, torch.

    A row that has ended goes on in a tag of its own, the last (V), that costs nothing and is never left; so all rows
    have one length, S + 1, and nothing below asks where a row ends. To end is a step to that tag.
    """

    @np.errstate(all="ignore")
    def __init__(self, chain: Chain, emissions: Tensor, mask: Tensor, tags: Tensor | None = None):
        self.device, self.lib = emissions.device, _library(emissions.device)
        self.product = np.dot if self.lib is np else torch.matmul
        v, self.real = emissions.size(2), self.array(mask).T  # (S, B)
        steps = self.zeros(v + 2, v + 1)  # (from, to); from V + 1: the first step
        self.tops = []  # scores are less the highest of their kind
        for own, given in ((steps[v + 1, :v], chain.start), (steps[:v, :v], chain.pairs), (steps[:v, v], chain.end)):
            own[...] = self.array(given)
            self.tops.append(own.max())
            own -= self.tops[-1]
        scores = self.zeros(len(self.real) + 1, v + 1, len(mask))  # (S + 1, V + 1, B)
        side_by_side = self.lib.moveaxis(self.array(emissions), 0, -1)
        scores[:-1, :-1] = self.lib.where(self.real[:, None], side_by_side, -torch.inf)
        scores[:-1, -1] = self.lib.where(self.real, -torch.inf, 0.0)
        scores[-1, :-1] = -torch.inf
        self.highest = self.lib.amax(scores, axis=1)  # (S + 1, B)
        scores -= self.highest[:, None]
        self.gold = None if tags is None else _Gold(self, steps, scores, self.array(tags).T)
        self.factor, self.weights = self.lib.exp(steps), self.lib.exp(scores, out=scores)
        self.factor[v, :v] = 0
        self.ones = self.zeros(1, v + 1) + 1
        self.states, self.total = self._forward()  # (S + 1, V + 1, B), each place in a scale of its own; (B,)

    def array(self, given: Tensor) -> _Array:
        """The same numbers, in the same memory where that can be."""
        own = given.detach()
        return own if self.lib is torch else (own.float() if own.dtype == torch.bfloat16 else own).numpy()

    def zeros(self, *shape: int) -> _Array:
        """New doubles."""
        return np.zeros(shape) if self.lib is np else torch.zeros(shape, dtype=torch.double, device=self.device)

    def count(self, n: int) -> _Array:
        """0 to n - 1."""
        return np.arange(n) if self.lib is np else torch.arange(n, device=self.device)

    def _forward(self) -> tuple[_Array, _Array]:
        states, move = self.lib.empty_like(self.weights), self.factor[:-1].T
        scales = self.zeros((len(states) - 1) // SCALED, 1, states.shape[2])
        self.lib.multiply(self.weights[0], self.factor[-1][:, None], out=states[0])
        for t, (before, now, weight) in enumerate(zip(states[:-1], states[1:], self.weights[1:], strict=True), 1):
            self.product(move, before, out=now)
            now *= weight
            if t % SCALED == 0:
                self._scale(now, scales[t // SCALED - 1])
        return states, self.lib.log(states[-1, -1] + _TINY) + self.lib.log(scales).sum(0)[0]

    def _scale(self, now: _Array, total: _Array) -> None:
        """Divide (V + 1, B) by its sum over tags, written to `total` (1, B)."""
        self.product(self.ones, now, out=total)
        total += _TINY
        now /= total

    def whole(self) -> _Array:
        """log Z: (B,)."""
        start, pairs, end = self.tops
        others = start + end + pairs * (self.real.sum(0) - 1)
        return self.total + self.highest.sum(0) + others * self.real[0]

    @np.errstate(all="ignore")
    def expected(self, share: _Array) -> tuple[_Array, _Array]:
        """The probability of tags at places (S + 1, V + 1, B), and of steps, summed (V + 2, V + 1), by rows' shares."""
        then, rest = self.lib.empty_like(self.weights), self.lib.empty_like(self.weights)
        rest[-1] = 0
        rest[-1, -1] = 1
        weights, thens, rests = list(self.weights), list(then), list(rest)
        move, total = self.factor[:-1], self.zeros(1, len(share))
        for t in range(len(rests) - 1, 0, -1):
            now = thens[t]
            self.lib.multiply(weights[t], rests[t], out=now)
            if t % SCALED == 0:
                self._scale(now, total)
            self.product(move, now, out=rests[t - 1])
        places = self.states * rest
        each = (share / (places.sum(1) + _TINY))[:, None]
        places *= each
        steps = self.zeros(*self.factor.shape)
        pairs = self.lib.matmul(self.states[:-1] * each[:-1], self.lib.swapaxes(then[1:], 1, 2))
        steps[:-1] = pairs.sum(0) * move
        steps[-1] = places[0].sum(1)
        if self.gold is not None:
            self.gold.subtract(places, steps, share)
        return places, steps


class _Gold:
    """The score of given tags (S, B), whatever stands on padding, and their counts."""

    def __init__(self, sums: _Sums, steps: _Array, scores: _Array, tags: _Array):
        self.lib, (places, v, rows) = sums.lib, scores.shape
        tags = self.lib.where(sums.real, tags, v - 1)
        ends = self.lib.zeros_like(tags[:1]) + (v - 1)
        path = self.lib.concatenate((ends + 1, tags, ends))  # (S + 2, B)
        self.steps = path[:-1] * v + path[1:]  # where in the scores of steps; and below, in those of places
        self.places = (sums.count(places)[:, None] * v + path[1:]) * rows + sums.count(rows)
        self.score = self.lib.take(scores, self.places).sum(0) + self.lib.take(steps, self.steps).sum(0)

    def subtract(self, places: _Array, steps: _Array, share: _Array) -> None:
        """Take their counts off those that are expected."""
        places.reshape(-1)[self.places] -= share
        shares = self.lib.broadcast_to(share, self.steps.shape).reshape(-1)
        counts = self.lib.bincount(self.steps.reshape(-1), weights=shares, minlength=len(steps) * steps.shape[1])
        steps -= counts.reshape(steps.shape)


class _Field(torch.autograd.Function):
    """log Z, or how far it is above the score of given tags; the gradients are expected counts, less those tags'."""

    @staticmethod
    def forward(
        ctx: Any, emissions: Tensor, start: Tensor, pairs: Tensor, end: Tensor, mask: Tensor, tags: Tensor | None
    ) -> Tensor:
        ctx.sums = sums = _Sums(Chain(start, pairs, end), emissions, mask, tags)
        ctx.kinds = emissions.dtype, start.dtype
        return torch.as_tensor(sums.whole() if sums.gold is None else sums.total - sums.gold.score).to(emissions.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *given: Tensor) -> tuple[Tensor | None, ...]:
        places, steps = ctx.sums.expected(ctx.sums.array(given[0].double()))
        own = torch.as_tensor(steps).to(ctx.kinds[1])
        return _rows(places, ctx.kinds[0]), own[-1, :-1], own[:-2, :-1], own[:-2, -1], None, None


def _field(chain: Chain, emissions: Tensor, mask: Tensor, tags: Tensor | None) -> Tensor:
    found: Tensor = _Field.apply(emissions, chain.start, chain.pairs, chain.end, mask, tags)  # type: ignore[no-untyped-call]
    return found


def _rows(places: _Array, kind: torch.dtype) -> Tensor:
    """(S + 1, V + 1, B) as (B, S, V)."""
    return torch.as_tensor(places[:-1, :-1]).permute(2, 0, 1).to(kind, memory_format=torch.contiguous_format)


def _library(device: torch.device) -> Any:
    """Where the functions are that work on arrays of a device: those used here have the same names in both."""
    return np if device.type == "cpu" else torch
