"""Predictions of heads that need no search: a label, or a tag for every word."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from windlass.bundle import Bundle
from windlass.core.errors import RecipeError
from windlass.core.records import Memory, Padded, Prediction, Span
from windlass.data.documents import DocumentCodec, unknown
from windlass.data.examples import Source, joined
from windlass.data.labels import LabelCodec, TagsCodec
from windlass.data.pairs import PairCodec
from windlass.data.schemes import spans
from windlass.data.sides import Codecs
from windlass.data.words import WordsCodec
from windlass.heads.label import LabelHead
from windlass.heads.tags import TagsHead

SEEN = 0.005
"""A tag that is nowhere in a sentence this probable is not spoken of."""


def choose(
    bundles: Sequence[Bundle], memories: Sequence[Memory], sources: Sequence[Source], nbest: int = 1
) -> list[Prediction]:
    """Predictions for the rows of a memory (one a bundle); several bundles are an ensemble: the mean of probabilities.

    >>> from windlass.data.sides import Codecs, fit_source
    >>> from windlass.data.labels import LabelOptions
    >>> from windlass.recipe import compose
    >>> recipe = compose("classify", None)
    >>> label = LabelCodec.fit(LabelOptions(), ["spam", "ham"])
    >>> bundle = Bundle.new(recipe, Codecs(fit_source(recipe.source, ["abc"]), label))
    >>> batch = bundle.codecs.collate([bundle.codecs.encode("abc")], [0])
    >>> found = choose([bundle], [bundle.model.eval().encode(batch)], ["abc"], nbest=2)[0]
    >>> sorted(found.labels), len(found.alternatives)
    (['ham', 'spam'], 1)
    """
    with torch.no_grad():
        if isinstance(bundles[0].codecs.target, LabelCodec):
            return _labels(bundles, memories, sources, nbest)
        if nbest > 1:
            raise RecipeError("a tagger gives one tag a word, with its probability: leave nbest out")
        return _tags(bundles, memories, sources)


def judge(bundle: Bundle, memory: Memory, target: Padded, sources: Sequence[Source]) -> list[Prediction]:
    """Predictions for given labels or tags: how likely these are.

    >>> callable(judge)
    True
    """
    head, codec = bundle.model.head, bundle.codecs.target
    assert isinstance(head, LabelHead | TagsHead)
    with torch.no_grad():
        logp = head.force(memory, target).tolist()
        own = choose([bundle], [memory], sources)
    found = []
    for n, (prediction, score) in enumerate(zip(own, logp, strict=True)):
        ids = target.values[n][target.mask[n]].tolist()
        text = codec.decode(ids)
        probabilities: tuple[float, ...] = (math.exp(score),)
        if isinstance(codec, TagsCodec):
            probabilities = tuple(_marginals(bundle, memory, n, ids))
        found.append(
            replace(
                prediction,
                text=text,
                tokens=tuple(text.split()) if isinstance(codec, TagsCodec) else (text,),
                score=score,
                confidence=math.exp(score),
                probabilities=probabilities,
                spans=_spans(bundle, sources[n], text) if isinstance(codec, TagsCodec) else (),
            )
        )
    return found


def _marginals(bundle: Bundle, memory: Memory, row: int, ids: list[int]) -> list[float]:
    assert isinstance(bundle.model.head, TagsHead)
    with torch.no_grad():
        probabilities: Tensor = bundle.model.head(memory)[row]
    return [float(probabilities[place, tag]) for place, tag in enumerate(ids)]


def _mean(parts: Sequence[Tensor]) -> Tensor:
    return torch.stack([part.cpu() for part in parts]).mean(0)


def _labels(
    bundles: Sequence[Bundle], memories: Sequence[Memory], sources: Sequence[Source], nbest: int
) -> list[Prediction]:
    codecs = bundles[0].codecs
    answers = [b.model.head(memory) for b, memory in zip(bundles, memories, strict=True)]
    probabilities = _mean([logp.exp() for logp, _ in answers])
    pair = codecs.source if isinstance(codecs.source, PairCodec) else None
    # Of a pair, the second text's words over the first's; else how much each word or sentence counted.
    given = [memory.links for memory in memories] if pair else [weights for _, weights in answers]
    weighed = [weights for weights in given if weights is not None]
    shares, within = _mean(weighed) if weighed else None, _within(memories)
    found = []
    for n, source in enumerate(sources):
        chances = probabilities[n].tolist()
        order = sorted(range(len(chances)), key=lambda label: -chances[label])
        seen = _seen(codecs, source, None if within is None else within[n])
        beside, attention = tuple(pair.second_pieces(source)) if pair else (), None
        if shares is not None:
            places = len(seen.source_tokens)
            rows = shares[n, : len(beside), :places] if pair else shares[n, None, :places]
            attention = tuple(map(tuple, rows.tolist()))
        one = replace(
            seen,
            attention=attention,
            second_tokens=beside,
            labels={codecs.target.token(label): chances[label] for label in order},
        )
        ranked = [
            replace(
                one,
                text=codecs.target.token(label),
                tokens=(codecs.target.token(label),),
                score=math.log(max(chances[label], 1e-45)),
                confidence=chances[label],
                probabilities=(chances[label],),
            )
            for label in order[:nbest]
        ]
        found.append(replace(ranked[0], alternatives=tuple(ranked[1:])))
    return found


def _tags(bundles: Sequence[Bundle], memories: Sequence[Memory], sources: Sequence[Source]) -> list[Prediction]:
    codecs, head = bundles[0].codecs, bundles[0].model.head
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
        seen = _seen(codecs, source, None if within is None else within[n])
        places = len(seen.source_tokens)
        ids, rows = best[n, :places].tolist(), marginals[n, :places].tolist()
        chances = [row[tag] for row, tag in zip(rows, ids, strict=True)]
        text = codecs.target.decode(ids)
        found.append(
            replace(
                seen,
                text=text,
                tokens=tuple(text.split()),
                score=sum(math.log(max(chance, 1e-45)) for chance in chances),
                confidence=math.prod(chances),
                probabilities=tuple(chances),
                offsets=_offsets(bundles[0], source),
                spans=_spans(bundles[0], source, text),
                chances={
                    codecs.target.token(tag): column
                    for tag, column in enumerate(zip(*rows, strict=True))
                    if max(column) >= SEEN
                },
            )
        )
    return found


def _within(memories: Sequence[Memory]) -> Tensor | None:
    """How much each word counts in its sentence (B, P, S), where that is weighed."""
    known = [memory.within for memory in memories if memory.within is not None]
    return _mean(known) if known else None


def _seen(codecs: Codecs, source: Source, within: Tensor | None) -> Prediction:
    """What a model sees of a source, in a prediction whose answer is still to come."""
    blank = Prediction(text="", tokens=(), score=0.0, confidence=0.0)
    if not isinstance(codecs.source, DocumentCodec):
        return replace(blank, source_tokens=codecs.pieces(source), unknown=codecs.source.unknown(source))
    parts, unread = codecs.source.scan(source)
    weights = [] if within is None else [within[p, : len(part.ids)].tolist() for p, part in enumerate(parts)]
    return replace(
        blank,
        source_tokens=tuple(part.text for part in parts),
        unknown=unknown(parts),
        words=tuple(part.words for part in parts),
        word_weights=tuple(map(tuple, weights)),
        unread=unread,
    )


def _offsets(bundle: Bundle, source: Source) -> tuple[tuple[int, int], ...]:
    codec = bundle.codecs.source
    return codec.offsets(source) if isinstance(codec, WordsCodec) else ()


def _spans(bundle: Bundle, source: Source, text: str) -> tuple[Span, ...]:
    """The spans that tags mark, or, where they mark none, every word with its tag."""
    codec, tags, offsets = bundle.codecs.target, text.split(), _offsets(bundle, source)
    assert isinstance(codec, TagsCodec)
    if not offsets:
        return ()
    whole = joined(source)
    marked = spans(tags) if codec.written != "none" else [(n, n + 1, tag) for n, tag in enumerate(tags)]
    places = [(offsets[begin][0], offsets[end - 1][1], label) for begin, end, label in marked]
    return tuple(Span(begin, end, label, whole[begin:end]) for begin, end, label in places)
