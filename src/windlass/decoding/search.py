"""Greedy search, sampling and beam search, all over many sentences at once.

Every search gives, for every sentence, a list of hypotheses, best first, with attention on the way. Sentences that are
done leave the batch. What is found for a sentence does not depend on its neighbours.

A step leaves a `_Trail` of tensors behind and reads nothing out of them; outputs are read off the trails at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from windlass.core.errors import RecipeError
from windlass.core.marks import BOS, EOS, PAD, UNK
from windlass.core.records import Hypothesis, Member, Padded, Record
from windlass.decoding.choose import best, block_ngrams, draw
from windlass.decoding.constraint import Constraint
from windlass.decoding.options import Beam, Greedy, Sample, SearchOptions
from windlass.decoding.walk import Walker

LEAVING = 8
"""A batch is made smaller when one in so many of its sentences is done: to leave copies all that stays."""


@dataclass(frozen=True)
class SearchRequest:
    """What to search for.

    >>> SearchRequest(Beam(size=3), nbest=2).options.size
    3
    """

    options: SearchOptions | None = None  # None for a head that does not search
    nbest: int = 1  # how many hypotheses: the best of a beam, which is at least as wide, or as many samples
    keys: Tensor | None = None  # (B,) name the rows for sampling, so that a row's draws do not depend on its batch
    constraint: Constraint | None = None  # what may be written; scores stay the model's
    forbidden: tuple[int, ...] = ()  # tokens that are never written


@torch.inference_mode()
def search(members: Sequence[Member], request: SearchRequest) -> list[list[Hypothesis]]:
    """Find outputs for every row of a memory; several members are an ensemble.

    >>> from windlass.core.records import Memory
    >>> from windlass.heads.options import TextHeadOptions
    >>> from windlass.heads.text import TextHead
    >>> head = TextHead(TextHeadOptions(size=8), vocabulary=10, memory_size=6, final_sizes=()).eval()
    >>> memory = Memory(torch.randn(2, 5, 6), torch.ones(2, 5) > 0, torch.randn(2, 6))
    >>> [len(found) for found in search([Member(head, memory)], SearchRequest(Beam(size=3), nbest=2))]
    [2, 2]
    """
    options, constraint = request.options or Beam(), request.constraint
    limits = _limits(members[0], options)
    if not limits.numel():
        return []
    if constraint is not None:
        if options.block_ngrams:
            raise RecipeError("block_ngrams may leave nothing that is well-formed: leave it out")
        limits = torch.maximum(limits, constraint.shortest)
    walker, history = Walker(members), _History(limits, options, request)
    if isinstance(options, Beam):
        return _beam(walker, options, request.nbest, limits, history)
    keys = torch.arange(limits.numel()) if request.keys is None else request.keys.cpu()
    if isinstance(options, Sample):
        found: list[list[Hypothesis]] = [[] for _ in range(limits.numel())]
        for copy in range(request.nbest):
            draws = _single(walker, options, limits, keys + (copy << 40), _History(limits, options, request))
            for hypotheses, one in zip(found, _hypotheses(list(draws), limits), strict=True):
                hypotheses.append(one)
        return [sorted(hypotheses, key=lambda h: -h.score) for hypotheses in found]
    return [[one] for one in _hypotheses(list(_single(walker, options, limits, keys, history)), limits)]


@torch.inference_mode()
def stream(members: Sequence[Member], request: SearchRequest, prompt: Sequence[int] = ()) -> Iterator[int]:
    """The tokens of one output as greedy search or sampling finds them, without the end mark.

    A `prompt` is a forced prefix of the output; only what follows it is returned.

    >>> from windlass.core.records import Memory
    >>> from windlass.heads.options import TextHeadOptions
    >>> from windlass.heads.text import TextHead
    >>> head = TextHead(TextHeadOptions(size=8, context="none"), vocabulary=10, memory_size=0, final_sizes=()).eval()
    >>> request = SearchRequest(Sample(seed=3, length_plus=6))
    >>> first, second = (list(stream([Member(head, Memory.empty(1))], request, prompt=[5, 6])) for _ in range(2))
    >>> first == second, len(first) <= 6
    (True, True)
    """
    options = request.options or Sample()
    if isinstance(options, Beam):
        raise RecipeError("beam search finds its output at the end: use sample or greedy to stream")
    limits = _limits(members[0], options)
    if limits.numel() != 1:
        raise RecipeError(f"one output can be streamed at a time, not {limits.numel()}")
    keys = torch.zeros(1, dtype=torch.long) if request.keys is None else request.keys.cpu()
    history = _History(limits, options, request, prompt)
    for trail in _single(Walker(members), options, limits, keys, history, prompt):
        token = int(trail.token)
        if token == EOS:
            return
        yield token


def _limits(member: Member, options: SearchOptions) -> Tensor:
    lengths = member.memory.mask.sum(1) if member.batch is None else member.batch.lengths
    return (lengths * options.length_factor + options.length_plus).long().clamp(min=1)


class _History:
    """What may not come next. Kept are the tokens of every row so far (N, t), where repeated runs are forbidden, and
    the state of a constraint, where there is one.
    """

    def __init__(self, limits: Tensor, options: SearchOptions, request: SearchRequest, prompt: Sequence[int] = ()):
        self.n, self.constraint = options.block_ngrams, request.constraint
        never = {PAD, BOS, *request.forbidden, *([] if options.unknown else [UNK])}
        self.never = torch.tensor(sorted(never), device=limits.device)
        before = torch.tensor([list(prompt)], dtype=torch.long, device=limits.device)
        self.tokens = before.expand(limits.numel(), -1) if self.n else None
        self.state = None if self.constraint is None else self.constraint.begin(limits)

    def forbid(self, logprobs: Tensor) -> Tensor:
        """Rule out the marks that no target holds, repeated runs, what the constraint does; if told, the unknown."""
        logprobs.index_fill_(1, self.never, -torch.inf)
        if self.constraint is not None:
            logprobs = logprobs.masked_fill(~self.constraint.allowed(self.state), -torch.inf)
        return logprobs if self.tokens is None else block_ngrams(logprobs, self.tokens, self.n)

    def add(self, tokens: Tensor, rows: Tensor | None = None) -> None:
        """One token more for every row, or for those rows that go on."""
        if self.constraint is not None and self.state is not None:
            before = self.state if rows is None else self.state.select(rows)
            self.state = self.constraint.step(before, tokens)
        if self.tokens is not None:
            kept = self.tokens if rows is None else self.tokens[rows]
            self.tokens = torch.cat([kept, tokens[:, None]], dim=1)

    def keep(self, rows: Tensor) -> None:
        """Go on with some rows, or with several of each."""
        self.tokens = None if self.tokens is None else self.tokens[rows]
        self.state = None if self.state is None else self.state.select(rows)


@dataclass(frozen=True)
class _Trail:
    """What one step left: for each of K hypotheses of b sentences, from which it came, and with which token."""

    rows: Tensor  # (b,) which sentences these are
    parent: Tensor | None  # (b, K); None where there is but one
    token: Tensor  # (b, K)
    logprob: Tensor  # (b, K) of the token alone
    weights: Tensor | None  # (b * K, S) attention when the token was chosen; a row a parent


def _single(
    walker: Walker,
    options: Greedy | Sample,
    limits: Tensor,
    keys: Tensor,
    history: _History,
    prompt: Sequence[int] = (),
) -> Iterator[_Trail]:
    """Follow one hypothesis a sentence, greedily or by sampling, a step at a time, after a forced prefix."""
    B, device = limits.numel(), limits.device
    walk = walker.begin()
    tokens = torch.full((B,), BOS, device=device)
    for forced in prompt:
        _, walk, _ = walker.step(tokens, walk)
        tokens = torch.full_like(tokens, forced)
    rows = torch.arange(B, device=device)  # which sentence each live row is
    left, done = limits, torch.zeros(B, dtype=torch.bool, device=device)
    soonest = int(limits.min())
    for t in range(int(limits.max())):
        logprobs, walk, weights = walker.step(tokens, walk)
        allowed = history.forbid(logprobs)
        if isinstance(options, Sample):
            tokens = draw(allowed.cpu(), options, keys[rows.cpu()], t).to(device)
            chosen = logprobs.gather(1, tokens[:, None])
        else:
            chosen, picked = best(allowed, 1)
            tokens = picked[:, 0]
        yield _Trail(rows, None, tokens[:, None], chosen, weights)
        done = done | (tokens == EOS)
        if t + 1 >= soonest:
            done = done | (left <= t + 1)
        gone = int(done.sum())
        if gone == done.numel():
            break
        history.add(tokens)
        if gone * LEAVING >= done.numel():
            live = (~done).nonzero().squeeze(1)
            walk, rows, tokens, left, done = walk.keep(live, live), rows[live], tokens[live], left[live], done[live]
            history.keep(live)


def _hypotheses(trails: list[_Trail], limits: Tensor) -> list[Hypothesis]:
    """The one hypothesis of every sentence."""
    ends = [[(limit - 1, 0)] for limit in limits.tolist()]
    return [found[0] for found in _read(trails, ends, 0.0)]


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


def _beam(walker: Walker, options: Beam, nbest: int, limits: Tensor, history: _History) -> list[list[Hypothesis]]:
    """Keep K hypotheses a sentence until no live one can still enter its n-best list.

    An end counts where it is among the K best continuations, so that a beam of 1 is greedy search.
    A log probability only falls and a length only grows, so a live hypothesis of log probability s can reach at most
    s / limit ** penalty.
    """
    B, device = limits.numel(), limits.device
    M = max(nbest, 1)
    K = max(options.size, M)  # a list of M needs a beam that can hold it
    walk = walker.begin()
    total = torch.full((B, K), -torch.inf, device=device, dtype=torch.float64)
    total[:, 0] = 0.0  # all hypotheses are the same at first: only one may speak
    tokens = torch.full((B,), BOS, device=device)
    rows = torch.arange(B, device=device)
    each, here = rows[:, None] * K, torch.arange(K, device=device)
    trails: list[_Trail] = []
    nothing = torch.zeros(B, M, dtype=torch.long, device=device)
    pool = _Pool(torch.full((B, M), -torch.inf, device=device, dtype=torch.float64), nothing, nothing)
    ends: list[list[tuple[int, int]]] = [[] for _ in range(B)]
    left, done = limits, torch.zeros(B, dtype=torch.bool, device=device)
    soonest, ended = int(limits.min()), False
    for t in range(int(limits.max())):
        logprobs, walk, weights = walker.step(tokens, walk)
        b = rows.numel()
        logp, ids = best(history.forbid(logprobs), min(K, logprobs.size(1)))  # (N, W): each one's own best
        if t == 0:  # until here the hypotheses of a sentence were the same: one row has served them all
            copies = rows.repeat_interleave(K)
            walk, logp, ids = walk.widen(K), logp[copies], ids[copies]
            weights = None if weights is None else weights[copies]
            history.keep(copies)
        total, flat = (total[..., None] + logp.view(b, K, -1)).flatten(1).topk(K, dim=1)
        parent = flat.div(logp.size(1), rounding_mode="floor")
        token = ids.view(b, -1).gather(1, flat)
        trails.append(_Trail(rows, parent, token, logp.view(b, -1).gather(1, flat), weights))
        chosen, tokens = (each + parent).flatten(), token.flatten()
        history.add(tokens, chosen)
        if bool((token == EOS).any()):
            ended = True
            normalised = (total / float(t + 1) ** options.length_penalty).masked_fill(token != EOS, -torch.inf)
            pool = pool.add(_Pool(normalised, torch.full_like(parent, t), here.expand(b, K)))
            total = total.masked_fill(token == EOS, -torch.inf)
        if ended or t + 1 >= soonest:
            bound = total.amax(1) / left.double() ** options.length_penalty
            now = ((pool.score[:, -1] >= bound) | (left <= t + 1)) & ~done
            for place in now.nonzero().squeeze(1).tolist():
                ends[int(rows[place])] = _ends(place, pool, total[place], t)
            done = done | now
            gone = int(done.sum())
            if gone == b:
                break
            if gone * LEAVING >= b:
                live = (~done).nonzero().squeeze(1)
                chosen = chosen.view(b, K)[live].flatten()
                walk = walk.keep(live, chosen)
                history.keep((each[live] + here).flatten())
                rows, total, tokens, left, done = rows[live], total[live], token[live].flatten(), left[live], done[live]
                pool, each = pool.select(live), each[: live.numel()]
                continue
        walk = walk.reorder(chosen)
    return _read(trails, ends, options.length_penalty)


def _ends(place: int, pool: _Pool, total: Tensor, step: int) -> list[tuple[int, int]]:
    """Where a sentence's hypotheses end, (step, place in the beam): ended ones first, then cut-off ones to fill up."""
    M = pool.score.size(1)
    scores, steps, beams = (part[place].tolist() for part in (pool.score, pool.step, pool.beam))
    found = [(s, k) for score, s, k in zip(scores, steps, beams, strict=True) if score > -torch.inf]
    alive = [(step, k) for k, score in enumerate(total.tolist()) if score > -torch.inf]
    return found + alive[: M - len(found)]


