"""A linear-chain conditional random field over tags: partition, best path and marginals, all rows and tags at once.

    score(y) = start[y_1] + sum_t e_t[y_t] + sum_t A[y_{t-1}, y_t] + end[y_S]      p(y) = exp(score(y)) / Z

The forward and backward recursions multiply by exp(A) and rescale every few steps, adding up the logs of the scales:
the same results as in log space, in a fraction of the time. The gradient of log Z is the expected counts, so autograd
records no steps. In doubles, the scores of two tags of a place may be 170 nats apart.

A step is small, so its cost is the call. Hence the layout (S, V, B), in which one call serves all rows; and on a CPU
the same code runs in numpy, whose calls cost a third of torch's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

FORBIDDEN = -1e4
"""The score of a forbidden transition: finite, but its probability is 0."""
_TINY = 1e-300
RESCALE_EVERY = 4
"""Steps between rescalings."""
_Array = Any
"""An array of numpy or a tensor of torch."""


@dataclass(frozen=True)
class Chain:
    """The transition scores of a linear chain: of the first tag (V,), of tag to tag (V, V), of the last tag (V,).

    >>> chain = Chain(torch.zeros(3), torch.zeros(3, 3), torch.zeros(3))
    >>> emissions, mask = torch.randn(2, 4, 3), torch.ones(2, 4, dtype=torch.bool)
    >>> tags, score = chain.viterbi(emissions, mask)
    >>> torch.equal(tags, emissions.argmax(-1)), bool((score <= chain.log_partition(emissions, mask)).all())
    (True, True)
    """

    start: Tensor
    transitions: Tensor
    end: Tensor

    @classmethod
    def from_masks(cls, first: Tensor, after: Tensor, last: Tensor) -> Chain:
        """Scores of 0 for allowed transitions, `FORBIDDEN` for the others."""
        return cls(*(torch.zeros(m.shape).masked_fill(~m, FORBIDDEN) for m in (first, after, last)))

    def cpu(self) -> Chain:
        """The chain on the CPU."""
        return Chain(self.start.cpu(), self.transitions.cpu(), self.end.cpu())

    def log_partition(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """log Z: (B,)."""
        return _log_partition(self, emissions, mask, None)

    def loss(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """-log p(y) of gold tags (B, S): (B,)."""
        return _log_partition(self, emissions, mask, tags)

    def marginals(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """p(y_t = tag) at every place: (B, S, V), zero on padding."""
        recursions = _ForwardBackward(self, emissions, mask, None)
        return _batch_first(recursions.expected(recursions.zeros(len(mask)) + 1)[0], emissions.dtype)

    @torch.no_grad()
    def viterbi(self, emissions: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The best tags (B, S), zero on padding, and their score (B,)."""
        dtype = torch.double if torch.double in (emissions.dtype, self.transitions.dtype) else torch.float32
        transitions, end = self.transitions.to(dtype), self.end.to(dtype)
        step = transitions[:, :, None]  # (from, to, 1)
        each = emissions.new_empty((*transitions.shape, len(mask)), dtype=dtype)  # (from, to, B)
        scores = emissions.permute(1, 2, 0).to(dtype, copy=True, memory_format=torch.contiguous_format)  # (S, V, B)
        before, *later = scores[:, :, None].unbind(0)
        before.add_(self.start[:, None, None])
        highest = scores.new_empty(1, *scores.shape[1:])  # (1, to, B)
        turned = highest.transpose(0, 1)
        for now in later:  # also past the end of a row, whose result is read at its last place
            torch.add(before, step, out=each)
            torch.amax(each, 0, keepdim=True, out=highest)
            before = now.add_(turned)
        path = _trace_back(*(part.cpu().numpy() for part in (scores, transitions, end, mask)))
        tags, total = (torch.from_numpy(part).to(mask.device) for part in path)
        return tags, total.to(emissions.dtype)


class CRF(nn.Module):
    """A chain with learned scores (Lafferty et al. 2001), added to those of another that constrains it.

    >>> CRF(3)().transitions.shape
    torch.Size([3, 3])
    """

    def __init__(self, tags: int):
        super().__init__()
        self.start, self.end = (nn.Parameter(torch.empty(tags).uniform_(-0.1, 0.1)) for _ in range(2))
        self.transitions = nn.Parameter(torch.empty(tags, tags).uniform_(-0.1, 0.1))

    def forward(self, constraint: Chain | None = None) -> Chain:
        """The chain with the current weights."""
        if constraint is None:
            return Chain(self.start, self.transitions, self.end)
        return Chain(
            self.start + constraint.start, self.transitions + constraint.transitions, self.end + constraint.end
        )


