"""Ensembles of models that have no steps in common: every model scores the outputs that any of them found."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

import torch
from torch import Tensor

from windlass.core.marks import EOS
from windlass.core.records import Batch, Hypothesis, Member, Memory, Padded
from windlass.decoding.options import SearchOptions
from windlass.decoding.search import SearchRequest
from windlass.heads.base import ensemble_mean
from windlass.heads.text import TextHead


def best_hypotheses(
    members: Sequence[Member], request: SearchRequest, searches: Sequence[SearchOptions] = ()
) -> list[list[Hypothesis]]:
    """The best hypotheses of every row, best first; `searches` has the options of every member, if they differ.

    Decoders average their probabilities as they search, as do other heads of one class. A decoder and CTC have no steps
    in common, and rerank each other's outputs.

    >>> from windlass.core.records import Memory
    >>> from windlass.heads.ctc import CtcHead, CtcHeadOptions
    >>> head = CtcHead(CtcHeadOptions(), vocabulary=7, memory_size=4)
    >>> memory = Memory(torch.randn(2, 5, 4), torch.ones(2, 5) > 0, torch.randn(2, 4))
    >>> len(best_hypotheses([Member(head, memory)], SearchRequest()))
    2
    """
    decoders = [n for n, member in enumerate(members) if isinstance(member.head, TextHead)]
    if len(decoders) in (0, len(members)):
        return list(type(members[0].head).predict(members, request))
    found = []
    for group in (decoders, *([n] for n in range(len(members)) if n not in decoders)):
        own, options = [members[n] for n in group], searches[group[0]]
        wide = replace(request, options=options, nbest=options.width(request.nbest))
        found.append([{h.ids: h.finished for h in row} for row in type(own[0].head).predict(own, wide)])
    return rerank(members, found, request.nbest)


@torch.no_grad()
def rerank(
    members: Sequence[Member], found: Sequence[Sequence[Mapping[tuple[int, ...], bool]]], nbest: int
) -> list[list[Hypothesis]]:
    """The best of the outputs that several searches found, by the mean of the members' log probabilities.

    A search says of each of its outputs whether it is finished; one that any of them finished is. An output that a
    member cannot write, since it is too long for it, is left out.

    >>> rerank([], [[], []], nbest=1)
    []
    """
    rows = [_merged(each) for each in zip(*found, strict=True)]
    at = [row for row, outputs in enumerate(rows) for _ in outputs]
    if not at:
        return []
    mean = ensemble_mean(_log_probabilities(member, at, [ids for row in rows for ids in row]) for member in members)
    scores = iter(mean.tolist())
    ranked = [sorted(((next(scores), ids) for ids in row), key=lambda pair: -pair[0])[:nbest] for row in rows]
    best = [[(score, ids) for score, ids in row if score != -math.inf] for row in ranked]
    at, texts = [row for row, own in enumerate(best) for _ in own], [ids for own in best for _, ids in own]
    forced = zip(*(member.head.force(*_with_targets(member, at, texts)) for member in members), strict=True)
    return [
        [_joined(next(forced), score, finished[ids]) for score, ids in row]
        for row, finished in zip(best, rows, strict=True)
    ]


def _merged(each: Sequence[Mapping[tuple[int, ...], bool]]) -> dict[tuple[int, ...], bool]:
    """The outputs of several searches, and whether any of them finished each."""
    merged: dict[tuple[int, ...], bool] = {}
    for outputs in each:
        merged |= {ids: finished or merged.get(ids, False) for ids, finished in outputs.items()}
    return merged


def _log_probabilities(member: Member, rows: Sequence[int], texts: Sequence[tuple[int, ...]]) -> Tensor:
    """The log probability of a text for each of some rows; -inf if it is too long for the member."""
    memory, batch = _with_targets(member, rows, texts)
    long = member.head.too_long(batch, memory.mask.sum(1))
    if long.any():  # which forced decoding refuses
        short = [() if cut else ids for ids, cut in zip(texts, long.tolist(), strict=True)]
        memory, batch = _with_targets(member, rows, short)
    return torch.masked_fill(member.head.log_probabilities(memory, batch), long, -math.inf)


def _with_targets(member: Member, rows: Sequence[int], texts: Sequence[tuple[int, ...]]) -> tuple[Memory, Batch]:
    """What a member has read of some rows, with a text for each of them."""
    at = torch.tensor(rows, device=member.memory.mask.device)
    target = Padded.of([[*ids, EOS] for ids in texts]).to(at.device)
    batch = Batch({}, target, at) if member.batch is None else replace(member.batch.select(at), target=target)
    return member.memory.select(at), batch


def _joined(each: Sequence[Hypothesis], score: float, finished: bool) -> Hypothesis:
    """An output with the mean of the members' tokens and attention, as far as these have the shapes of the first."""
    first = each[0]
    logprobs = [h.logprobs for h in each if len(h.logprobs) == len(first.logprobs)]
    weights = [h.weights for h in each if h.weights is not None]
    alike = [own for own in weights if own.shape == weights[0].shape]
    return replace(
        first,
        score=score,
        finished=finished,
        total=min(score, 0.0),
        logprobs=tuple(map(fmean, zip(*logprobs, strict=True))),
        weights=ensemble_mean(alike) if alike else None,
    )