def _read(trails: list[_Trail], ends: list[list[tuple[int, int]]], length_penalty: float) -> list[list[Hypothesis]]:
    """Follow the hypotheses of every sentence back from their ends (step, place in the beam) to their start."""
    parents = [None if trail.parent is None else trail.parent.tolist() for trail in trails]
    tokens, logprobs = [t.token.tolist() for t in trails], [t.logprob.tolist() for t in trails]
    offsets, places, rows = [0], [], trails[0].rows
    at = {row: place for place, row in enumerate(rows.tolist())}
    for trail in trails:  # a sentence's place changes when others leave
        if trail.rows is not rows:
            rows, at = trail.rows, {row: place for place, row in enumerate(trail.rows.tolist())}
        places.append(at)
        offsets.append(offsets[-1] + trail.token.numel())
    seen: list[int] = []
    found: list[list[tuple[list[tuple[int, float]], int]]] = []
    for row, wanted in enumerate(ends):
        found.append([])
        for last, beam in wanted:
            steps: list[tuple[int, float]] = []
            lines: list[int] = []
            for t in range(min(last, len(trails) - 1), -1, -1):
                if row not in places[t]:
                    continue  # it had left: a single hypothesis ends before its limit
                place, width, before = places[t][row], len(tokens[t][0]), parents[t]
                steps.append((tokens[t][place][beam], logprobs[t][place][beam]))
                beam = beam if before is None else before[place][beam]
                lines.append(offsets[t] + place * width + beam)
            steps.reverse()
            if EOS in (token for token, _ in steps[:-1]):  # and stayed on until others had ended too
                steps = steps[: [token for token, _ in steps].index(EOS) + 1]
            found[-1].append((steps, len(seen)))
            seen += lines[::-1][: len(steps)]
    weights = None
    if trails[0].weights is not None:
        device = trails[0].weights.device
        weights = torch.cat([t.weights for t in trails if t.weights is not None])[torch.tensor(seen, device=device)]
    return [
        [
            _hypothesis(steps, None if weights is None else weights[n : n + len(steps)], length_penalty)
            for steps, n in one
        ]
        for one in found
    ]


def _hypothesis(steps: list[tuple[int, float]], weights: Tensor | None, length_penalty: float) -> Hypothesis:
    finished = bool(steps) and steps[-1][0] == EOS
    logprobs = tuple(logp for _, logp in steps)
    return Hypothesis(
        ids=tuple(token for token, _ in (steps[:-1] if finished else steps)),
        score=sum(logprobs) / max(len(logprobs), 1) ** length_penalty,
        logprobs=logprobs,
        weights=weights,
        finished=finished,
    )


def forced_hypotheses(target: Padded, logprobs: Tensor, weights: Tensor | None) -> list[Hypothesis]:
    """Given targets, with their end marks, as hypotheses: log probabilities (B, T), attention (B, T, S).

    >>> forced_hypotheses(Padded.of([[7, 8, EOS]]), torch.zeros(1, 3), None)[0].ids
    (7, 8)
    """
    found = []
    for row, length in enumerate(target.lengths.tolist()):
        ids = target.values[row, :length].tolist()
        steps = list(zip(ids, logprobs[row, :length].tolist(), strict=True))
        found.append(_hypothesis(steps, None if weights is None else weights[row, :length], 0.0))
    return found