def _trace_back(scores: _Array, transitions: _Array, end: _Array, mask: _Array) -> tuple[_Array, _Array]:
    """The best tags (B, S) and their scores (B,), from the scores of the best path to every tag (S, V, B); in numpy.

    There are no backpointers: the predecessor is recomputed, and only for the best tag.
    """
    lengths, real, paths = mask.sum(1), mask.T, scores.transpose(0, 2, 1).copy()  # (S, B, V)
    ends = paths[np.maximum(lengths - 1, 0), np.arange(len(lengths))] + end
    tag = ends.argmax(1)
    into, full, tags = transitions.T.copy(), lengths.min(), np.empty(real.shape, dtype=np.int64)
    tags[-1] = tag
    for t in range(len(paths) - 1, 0, -1):
        taken = into.take(tag, 0)
        taken += paths[t - 1]
        before = taken.argmax(1)
        tag = before if t < full else np.where(real[t], before, tag)
        tags[t - 1] = tag
    return tags.T * mask, ends.max(1) * mask[:, 0]


class _ForwardBackward:
    """The scaled forward-backward algorithm in doubles: in numpy or, if the emissions are not on the CPU, in torch.

    A finished row stays in an additional tag, the last (V), with score 0; ending is a transition to it. So all rows
    have length S + 1, and no code below depends on where a row ends.
    """

    @np.errstate(all="ignore")
    def __init__(self, chain: Chain, emissions: Tensor, mask: Tensor, tags: Tensor | None = None):
        self.device, self.lib = emissions.device, _library(emissions.device)
        self.product = np.dot if self.lib is np else torch.matmul
        v, self.real = emissions.size(2), self.array(mask).T  # (S, B)
        steps = self.zeros(v + 2, v + 1)  # (from, to); V + 1 is before the first tag
        self.maxima = []  # subtracted from the scores, so that exp does not overflow
        blocks = (steps[v + 1, :v], chain.start), (steps[:v, :v], chain.transitions), (steps[:v, v], chain.end)
        for block, values in blocks:
            block[...] = self.array(values)
            self.maxima.append(block.max())
            block -= self.maxima[-1]
        scores = self.zeros(len(self.real) + 1, v + 1, len(mask))  # (S + 1, V + 1, B)
        batch_last = self.lib.moveaxis(self.array(emissions), 0, -1)
        scores[:-1, :-1] = self.lib.where(self.real[:, None], batch_last, -torch.inf)
        scores[:-1, -1] = self.lib.where(self.real, -torch.inf, 0.0)
        scores[-1, :-1] = -torch.inf
        self.place_maxima = self.lib.amax(scores, axis=1)  # (S + 1, B)
        scores -= self.place_maxima[:, None]
        self.gold = None if tags is None else _GoldPath(self, steps, scores, self.array(tags).T)
        self.factor, self.weights = self.lib.exp(steps), self.lib.exp(scores, out=scores)
        self.factor[v, :v] = 0
        self.ones = self.zeros(1, v + 1) + 1
        self.states, self.total = self._forward()  # (S + 1, V + 1, B), each place with its own scale; (B,)

    def array(self, x: Tensor) -> _Array:
        """The same numbers as an array, without a copy if possible."""
        x = x.detach()
        return x if self.lib is torch else (x.float() if x.dtype == torch.bfloat16 else x).numpy()

    def zeros(self, *shape: int) -> _Array:
        """Doubles."""
        return np.zeros(shape) if self.lib is np else torch.zeros(shape, dtype=torch.double, device=self.device)

    def count(self, n: int) -> _Array:
        """0 to n - 1."""
        return np.arange(n) if self.lib is np else torch.arange(n, device=self.device)

    def _forward(self) -> tuple[_Array, _Array]:
        states, move = self.lib.empty_like(self.weights), self.factor[:-1].T
        scales = self.zeros((len(states) - 1) // RESCALE_EVERY, 1, states.shape[2])
        self.lib.multiply(self.weights[0], self.factor[-1][:, None], out=states[0])
        for t, (before, now, weight) in enumerate(zip(states[:-1], states[1:], self.weights[1:], strict=True), 1):
            self.product(move, before, out=now)
            now *= weight
            if t % RESCALE_EVERY == 0:
                self._rescale(now, scales[t // RESCALE_EVERY - 1])
        return states, self.lib.log(states[-1, -1] + _TINY) + self.lib.log(scales).sum(0)[0]

    def _rescale(self, now: _Array, total: _Array) -> None:
        """Divide (V + 1, B) by its sum over tags, which goes to `total` (1, B)."""
        self.product(self.ones, now, out=total)
        total += _TINY
        now /= total

    def log_partition(self) -> _Array:
        """log Z: (B,)."""
        start, transitions, end = self.maxima
        of_steps = start + end + transitions * (self.real.sum(0) - 1)
        return self.total + self.place_maxima.sum(0) + of_steps * self.real[0]

    @np.errstate(all="ignore")
    def expected(self, share: _Array) -> tuple[_Array, _Array]:
        """Expected counts of tags (S + 1, V + 1, B) and transitions (V + 2, V + 1), each row times its share (B,)."""
        then, rest = self.lib.empty_like(self.weights), self.lib.empty_like(self.weights)
        rest[-1] = 0
        rest[-1, -1] = 1
        weights, thens, rests = list(self.weights), list(then), list(rest)
        move, total = self.factor[:-1], self.zeros(1, len(share))
        for t in range(len(rests) - 1, 0, -1):
            now = thens[t]
            self.lib.multiply(weights[t], rests[t], out=now)
            if t % RESCALE_EVERY == 0:
                self._rescale(now, total)
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


class _GoldPath:
    """The score of the gold tags (S, B), of any value on padding, and their counts."""

    def __init__(self, recursions: _ForwardBackward, steps: _Array, scores: _Array, tags: _Array):
        self.lib, (places, v, rows) = recursions.lib, scores.shape
        tags = self.lib.where(recursions.real, tags, v - 1)
        ends = self.lib.zeros_like(tags[:1]) + (v - 1)
        path = self.lib.concatenate((ends + 1, tags, ends))  # (S + 2, B)
        self.steps = path[:-1] * v + path[1:]  # flat indices into the scores of steps, and below, of places
        self.places = (recursions.count(places)[:, None] * v + path[1:]) * rows + recursions.count(rows)
        self.score = self.lib.take(scores, self.places).sum(0) + self.lib.take(steps, self.steps).sum(0)

    def subtract(self, places: _Array, steps: _Array, share: _Array) -> None:
        """Subtract the gold counts from the expected ones."""
        places.reshape(-1)[self.places] -= share
        shares = self.lib.broadcast_to(share, self.steps.shape).reshape(-1)
        counts = self.lib.bincount(self.steps.reshape(-1), weights=shares, minlength=len(steps) * steps.shape[1])
        steps -= counts.reshape(steps.shape)


class _LogPartition(torch.autograd.Function):
    """log Z, less the score of the gold tags if there are any; its gradients are expected less gold counts."""

    @staticmethod
    def forward(
        ctx: Any, emissions: Tensor, start: Tensor, transitions: Tensor, end: Tensor, mask: Tensor, tags: Tensor | None
    ) -> Tensor:
        ctx.recursions = recursions = _ForwardBackward(Chain(start, transitions, end), emissions, mask, tags)
        ctx.dtypes = emissions.dtype, start.dtype
        gold = recursions.gold
        value = recursions.log_partition() if gold is None else recursions.total - gold.score
        return torch.as_tensor(value).to(emissions.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        places, steps = ctx.recursions.expected(ctx.recursions.array(gradients[0].double()))
        d = torch.as_tensor(steps).to(ctx.dtypes[1])
        return _batch_first(places, ctx.dtypes[0]), d[-1, :-1], d[:-2, :-1], d[:-2, -1], None, None


def _log_partition(chain: Chain, emissions: Tensor, mask: Tensor, tags: Tensor | None) -> Tensor:
    scores = chain.start, chain.transitions, chain.end
    value: Tensor = _LogPartition.apply(emissions, *scores, mask, tags)  # type: ignore[no-untyped-call]
    return value


def _batch_first(places: _Array, dtype: torch.dtype) -> Tensor:
    """(S + 1, V + 1, B) as (B, S, V)."""
    return torch.as_tensor(places[:-1, :-1]).permute(2, 0, 1).to(dtype, memory_format=torch.contiguous_format)


def _library(device: torch.device) -> Any:
    """numpy on a CPU, else torch: the functions used here have the same names in both."""
    return np if device.type == "cpu" else torch
