"""Predict outputs and score given ones, whatever the model reads and whatever it gives."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import Tensor

from windlass.bundle import Bundle
from windlass.core.errors import DataError, NotFiniteError, RecipeError, short
from windlass.core.marks import EOS, UNK
from windlass.core.options import Options
from windlass.core.records import Batch, Hypothesis, Member, Memory, Prediction
from windlass.data.encoded import Encoded
from windlass.data.examples import Value
from windlass.data.sides import Sides
from windlass.decoding.constraint import WellFormed
from windlass.decoding.options import SearchOptions
from windlass.decoding.search import Considered, SearchRequest
from windlass.heads.base import Head, ensemble_mean, gold
from windlass.heads.rerank import best_hypotheses
from windlass.heads.text import TextHead
from windlass.inference.likelihood import score_texts

BATCH_TOKENS = 4000
"""Batch size (rows x longest row) for models without a search."""


def predict(
    bundles: Sequence[Bundle],
    texts: Sequence[Value],
    options: SearchOptions | Sequence[SearchOptions] | None = None,
    nbest: int = 1,
    batch_tokens: int | None = None,
    first_key: int = 0,
    prefix: str = "",
    watch: Callable[[Considered], None] | None = None,
) -> list[Prediction]:
    """Return a prediction for every input, in order; a blank one for a blank input. Several bundles are an ensemble.

    An input that cannot be read, such as a damaged picture, has a blank prediction with its `error`.
    `first_key` is the number of the first input: samples do not depend on how inputs are split into calls.
    Without `options` every bundle searches as its recipe says; a sequence has options for each of them. Decoders of an
    ensemble search together, with the options of the first.
    With a `prefix` every output begins with it; `watch` is told of every step of a beam search.

    >>> from windlass.data import Sides
    >>> from windlass.recipe import Recipe
    >>> bundle = Bundle.new(Recipe(), Sides.tiny())
    >>> [p.text == "" for p in predict([bundle], ["", "cab"])][0]
    True
    """
    first = bundles[0]
    if first.task.language_model:
        raise RecipeError("a language model has no input to predict from: use generate, or score to rate a text")
    if any(b.sides.target != first.sides.target for b in bundles[1:]):
        raise DataError("an ensemble needs bundles with the same target vocabulary: train them on the same data")
    if not isinstance(nbest, Integral) or nbest < 1:
        raise ValueError(f"nbest is {short(nbest)}: give a whole number of at least 1")
    searches = _searches(bundles, options)
    if prefix and not all(isinstance(b.model.head, TextHead) for b in bundles):
        raise RecipeError(
            "a prefix has no use, as this model does not write token by token: leave it out, or train with "
            "--set model.head=text"
        )
    forced = tuple(first.sides.tokenizer.encode(prefix)) if prefix else ()
    if UNK in forced:
        unknown = ", ".join(map(repr, first.sides.tokenizer.unknown(prefix)))
        raise RecipeError(f"no output can begin with {prefix!r}: the model never writes {unknown}")
    search = searches[0] if searches else None
    if nbest > 1 and any(own.single for own in searches):
        raise RecipeError(f"greedy search finds one output, not {nbest}: use beam or sample for an n-best list")
    inputs = [first.sides.read(text) for text in texts]
    numbers = [n for n, value in enumerate(inputs) if not first.sides.source.blank(value)]
    size = first.sides.source.portion([inputs[n] for n in numbers])
    if len(numbers) > size:
        starts = range(0, len(texts), size)
        parts = (texts[start : start + size] for start in starts)
        each = [predict(bundles, part, options, nbest, batch_tokens, first_key + n, prefix, watch)
                for n, part in zip(starts, parts, strict=True)]  # fmt: skip
        return [prediction for part in each for prediction in part]
    bundles, failed = _with_features(bundles, [texts[n] for n in numbers])
    first, numbers = bundles[0], [n for n in numbers if inputs[n] not in failed]
    encoded = [b.sides.encode_all([b.sides.read(texts[n]) for n in numbers]) for b in bundles]
    _check_copies(encoded)
    for b in bundles:
        b.model.eval()
    nothing = Prediction("", first.sides.target.no_answer, confidence=None)  # of blank inputs
    predictions = [replace(nothing, error=failed.get(value)) for value in inputs]
    # Every member of an ensemble reads the same batches: those made from the lengths of the first.
    if batch_tokens is None and search is not None:
        # enough hypotheses to be efficient, few enough that their logits stay in cache
        batch_tokens = max(200, 4000 // max(2, *(own.width(nbest) for own in searches)))
    loader = first.sides.loader(encoded[0], batch_tokens or BATCH_TOKENS)
    for plan in loader.epoch(0):
        rows = plan.keys.tolist()
        values = [inputs[numbers[row]] for row in rows]
        members = []
        with torch.inference_mode():
            for b, side in zip(bundles, encoded, strict=True):
                batch = b.sides.collate([side[row] for row in rows], rows).to(b.device)
                members.append(Member(b.model.head, b.encode(batch), batch, b.int8))
        keys = torch.tensor([first_key + numbers[row] for row in rows])
        brackets = first.sides.target.brackets(first.sides.source, values)  # if the target has any
        constraint = None if brackets is None else WellFormed(*brackets, first.device)
        request = SearchRequest(search, nbest, keys, constraint, prefix=forced, watch=watch)
        ranked = best_hypotheses(members, request, searches)
        for row, prediction in zip(rows, _predictions(first, values, members, ranked), strict=True):
            predictions[numbers[row]] = prediction
    return predictions


def _searches(
    bundles: Sequence[Bundle], options: SearchOptions | Sequence[SearchOptions] | None
) -> list[SearchOptions]:
    """The search of every bundle, which it must be able to do; none for models without a search."""
    if options is None:
        return [b.recipe.search for b in bundles if b.recipe.search is not None]
    several = isinstance(options, Sequence) and not isinstance(options, str)
    given: list[Any] = list(options) if several else [options] * len(bundles)
    if wrong := [own for own in given if not isinstance(own, Options)]:
        kinds = "Beam(size=4), Greedy() or Sample(seed=1) of windlass.decoding.options"
        raise TypeError(f"search is {short(wrong[0])}: give {kinds}")
    for n, (bundle, own) in enumerate(zip(bundles, given, strict=True), 1):
        try:
            bundle.model.head.check_search(own)
        except RecipeError as error:
            raise RecipeError(f"model {n} of the ensemble: {error}" if len(bundles) > 1 else str(error)) from None
    return given


def _with_features(bundles: Sequence[Bundle], texts: Sequence[Value]) -> tuple[list[Bundle], dict[Value, str]]:
    """The bundles with the features of some inputs at hand, and why some inputs cannot be read."""
    found, failed = [], dict[Value, str]()
    for bundle in bundles:
        source, why = bundle.sides.source.loaded([bundle.sides.read(text) for text in texts])
        found.append(replace(bundle, sides=replace(bundle.sides, source=source)))
        failed |= why
    return found, failed


def score(bundle: Bundle, pairs: Sequence[tuple[Value, str]], refuse: bool = False) -> list[Prediction]:
    """Score given targets by forced decoding, with the attention.

    A target that does not fit into the frames of its input, by CTC, has a score of -inf, or is refused.

    >>> from windlass.data import Sides
    >>> from windlass.recipe import Recipe
    >>> score(Bundle.new(Recipe(), Sides.tiny()), [("cab", "abc")])[0].text
    'abc'
    """
    if bundle.task.language_model:
        return score_texts(bundle, [target for _, target in pairs])
    sides = bundle.sides
    inputs = [sides.read(source) for source, _ in pairs]
    encoded = [sides.encode(value, target) for value, (_, target) in zip(inputs, pairs, strict=True)]
    predictions = [Prediction("", sides.target.no_answer)] * len(pairs)
    bundle.model.eval()
    for batch in sides.loader(encoded, BATCH_TOKENS).epoch(0):
        rows, moved = batch.keys.tolist(), batch.to(bundle.device)
        with torch.no_grad():
            member = Member(bundle.model.head, bundle.model.encode(moved), moved)
            head = bundle.model.head
            hypotheses = head.force(member.memory, moved) if refuse else _forced(head, member.memory, moved)
        made = _predictions(bundle, [inputs[row] for row in rows], [member], [[h] for h in hypotheses])
        for row, prediction in zip(rows, made, strict=True):
            predictions[row] = prediction
    return predictions


def _forced(head: Head, memory: Memory, batch: Batch) -> list[Hypothesis]:
    """The targets of a batch; those that the head cannot write have no probability and no attention."""
    too_long = head.too_long(batch, memory.mask.sum(1))
    if not head.limits_targets or not bool(too_long.any()):
        return head.force(memory, batch)
    fits = (~too_long).nonzero().squeeze(1)
    forced = iter(head.force(memory.select(fits), batch.select(fits)) if len(fits) else [])
    target = gold(batch)
    ids = [tuple(own[mask & (own != EOS)].tolist()) for own, mask in zip(target.values, target.mask, strict=True)]
    none = (Hypothesis(own, -math.inf, (), total=-math.inf) for own in ids)
    return [nothing if cut else next(forced) for cut, nothing in zip(too_long.tolist(), none, strict=True)]


def _predictions(
    bundle: Bundle, values: Sequence[Value], members: Sequence[Member], ranked: Sequence[Sequence[Hypothesis]]
) -> list[Prediction]:
    """A prediction for every row: its best hypothesis, with the others as alternatives."""
    sides, memory = bundle.sides, members[0].memory
    lowest = memory.parts.get("words", memory)  # the places that a decoder attends to
    mask, words = lowest.mask.cpu(), _word_attention(members)
    predictions = []
    for row, (value, hypotheses) in enumerate(zip(values, ranked, strict=True)):
        read = sides.source.places(value).grouped(bundle.model.encoder.joined)
        within: tuple[tuple[float, ...], ...] = ()
        if words is not None:
            within = tuple(tuple(words[row, n, : len(part.names)].tolist()) for n, part in enumerate(read.within))
        base = Prediction(
            text="",
            answer=sides.target.no_answer,
            places=read if lowest is memory else read.lowest,
            word_attention=within if lowest is memory else (),
            unknown=sides.source.unknown(value),
        )
        best, *others = (_with_answer(base, sides, value, hypothesis, mask[row]) for hypothesis in hypotheses)
        predictions.append(replace(best, alternatives=tuple(others)))
    return predictions


def _with_answer(base: Prediction, sides: Sides, value: Value, hypothesis: Hypothesis, mask: Tensor) -> Prediction:
    """The prediction with the answer of one hypothesis."""
    if math.isnan(hypothesis.score):
        raise NotFiniteError
    text, answer = sides.answer(hypothesis, value)
    attention = None
    if hypothesis.weights is not None:
        # In an ensemble they may come from another member, whose places differ.
        weights, second = hypothesis.weights.cpu(), base.places.parts.get("second")
        weights = weights[:, mask] if weights.size(1) == mask.numel() else weights[:, : len(base.places.names)]
        rows = weights.size(0) if second is None else len(second.names)
        attention = tuple(map(tuple, weights[:rows].tolist()))
    return replace(
        base,
        text=text,
        answer=answer,
        score=hypothesis.score,
        confidence=hypothesis.confidence,
        attention=attention,
        finished=hypothesis.finished,
    )


def _word_attention(members: Sequence[Member]) -> Tensor | None:
    """The weight of every word within its sentence (B, P, S), if words are pooled by attention."""
    known = [m.memory.parts["word_attention"].states for m in members if "word_attention" in m.memory.parts]
    return ensemble_mean(known) if known else None


def _check_copies(encoded: Sequence[Sequence[Encoded]]) -> None:
    """Refuse an ensemble whose members disagree on what a copied id stands for."""
    for others in encoded[1:]:
        for one, other in zip(encoded[0], others, strict=True):
            if not np.array_equal(one.source.get("copy", ()), other.source.get("copy", ())):
                raise DataError(
                    "an ensemble needs bundles that copy alike: all of them or none, with the same source tokens"
                )
