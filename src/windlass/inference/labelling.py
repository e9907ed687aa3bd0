"""Predictions of heads that need no search: a label, or a tag for every word."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from windlass.bundle import Bundle
from windlass.core.errors import RecipeError
from windlass.core.records import Hypothesis, LabelAnswer, Memory, Padded, Places, Prediction, TagsAnswer
from windlass.data.examples import Value
from windlass.data.sides import Sides
from windlass.heads.label import LabelHead
from windlass.heads.tags import TagsHead


def choose(
    bundles: Sequence[Bundle], memories: Sequence[Memory], sources: Sequence[Value], nbest: int = 1
) -> list[Prediction]:
    """Predictions for the rows of a memory (one a bundle); several bundles are an ensemble: the mean of probabilities.

    >>> from windlass.data.sides.label import LabelTarget
    >>> from windlass.data.sides.text import TextSource
    >>> from windlass.recipe import compose
    >>> recipe = compose("classify", None)
    >>> bundle = Bundle.new(recipe, Sides(TextSource.tiny()[0], LabelTarget.tiny()[0]))
    >>> batch = bundle.sides.collate([bundle.sides.encode("abc")], [0])
    >>> found = choose([bundle], [bundle.model.eval().encode(batch)], ["abc"], nbest=2)[0]
    >>> sorted(found.labels), len(found.alternatives)
    (['ham', 'spam'], 1)
    """
    with torch.no_grad():
        if isinstance(bundles[0].model.head, LabelHead):
            return _labels(bundles, memories, sources, nbest)
        if nbest > 1:
            raise RecipeError("a tagger gives one tag a word, with its probability: leave nbest out")
        return _tags(bundles, memories, sources)


def judge(bundle: Bundle, memory: Memory, target: Padded, sources: Sequence[Value]) -> list[Prediction]:
    """Predictions for given labels or tags: how likely these are.

    >>> callable(judge)
    True
    """
    head = bundle.model.head
    assert isinstance(head, LabelHead | TagsHead)
    with torch.no_grad():
        logp = head.force(memory, target).tolist()
        own = choose([bundle], [memory], sources)
    found = []
    for n, (prediction, score) in enumerate(zip(own, logp, strict=True)):
        ids = tuple(target.values[n][target.mask[n]].tolist())
        tags = isinstance(head, TagsHead)
        text, answer = bundle.sides.answer(Hypothesis(ids, score, ()), sources[n])
        found.append(
            replace(
                prediction,
                text=text,
                tokens=answer.tags if isinstance(answer, TagsAnswer) else (text,),
                score=score,
                confidence=math.exp(score),
                probabilities=tuple(_marginals(bundle, memory, n, ids)) if tags else (math.exp(score),),
                spans=answer.spans if isinstance(answer, TagsAnswer) else (),
            )
        )
    return found


def _marginals(bundle: Bundle, memory: Memory, row: int, ids: tuple[int, ...]) -> list[float]:
    assert isinstance(bundle.model.head, TagsHead)
    with torch.no_grad():
        probabilities: Tensor = bundle.model.head(memory)[row]
    return [float(probabilities[place, tag]) for place, tag in enumerate(ids)]


def _mean(parts: Sequence[Tensor]) -> Tensor:
    return torch.stack([part.cpu() for part in parts]).mean(0)


def _labels(
    bundles: Sequence[Bundle], memories: Sequence[Memory], sources: Sequence[Value], nbest: int
) -> list[Prediction]:
    sides = bundles[0].sides
    answers = [b.model.head(memory) for b, memory in zip(bundles, memories, strict=True)]
    probabilities = _mean([logp.exp() for logp, _ in answers])
    # Of a pair, the second text's words over the first's; else how much each word or sentence counted.
    linked = [memory.links for memory in memories if memory.links is not None]
    weighed = linked or [weights for _, weights in answers if weights is not None]
    shares, within = _mean(weighed) if weighed else None, _within(memories)
    found = []
    for n, source in enumerate(sources):
        chances = probabilities[n].tolist()
        order = sorted(range(len(chances)), key=lambda label: -chances[label])
        places = sides.source.places(source)
        beside = places.parts["second"].names if places.parts else ()
        attention = None
        if shares is not None and (linked or not places.parts):
            rows = shares[n, : len(beside), : len(places.names)] if beside else shares[n, None, : len(places.names)]
            attention = tuple(map(tuple, rows.tolist()))
        one = replace(
            _seen(sides, source, places, None if within is None else within[n]),
            attention=attention,
            second_tokens=beside,
        )
        ranked = []
        for label in order[:nbest]:
            logprob = math.log(max(chances[label], 1e-45))
            hypothesis = Hypothesis((label,), logprob, (logprob,), distribution=probabilities[n])
            text, answer = sides.answer(hypothesis, source)
            assert isinstance(answer, LabelAnswer)
            ranked.append(
                replace(
                    one,
                    text=text,
                    tokens=(text,),
                    score=logprob,
                    confidence=chances[label],
                    probabilities=(chances[label],),
                    labels=answer.probabilities,
                )
            )
        found.append(replace(ranked[0], alternatives=tuple(ranked[1:])))
    return found


def _tags(bundles: Sequence[Bundle], memories: Sequence[Memory], sources: Sequence[Value]) -> list[Prediction]:
    sides, head = bundles[0].sides, bundles[0].model.head
    assert isinstance(head, TagsHead)
    mask = memories[0].mask.cpu()
    marginals = _mean([b.model.head(memory) for b, memory in zip(bundles, memories, strict=True)])
    if len(bundles) == 1:
        best = head.best(memories[0]).cpu()
    else:  # of the mean, place by place, what the scheme allows
        best = head.scheme.cpu().best(marginals.clamp(min=1e-12).log(), mask)[0]
    within = _within(memories)
    found = []
    for n, source in enumerate(sources):
        places = sides.source.places(source)
        count = len(places.names)
        hypothesis = Hypothesis(tuple(best[n, :count].tolist()), 0.0, (), distribution=marginals[n, :count])
        text, answer = sides.answer(hypothesis, source)
        assert isinstance(answer, TagsAnswer)
        found.append(
            replace(
                _seen(sides, source, places, None if within is None else within[n]),
                text=text,
                tokens=answer.tags,
                score=sum(math.log(max(chance, 1e-45)) for chance in answer.probabilities),
                confidence=math.prod(answer.probabilities),
                probabilities=answer.probabilities,
                offsets=places.offsets,
                spans=answer.spans,
                chances=answer.distribution,
            )
        )
    return found


def _within(memories: Sequence[Memory]) -> Tensor | None:
    """How much each word counts in its sentence (B, P, S), where that is weighed."""
    known = [memory.within for memory in memories if memory.within is not None]
    return _mean(known) if known else None


def _seen(sides: Sides, source: Value, places: Places, within: Tensor | None) -> Prediction:
    """What a model sees of a source, in a prediction whose answer is still to come."""
    weights = [] if within is None else [within[p, : len(part.names)].tolist() for p, part in enumerate(places.within)]
    return Prediction(
        text="",
        tokens=(),
        score=0.0,
        confidence=0.0,
        source_tokens=places.names,
        unknown=sides.source.unknown(source),
        words=tuple(part.names for part in places.within),
        word_weights=tuple(map(tuple, weights)),
        unread=places.unread,
    )
