"""Hypotheses as answers: what a target side will do for itself."""

from __future__ import annotations

import math

from windlass.bundle import Bundle
from windlass.core.records import Answer, Hypothesis, LabelAnswer, Places, Span, TagsAnswer, TextAnswer
from windlass.data.documents import DocumentCodec
from windlass.data.examples import Source, joined
from windlass.data.labels import LabelCodec, TagsCodec
from windlass.data.pairs import PairCodec
from windlass.data.schemes import spans
from windlass.data.words import WordsCodec

SEEN = 0.005


def places(bundle: Bundle, value: Source) -> Places:
    codec = bundle.codecs.source
    if isinstance(codec, DocumentCodec):
        parts, unread = codec.scan(value)
        within = tuple(Places("words", part.words) for part in parts)
        return Places("sentences", tuple(part.text for part in parts), within=within, unread=unread)
    if isinstance(codec, PairCodec):
        second = Places("tokens", tuple(codec.second_pieces(value)))
        return Places("tokens", bundle.codecs.pieces(value), parts={"second": second})
    if isinstance(codec, WordsCodec):
        return Places("words", bundle.codecs.pieces(value), offsets=codec.offsets(value))
    return Places("tokens", bundle.codecs.pieces(value))


def answer(bundle: Bundle, hypothesis: Hypothesis, value: Source) -> tuple[str, Answer]:
    codecs = bundle.codecs
    target = codecs.target
    probabilities = tuple(math.exp(logprob) for logprob in hypothesis.logprobs)
    if isinstance(target, LabelCodec):
        assert hypothesis.distribution is not None
        chances = hypothesis.distribution.tolist()
        order = sorted(range(len(chances)), key=lambda label: -chances[label])
        label = target.token(hypothesis.ids[0])
        return label, LabelAnswer((label,), probabilities, {target.token(n): chances[n] for n in order})
    if isinstance(target, TagsCodec):
        assert hypothesis.distribution is not None
        text = target.decode(hypothesis.ids)
        columns = enumerate(zip(*hypothesis.distribution.tolist(), strict=True))
        distribution = {target.token(tag): column for tag, column in columns if max(column) >= SEEN}
        return text, TagsAnswer(tuple(text.split()), probabilities, _spans(bundle, value, text), distribution)
    beyond = codecs.beyond(value)
    tokens = tuple(codecs.written.token(n, beyond) for n in hypothesis.ids)
    return codecs.write(hypothesis.ids, value), TextAnswer(tokens, probabilities)


def _spans(bundle: Bundle, source: Source, text: str) -> tuple[Span, ...]:
    codec, tags = bundle.codecs.target, text.split()
    offsets = bundle.codecs.source.offsets(source) if isinstance(bundle.codecs.source, WordsCodec) else ()
    assert isinstance(codec, TagsCodec)
    if not offsets:
        return ()
    whole = joined(source)
    marked = spans(tags) if codec.written != "none" else [(n, n + 1, tag) for n, tag in enumerate(tags)]
    found = [(offsets[begin][0], offsets[end - 1][1], label) for begin, end, label in marked]
    return tuple(Span(begin, end, label, whole[begin:end]) for begin, end, label in found)
