"""Greedy search, sampling and beam search, all over many sentences at once.

A search returns, for every sentence, a list of hypotheses, best first, each with its attention. Finished sentences
leave the batch, and the result for a sentence does not depend on the rest of the batch.

A step keeps `_Backpointers` on the device and copies nothing off it; hypotheses are traced back at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from windlass.core.errors import DataError, NotFiniteError, RecipeError
from windlass.core.marks import BOS, EOS, PAD, UNK
from windlass.core.records import Hypothesis, Member, Padded, Record
from windlass.core.wording import counted
from windlass.decoding.constraint import Constraint
from windlass.decoding.ensemble import Ensemble
from windlass.decoding.options import Beam, Greedy, Sample, SearchOptions
from windlass.decoding.sampling import block_ngrams, draw, top_k

SHRINK_AT = 8
"""A batch drops its finished sentences once they are 1 in 8 of it: dropping them copies the others."""


@dataclass(frozen=True)
class Considered:
    """One step of a beam search as an observer sees it: all continuations of the K hypotheses, and which are kept.

    >>> one = Considered(torch.arange(1), torch.zeros(1, 2, 3), torch.zeros(1, 2, 3), torch.tensor([[4, 0]]))
    >>> one.kept.div(3, rounding_mode="floor").tolist()  # the hypotheses that they extend
    [[1, 0]]
    """

    rows: Tensor  # (b,) the indices of the sentences
    total: Tensor  # (b, K, W) log probability of every hypothesis with each of its W best tokens
    token: Tensor  # (b, K, W)
    kept: Tensor  # (b, K) the K best, as indices over K * W


@dataclass(frozen=True)
class SearchRequest:
    """The options and inputs of a search, apart from the model.

    >>> SearchRequest(Beam(size=3)).nbest
    1
    """

    options: SearchOptions | None = None  # None for a head without a search
    nbest: int = 1  # hypotheses for each sentence; a beam is at least as wide
    keys: Tensor | None = None  # (B,) seed the rows' samples, so that these do not depend on the batch
    constraint: Constraint | None = None  # on the output; scores are still the model's
    forbidden: tuple[int, ...] = ()  # tokens that no output may have
    prefix: tuple[int, ...] = ()  # tokens that every output begins with; they count in its score
    watch: Callable[[Considered], None] | None = None  # is told of every step of a beam search


@torch.inference_mode()
def search(members: Sequence[Member], request: SearchRequest) -> list[list[Hypothesis]]:
    """Search for the outputs of every row of a memory; several members are an ensemble.

    >>> from windlass.heads.recurrent import Memory, RecurrentDecoder
    >>> head = RecurrentDecoder(RecurrentDecoder.Options(size=8), vocabulary=10, memory_size=6, final_sizes=()).eval()
    >>> memory = Memory(torch.randn(2, 5, 6), torch.ones(2, 5) > 0, torch.randn(2, 6))
    >>> [len(hypotheses) for hypotheses in search([Member(head, memory)], SearchRequest(Beam(size=3), nbest=2))]
    [2, 2]
    """
    options, constraint = request.options or Beam(), request.constraint
    limits = length_limits(members[0], options)
    if not limits.numel():
        return []
    ensemble, given = Ensemble(members), len(request.prefix)
    limits, needed = ensemble.most_steps(limits + given), max(given, 1)
    if bool((limits < needed).any()):
        left = max(0, int(limits.min()))
        raise DataError(
            f"the output needs {counted(needed, 'place')} of the decoder, and there are {left} for it: "
            "train with a larger model.decoder.longest"
        )
    if constraint is not None:
        if options.block_ngrams:
            raise RecipeError("block_ngrams may rule out every well-formed output: leave it out")
        if request.prefix:
            raise RecipeError("the beginning of a tree cannot be given: leave the prefix out")
        limits = torch.maximum(limits, constraint.shortest)
    if isinstance(options, Beam):
        return _beam(ensemble, options, request, limits, _TokenFilter(limits, options, request))
    keys = torch.arange(limits.numel()) if request.keys is None else request.keys.cpu()
    ends, found = [[(limit - 1, 0)] for limit in limits.tolist()], []
    for n in range(request.nbest if isinstance(options, Sample) else 1):
        steps = _single(ensemble, options, limits, keys + (n << 40), _TokenFilter(limits, options, request))
        found.append([one for (one,) in _trace_back(list(steps), ends, 0.0)])
    return [sorted(hypotheses, key=lambda h: -h.score) for hypotheses in zip(*found, strict=True)]


@torch.inference_mode()
def stream(members: Sequence[Member], request: SearchRequest, prompt: Sequence[int] = ()) -> Iterator[int]:
    """Yield the tokens of one output as greedy search or sampling chooses them, without the end mark.

    A `prompt` is a forced prefix of the output; only what follows it is returned.

    >>> from windlass.heads.recurrent import Memory, RecurrentDecoder
    >>> options = RecurrentDecoder.Options(size=8, context="none")
    >>> head = RecurrentDecoder(options, vocabulary=10, memory_size=0, final_sizes=()).eval()
    >>> request = SearchRequest(Sample(seed=3, length_plus=6))
    >>> first, second = (list(stream([Member(head, Memory.empty(1))], request, prompt=[5, 6])) for _ in range(2))
    >>> first == second, len(first) <= 6
    (True, True)
    """
    options = request.options or Sample()
    if isinstance(options, Beam):
        raise RecipeError("beam search knows its output only at the end: use sample or greedy to stream")
    limits = length_limits(members[0], options)
    if limits.numel() != 1:
        raise RecipeError(f"only one output can be streamed at a time, not {limits.numel()}")
    keys = torch.zeros(1, dtype=torch.long) if request.keys is None else request.keys.cpu()
    ensemble, given = Ensemble(members), len(prompt)
    limits = (ensemble.most_steps(limits + given) - given).clamp(min=1)
    token_filter = _TokenFilter(limits, options, request, prompt)
    for step in _single(ensemble, options, limits, keys, token_filter, prompt):
        token = int(step.token)
        if token == EOS:
            return
        yield token


def length_limits(member: Member, options: SearchOptions) -> Tensor:
    """The most tokens that the output of every row may have: (B,).

    >>> from windlass.core.records import Memory
    >>> length_limits(Member(None, Memory(torch.zeros(1, 5, 2), torch.ones(1, 5) > 0, torch.zeros(1, 2))), Greedy())
    tensor([30])
    """
    lengths = member.memory.mask.sum(1)
    if member.batch is not None:  # words of sentences; places that the encoder joins
        source = member.batch.inputs.get("source")
        ids = source is None or not (source.values.is_floating_point() or source.values.dtype == torch.uint8)
        lengths = member.batch.lengths if ids else torch.maximum(lengths, member.batch.lengths)
    return (lengths * options.length_factor + options.length_plus).long().clamp(min=1)


class _TokenFilter:
    """Rules out tokens: forbidden ones, those that would repeat an n-gram, and those that break the constraint.

    It keeps the tokens of every row so far (N, t) if n-grams are blocked, and the state of the constraint.
    """

    def __init__(self, limits: Tensor, options: SearchOptions, request: SearchRequest, prompt: Sequence[int] = ()):
        self.n, self.constraint = options.block_ngrams, request.constraint
        forbidden = {PAD, BOS, *request.forbidden, *([] if options.unknown else [UNK])}
        self.forbidden = torch.tensor(sorted(forbidden), device=limits.device)
        prefix = torch.tensor([list(prompt)], dtype=torch.long, device=limits.device)
        self.tokens = prefix.expand(limits.numel(), -1) if self.n else None
        self.state = None if self.constraint is None else self.constraint.begin(limits)
        self.forced = list(reversed(request.prefix))  # tokens that are still to be written

    def apply(self, logprobs: Tensor) -> Tensor:
        """Set the log probabilities (N, V) of ruled-out tokens to -inf, some of them in place."""
        if self.forced:
            only = torch.full_like(logprobs, -torch.inf)
            token = self.forced.pop()
            only[:, token] = logprobs[:, token]
            return only
        logprobs.index_fill_(1, self.forbidden, -torch.inf)
        if self.constraint is not None:
            logprobs = logprobs.masked_fill(~self.constraint.allowed(self.state), -torch.inf)
        return logprobs if self.tokens is None else block_ngrams(logprobs, self.tokens, self.n)

    def append(self, tokens: Tensor, rows: Tensor | None = None) -> None:
        """Add a token to every row, or to the rows with these indices."""
        if self.constraint is not None and self.state is not None:
            before = self.state if rows is None else self.state.select(rows)
            self.state = self.constraint.step(before, tokens)
        if self.tokens is not None:
            kept = self.tokens if rows is None else self.tokens[rows]
            self.tokens = torch.cat([kept, tokens[:, None]], dim=1)

    def select(self, rows: Tensor) -> None:
        """Keep the rows with these indices, which may repeat."""
        self.tokens = None if self.tokens is None else self.tokens[rows]
        self.state = None if self.state is None else self.state.select(rows)


@dataclass(frozen=True)
class _Backpointers:
    """One step: for each of K hypotheses of b sentences, its last token and the hypothesis that it extends."""

    rows: Tensor  # (b,) the indices of the sentences
    parent: Tensor | None  # (b, K); None if K is 1
    token: Tensor  # (b, K)
    logprob: Tensor  # (b, K) of the token alone
    weights: Tensor | None  # (b * K, S) attention when the token was chosen; a row for each parent


def _single(
    ensemble: Ensemble,
    options: Greedy | Sample,
    limits: Tensor,
    keys: Tensor,
    token_filter: _TokenFilter,
    prompt: Sequence[int] = (),
) -> Iterator[_Backpointers]:
    """Extend one hypothesis for each sentence, greedily or by sampling, after a forced prefix; yield every step."""
    B, device = limits.numel(), limits.device
    state = ensemble.begin()
    tokens = torch.full((B,), BOS, device=device)
    for forced in prompt:
        _, state, _ = ensemble.step(tokens, state)
        tokens = torch.full_like(tokens, forced)
    rows = torch.arange(B, device=device)  # the sentences of the live rows
    left, done = limits, torch.zeros(B, dtype=torch.bool, device=device)
    soonest = int(limits.min())
    for t in range(int(limits.max())):
        logprobs, state, weights = ensemble.step(tokens, state)
        allowed = token_filter.apply(logprobs)
        if isinstance(options, Sample):
            tokens = draw(allowed.cpu(), options, keys[rows.cpu()], t).to(device)
            chosen = logprobs.gather(1, tokens[:, None])
        else:
            chosen, ids = top_k(allowed, 1)
            tokens = ids[:, 0]
        yield _Backpointers(rows, None, tokens[:, None], chosen, weights)
        done = done | (tokens == EOS)
        if t + 1 >= soonest:
            done = done | (left <= t + 1)
        gone = int(done.sum())
        if gone == done.numel():
            break
        token_filter.append(tokens)
        if gone * SHRINK_AT >= done.numel():
            live = (~done).nonzero().squeeze(1)
            state, rows, tokens, left, done = state.keep(live, live), rows[live], tokens[live], left[live], done[live]
            token_filter.select(live)


@dataclass(frozen=True)
class _Finished(Record):
    """The M best finished hypotheses of every sentence, best first; -inf if there are fewer."""

    score: Tensor  # (B, M) normalised
    step: Tensor  # (B, M) that wrote the end mark
    beam: Tensor  # (B, M) the index in the beam at that step

    def merge(self, other: _Finished) -> _Finished:
        """The best M of both."""
        order = torch.cat([self.score, other.score], 1).sort(dim=1, descending=True, stable=True).indices
        order = order[:, : self.score.size(1)]

        def pick(mine: Tensor, theirs: Tensor) -> Tensor:
            return torch.cat([mine, theirs], 1).gather(1, order)

        return _Finished(pick(self.score, other.score), pick(self.step, other.step), pick(self.beam, other.beam))


def _beam(
    ensemble: Ensemble, options: Beam, request: SearchRequest, limits: Tensor, token_filter: _TokenFilter
) -> list[list[Hypothesis]]:
    """Keep K hypotheses for each sentence until no live one can enter its n-best list.

    A hypothesis finishes if its end mark is among the K best continuations, so that a beam of 1 is greedy search. Log
    probabilities only fall and lengths only grow, so a live hypothesis with log probability s scores at most
    s / limit ** length_penalty.
    """
    B, device = limits.numel(), limits.device
    M = max(request.nbest, 1)
    K = max(options.size, M)  # as wide as the n-best list
    state = ensemble.begin()
    total = torch.full((B, K), -torch.inf, device=device, dtype=torch.float64)
    total[:, 0] = 0.0  # all K are the same at first: only one may be extended
    tokens = torch.full((B,), BOS, device=device)
    rows = torch.arange(B, device=device)
    each, here = rows[:, None] * K, torch.arange(K, device=device)
    backpointers: list[_Backpointers] = []
    nothing = torch.zeros(B, M, dtype=torch.long, device=device)
    finished = _Finished(torch.full((B, M), -torch.inf, device=device, dtype=torch.float64), nothing, nothing)
    ends: list[list[tuple[int, int]]] = [[] for _ in range(B)]
    left, done = limits, torch.zeros(B, dtype=torch.bool, device=device)
    soonest, ended = int(limits.min()), False
    for t in range(int(limits.max())):
        logprobs, state, weights = ensemble.step(tokens, state)
        b = rows.numel()
        logp, ids = top_k(token_filter.apply(logprobs), min(K, logprobs.size(1)))  # (N, W)
        if t == 0:  # so far, one row stood for all K hypotheses of a sentence
            copies = rows.repeat_interleave(K)
            state, logp, ids = state.widen(K), logp[copies], ids[copies]
            weights = None if weights is None else weights[copies]
            token_filter.select(copies)
        continued = total[..., None] + logp.view(b, K, -1)  # (b, K, W)
        total, flat = continued.flatten(1).topk(K, dim=1)
        if request.watch is not None:
            request.watch(Considered(rows, continued, ids.view(b, K, -1), flat))
        parent = flat.div(logp.size(1), rounding_mode="floor")
        token = ids.view(b, -1).gather(1, flat)
        backpointers.append(_Backpointers(rows, parent, token, logp.view(b, -1).gather(1, flat), weights))
        chosen, tokens = (each + parent).flatten(), token.flatten()
        token_filter.append(tokens, chosen)
        if bool((token == EOS).any()):
            ended = True
            normalised = (total / float(t + 1) ** options.length_penalty).masked_fill(token != EOS, -torch.inf)
            finished = finished.merge(_Finished(normalised, torch.full_like(parent, t), here.expand(b, K)))
            total = total.masked_fill(token == EOS, -torch.inf)
        if ended or t + 1 >= soonest:
            bound = total.amax(1) / left.double() ** options.length_penalty
            now = ((finished.score[:, -1] >= bound) | (left <= t + 1)) & ~done
            for place in now.nonzero().squeeze(1).tolist():
                ends[int(rows[place])] = _ends(place, finished, total[place], t)
            done = done | now
            gone = int(done.sum())
            if gone == b:
                break
            if gone * SHRINK_AT >= b:
                live = (~done).nonzero().squeeze(1)
                chosen = chosen.view(b, K)[live].flatten()
                state = state.keep(live, chosen)
                token_filter.select((each[live] + here).flatten())
                rows, total, tokens, left, done = rows[live], total[live], token[live].flatten(), left[live], done[live]
                finished, each = finished.select(live), each[: live.numel()]
                continue
        state = state.reorder(chosen)
    if not all(ends):  # no score of some sentence is above -inf
        raise NotFiniteError
    return _trace_back(backpointers, ends, options.length_penalty)


def _ends(place: int, finished: _Finished, total: Tensor, step: int) -> list[tuple[int, int]]:
    """Where the n-best hypotheses of a sentence end, (step, index in the beam): finished ones, then cut-off ones."""
    M = finished.score.size(1)
    scores, steps, beams = (part[place].tolist() for part in (finished.score, finished.step, finished.beam))
    ends = [(s, k) for score, s, k in zip(scores, steps, beams, strict=True) if score > -torch.inf]
    alive = [(step, k) for k, score in enumerate(total.tolist()) if score > -torch.inf]
    return ends + alive[: M - len(ends)]


def _trace_back(
    backpointers: list[_Backpointers], ends: list[list[tuple[int, int]]], length_penalty: float
) -> list[list[Hypothesis]]:
    """Follow the hypotheses of every sentence back from their ends (step, index in the beam)."""
    parents = [None if step.parent is None else step.parent.tolist() for step in backpointers]
    tokens, logprobs = [step.token.tolist() for step in backpointers], [step.logprob.tolist() for step in backpointers]
    offsets, places, rows = [0], [], backpointers[0].rows
    at = {row: place for place, row in enumerate(rows.tolist())}
    for step in backpointers:  # a sentence's row changes when others leave
        if step.rows is not rows:
            rows, at = step.rows, {row: place for place, row in enumerate(step.rows.tolist())}
        places.append(at)
        offsets.append(offsets[-1] + step.token.numel())
    weight_rows: list[int] = []
    traced: list[list[tuple[list[tuple[int, float]], int]]] = []
    for row, row_ends in enumerate(ends):
        traced.append([])
        for last, beam in row_ends:
            steps: list[tuple[int, float]] = []
            lines: list[int] = []
            for t in range(min(last, len(backpointers) - 1), -1, -1):
                if row not in places[t]:
                    continue  # finished before its limit, and left the batch
                place, width, before = places[t][row], len(tokens[t][0]), parents[t]
                steps.append((tokens[t][place][beam], logprobs[t][place][beam]))
                beam = beam if before is None else before[place][beam]
                lines.append(offsets[t] + place * width + beam)
            steps.reverse()
            if EOS in (token for token, _ in steps[:-1]):  # finished, but still in the batch
                steps = steps[: [token for token, _ in steps].index(EOS) + 1]
            traced[-1].append((steps, len(weight_rows)))
            weight_rows += lines[::-1][: len(steps)]
    weights = None
    if backpointers[0].weights is not None:
        device = backpointers[0].weights.device
        stored = torch.cat([step.weights for step in backpointers if step.weights is not None])
        weights = stored[torch.tensor(weight_rows, device=device)]
    return [
        [
            _hypothesis(steps, None if weights is None else weights[n : n + len(steps)], length_penalty)
            for steps, n in hypotheses
        ]
        for hypotheses in traced
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
    """Targets with end marks as hypotheses, from their log probabilities (B, T) and attention (B, T, S).

    >>> forced_hypotheses(Padded.of([[7, 8, EOS]]), torch.zeros(1, 3), None)[0].ids
    (7, 8)
    """
    hypotheses = []
    for row, length in enumerate(target.lengths.tolist()):
        ids = target.values[row, :length].tolist()
        steps = list(zip(ids, logprobs[row, :length].tolist(), strict=True))
        hypotheses.append(_hypothesis(steps, None if weights is None else weights[row, :length], 0.0))
    return hypotheses
