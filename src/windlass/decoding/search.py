"""Greedy search, sampling and beam search, all over many sentences at once.

Every search gives, for every sentence, a list of hypotheses, best first, with attention on the way. A sentence that is
done leaves the batch. What is found for a sentence does not depend on its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from windlass.core.records import Hypothesis, Memory, Padded, Record
from windlass.decoding.choose import block_ngrams, draw
from windlass.decoding.options import Beam, Greedy, Sample, SearchOptions
from windlass.decoding.walk import Steps, Walker

PAD, UNK, BOS, EOS = 0, 1, 2, 3


@torch.no_grad()
def search(
    heads: Sequence[Steps],
    memories: Sequence[Memory],
    options: SearchOptions,
    nbest: int = 1,
    keys: Tensor | None = None,
) -> list[list[Hypothesis]]:
    """Find outputs for every row of a memory (one memory a head).

    `nbest` is how many to return: the best of a beam (which is at least so wide), or so many samples; greedy search
    has one. `keys` (B,) name the rows for sampling.

    >>> from windlass.heads.options import TextHeadOptions
    >>> from windlass.heads.text import TextHead
    >>> head = TextHead(TextHeadOptions(size=8), vocabulary=10, memory_size=6, final_sizes=()).eval()
    >>> memory = Memory(torch.randn(2, 5, 6), torch.ones(2, 5) > 0, torch.randn(2, 6))
    >>> [len(found) for found in search([head], [memory], Beam(size=3), nbest=2)]
    [2, 2]
    """
    walker = Walker(heads)
    limits = _limits(memories[0], options)
    if not limits.numel():
        return []
    keys = torch.arange(limits.numel()) if keys is None else keys.cpu()
    if isinstance(options, Beam):
        return _beam(walker, memories, options, nbest, limits)
    if isinstance(options, Sample):
        found: list[list[Hypothesis]] = [[] for _ in range(limits.numel())]
        for copy in range(nbest):
            for hypotheses, one in zip(
                found, _unroll(walker, memories, options, limits, keys + (copy << 40)), strict=True
            ):
                hypotheses.append(one)
        return [sorted(hypotheses, key=lambda h: -h.score) for hypotheses in found]
    return [[one] for one in _unroll(walker, memories, options, limits, keys)]


def _limits(memory: Memory, options: SearchOptions) -> Tensor:
    lengths = memory.limit if memory.limit is not None else memory.mask.sum(1)
    return (lengths * options.length_factor + options.length_plus).long().clamp(min=1)


def _forbid(logprobs: Tensor, history: Tensor, options: SearchOptions) -> Tensor:
    """Rule out the padding and start marks, which no target holds, and repeated runs."""
    logprobs = logprobs.index_fill(1, torch.tensor([PAD, BOS], device=logprobs.device), -torch.inf)
    return block_ngrams(logprobs, history, options.block_ngrams)


def _unroll(
    walker: Walker, memories: Sequence[Memory], options: Greedy | Sample, limits: Tensor, keys: Tensor
) -> list[Hypothesis]:
    """Follow one hypothesis a sentence, greedily or by chance."""
    B, device = limits.numel(), limits.device
    walk = walker.begin(memories)
    tokens = torch.full((B,), BOS, device=device)
    rows = torch.arange(B, device=device)  # which sentence each live row is
    history = torch.empty(B, 0, dtype=torch.long, device=device)
    taken: list[list[tuple[int, float]]] = [[] for _ in range(B)]
    seen: list[list[Tensor]] = [[] for _ in range(B)]
    for t in range(int(limits.max())):
        logprobs, walk, weights = walker.step(tokens, walk)
        allowed = _forbid(logprobs, history, options)
        if isinstance(options, Sample):
            tokens = draw(allowed.cpu(), options, keys[rows.cpu()], t).to(device)
        else:
            tokens = allowed.argmax(1)
        chosen = logprobs.gather(1, tokens[:, None]).squeeze(1)
        for place, (row, token, logp) in enumerate(zip(rows.tolist(), tokens.tolist(), chosen.tolist(), strict=True)):
            taken[row].append((token, logp))
            if weights is not None:
                seen[row].append(weights[place])
        live = ((tokens != EOS) & (limits[rows] > t + 1)).nonzero().squeeze(1)
        if not live.numel():
            break
        if live.numel() < rows.numel():
            walk = walk.keep(live, live)
            rows, tokens, history = rows[live], tokens[live], history[live]
        history = torch.cat([history, tokens[:, None]], dim=1)
    return [_hypothesis(steps, weights, 0.0) for steps, weights in zip(taken, seen, strict=True)]


def _hypothesis(steps: list[tuple[int, float]], weights: list[Tensor], length_penalty: float) -> Hypothesis:
    finished = bool(steps) and steps[-1][0] == EOS
    logprobs = tuple(logp for _, logp in steps)
    return Hypothesis(
        ids=tuple(token for token, _ in (steps[:-1] if finished else steps)),
        score=sum(logprobs) / max(len(logprobs), 1) ** length_penalty,
        logprobs=logprobs,
        weights=torch.stack(weights) if weights else None,
        finished=finished,
    )


@dataclass(frozen=True)
class _Trail(Record):
    """One step of a beam: from which hypothesis, with which token."""

    parent: Tensor  # (B, K)
    token: Tensor  # (B, K)
    logprob: Tensor  # (B, K) of the token alone
    weights: Tensor | None  # (B, K, S) attention when the token was chosen


@dataclass(frozen=True)
class _Pool(Record):
    """The best ended hypotheses of every sentence, best first; -inf where there is none yet."""

    score: Tensor  # (B, M) normalised
    step: Tensor  # (B, M) at which the end mark came
    beam: Tensor  # (B, M) the place in the beam where it stood then

    def add(self, other: _Pool) -> _Pool:
        """The best M of both."""
        best = torch.cat([self.score, other.score], 1).sort(dim=1, descending=True, stable=True).indices
        best = best[:, : self.score.size(1)]

        def pick(mine: Tensor, theirs: Tensor) -> Tensor:
            return torch.cat([mine, theirs], 1).gather(1, best)

        return _Pool(pick(self.score, other.score), pick(self.step, other.step), pick(self.beam, other.beam))


def _beam(
    walker: Walker, memories: Sequence[Memory], options: Beam, nbest: int, limits: Tensor
) -> list[list[Hypothesis]]:
    """Keep K hypotheses a sentence until no live one can still enter its n-best list.

    An end counts where it is among the K best continuations, so that a beam of 1 is greedy search.
    A log probability only falls and a length only grows, so a live hypothesis of log probability s can reach at most
    s / limit ** penalty.
    """
    B, device = limits.numel(), limits.device
    M = max(nbest, 1)
    K = max(options.size, M)  # a list of M needs a beam that can hold it
    walk = walker.begin(memories).widen(K)
    total = torch.full((B, K), -torch.inf, device=device, dtype=torch.float64)
    total[:, 0] = 0.0  # all hypotheses are the same at first: only one may speak
    tokens = torch.full((B * K,), BOS, device=device)
    rows = torch.arange(B, device=device)
    history = torch.empty(B * K, 0, dtype=torch.long, device=device)
    trails: list[_Trail] = []
    nothing = torch.zeros(B, M, dtype=torch.long, device=device)
    pool = _Pool(torch.full((B, M), -torch.inf, device=device, dtype=torch.float64), nothing, nothing)
    results: list[list[Hypothesis]] = [[] for _ in range(B)]
    for t in range(int(limits.max())):
        logprobs, walk, weights = walker.step(tokens, walk)
        V = logprobs.size(1)
        b = rows.numel()
        seen = None if weights is None else weights.view(b, K, -1)
        allowed = _forbid(logprobs, history, options).view(b, K, V)
        total, flat = (total[..., None] + allowed).flatten(1).topk(K, dim=1)
        parent, token = flat // V, flat % V
        each = torch.arange(b, device=device)[:, None]
        trails.append(_Trail(parent, token, allowed[each, parent, token], None if seen is None else seen[each, parent]))
        normalised = (total / float(t + 1) ** options.length_penalty).masked_fill(token != EOS, -torch.inf)
        here = torch.arange(K, device=device).expand(b, K)
        pool = pool.add(_Pool(normalised, torch.full_like(here, t), here))
        total = total.masked_fill(token == EOS, -torch.inf)
        chosen = (each * K + parent).flatten()
        walk, tokens = walk.reorder(chosen), token.flatten()
        history = torch.cat([history[chosen], tokens[:, None]], dim=1)
        bound = total.max(1).values / limits[rows].double() ** options.length_penalty
        done = (pool.score[:, -1] >= bound) | (limits[rows] <= t + 1)
        if done.any():
            for place in done.nonzero().squeeze(1).tolist():
                results[int(rows[place])] = _read(place, pool, trails, total[place], M, options.length_penalty)
            live = (~done).nonzero().squeeze(1)
            if not live.numel():
                break
            hypotheses = (live[:, None] * K + torch.arange(K, device=device)).flatten()
            walk = walk.keep(live, hypotheses)
            rows, total, tokens, history = rows[live], total[live], tokens[hypotheses], history[hypotheses]
            trails, pool = [trail.select(live) for trail in trails], pool.select(live)
    return results


def _read(
    row: int, pool: _Pool, trails: list[_Trail], total: Tensor, nbest: int, length_penalty: float
) -> list[Hypothesis]:
    """Follow the hypotheses of a sentence back to their start: ended ones first, then, if wanting, cut-off ones."""
    found: list[Hypothesis] = []
    for m in range(nbest):
        if pool.score[row, m] == -torch.inf:
            break
        ended = _follow(row, trails[: int(pool.step[row, m]) + 1], int(pool.beam[row, m]))
        found.append(_hypothesis(*ended, length_penalty))
    alive = (total > -torch.inf).nonzero().squeeze(1).tolist()
    for beam in alive[: nbest - len(found)]:
        found.append(_hypothesis(*_follow(row, trails, beam), length_penalty))
    return found


def _follow(row: int, trails: list[_Trail], beam: int) -> tuple[list[tuple[int, float]], list[Tensor]]:
    steps: list[tuple[int, float]] = []
    weights: list[Tensor] = []
    for trail in reversed(trails):
        steps.append((int(trail.token[row, beam]), float(trail.logprob[row, beam])))
        if trail.weights is not None:
            weights.append(trail.weights[row, beam])
        beam = int(trail.parent[row, beam])
    return steps[::-1], weights[::-1]


class Forced(Protocol):
    """A head that can score a given target."""

    def force(self, memory: Memory, target: Padded) -> tuple[Tensor, Tensor | None]:
        """Log probabilities (B, T) and attention (B, T, S)."""


@torch.no_grad()
def force(head: Forced, memory: Memory, target: Padded) -> list[Hypothesis]:
    """Score given targets (with their end marks) instead of searching for them.

    >>> from windlass.heads.options import TextHeadOptions
    >>> from windlass.heads.text import TextHead
    >>> head = TextHead(TextHeadOptions(size=8), vocabulary=10, memory_size=6, final_sizes=()).eval()
    >>> memory = Memory(torch.randn(1, 5, 6), torch.ones(1, 5) > 0, torch.randn(1, 6))
    >>> force(head, memory, Padded.of([[7, 8, EOS]]))[0].ids
    (7, 8)
    """
    logprobs, weights = head.force(memory, target)
    found = []
    for row, length in enumerate(target.lengths.tolist()):
        ids = target.values[row, :length].tolist()
        steps = list(zip(ids, logprobs[row, :length].tolist(), strict=True))
        found.append(_hypothesis(steps, [] if weights is None else list(weights[row, :length]), 0.0))
    return found
