"""From a bundle and texts to predictions, and from predictions to figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from windlass.bundle import Bundle
from windlass.core.errors import DataError, RecipeError
from windlass.core.records import Hypothesis, Memory, Prediction, TextAnswer
from windlass.data.encoded import Encoded
from windlass.data.examples import Example, Value, group
from windlass.decoding.constraint import Constraint, WellFormed
from windlass.decoding.options import SearchOptions
from windlass.decoding.search import force, search
from windlass.inference.labelling import choose, judge
from windlass.inference.language import ROWS, score_texts, text_metrics
from windlass.metrics.alignment import align, alignment_error_rate, diagonal
from windlass.metrics.likelihood import likelihood

BATCH_TOKENS = 4000
"""Rows x the longest of them, in forced decoding."""
NO_PREDICTION = Prediction(text="", tokens=(), score=0.0, confidence=1.0)
"""What a blank input gives."""


def predict(
    bundles: Sequence[Bundle],
    texts: Sequence[Value],
    options: SearchOptions | None = None,
    nbest: int = 1,
    batch_tokens: int | None = None,
    first_key: int = 0,
) -> list[Prediction]:
    """Predict for every text, in order; a blank text gives a blank prediction. Several bundles are an ensemble.

    `first_key` numbers the first text: where texts come in portions, samples are the same as if they came at once.

    >>> from windlass.data import Sides
    >>> from windlass.recipe import Recipe
    >>> bundle = Bundle.new(Recipe(), Sides.tiny())
    >>> [p.text == "" for p in predict([bundle], ["", "cab"])][0]
    True
    """
    first = bundles[0]
    if first.task.reads_nothing:
        raise RecipeError("a language model has nothing to predict from: let it generate, or score a text")
    if any(b.sides.target != first.sides.target for b in bundles[1:]):
        raise DataError("an ensemble needs bundles with the same target vocabulary: train them on the same data")
    values = [first.sides.read(text) for text in texts]
    places = [n for n, value in enumerate(values) if not first.sides.source.blank(value)]
    encoded = [[b.sides.encode(b.sides.read(texts[n])) for n in places] for b in bundles]
    _copy_alike(encoded)
    predictions = [NO_PREDICTION] * len(texts)
    for b in bundles:
        b.model.eval()
    if options is not None and not first.sides.target.written:
        raise RecipeError("a search has no use where nothing is written: leave its options out")
    options = options or first.recipe.search
    if nbest > 1 and options is not None and options.kind == "greedy":
        raise RecipeError(f"greedy search finds one output, not {nbest}: search by beam or sample for an n-best list")
    # All members see the same rows in the same batches: those that the first one's lengths make.
    plan = first.sides.loader(encoded[0], batch_tokens or _batch_tokens(options, nbest))
    for batch in plan.epoch(0):
        rows = batch.keys.tolist()
        memories = []
        with torch.inference_mode():
            for b, side in zip(bundles, encoded, strict=True):
                memories.append(b.encode(b.sides.collate([side[r] for r in rows], rows).to(b.device)))
            if options is None:
                chosen = choose(bundles, memories, [values[places[r]] for r in rows], nbest)
                for row, prediction in zip(rows, chosen, strict=True):
                    predictions[places[row]] = prediction
                continue
        keys = torch.tensor([first_key + places[r] for r in rows])
        trees = _constraint(first, [values[places[r]] for r in rows])
        found = search([b.steps for b in bundles], memories, options, nbest, keys, trees)
        real = _real(memories[0])
        for n, (row, hypotheses) in enumerate(zip(rows, found, strict=True)):
            ranked = [_prediction(first, values[places[row]], h, real[n]) for h in hypotheses]
            predictions[places[row]] = replace(ranked[0], alternatives=tuple(ranked[1:]))
    return predictions


def _copy_alike(encoded: Sequence[Sequence[Encoded]]) -> None:
    """Refuse an ensemble whose members would not mean the same by an id that is copied."""
    for others in encoded[1:]:
        for one, other in zip(encoded[0], others, strict=True):
            if not np.array_equal(one.source.get("copy", ()), other.source.get("copy", ())):
                raise DataError(
                    "an ensemble needs bundles that copy alike: all of them or none, with sources cut in the same way"
                )


def _batch_tokens(options: SearchOptions | None, nbest: int) -> int:
    """How much to search at once: as many hypotheses as pay, and no more than a cache holds the outputs of."""
    if options is None:
        return BATCH_TOKENS
    width = max(options.size, nbest) if options.kind == "beam" else 1
    return max(200, 4000 // max(width, 2))


def _constraint(bundle: Bundle, values: Sequence[Value]) -> Constraint | None:
    """What keeps outputs well-formed, where there is such a thing."""
    brackets = bundle.sides.target.brackets(bundle.sides.source, values)
    return None if brackets is None else WellFormed(*brackets, bundle.device)


def _real(memory: Memory) -> Tensor:
    """Which of the places that a decoder attends to are real: (B, S), or of sentences and their words (B, P * S)."""
    return (memory.mask if memory.lower is None else memory.lower.mask).cpu()


def _prediction(bundle: Bundle, value: Value, hypothesis: Hypothesis, real: Tensor) -> Prediction:
    decoder, places = bundle.recipe.model.decoder, bundle.sides.source.places(value)
    by_word = decoder is not None and decoder.context.kind == "hierarchical"
    pieces = (places.lowest if by_word else places).names
    text, answer = bundle.sides.answer(hypothesis, value)
    assert isinstance(answer, TextAnswer)
    # Of an output that the length limit cut off, the confidence is that of any output which begins so.
    weights = hypothesis.weights
    attention = None
    if weights is not None:  # of an ensemble, they may be those of another member, with places of its own
        seen = weights.cpu()[:, real] if weights.size(1) == real.numel() else weights[:, : len(pieces)]
        attention = tuple(map(tuple, seen.tolist()))
    return Prediction(
        text=text,
        tokens=answer.tokens,
        score=hypothesis.score,
        confidence=math.exp(sum(hypothesis.logprobs)),
        probabilities=answer.probabilities,
        source_tokens=pieces,
        attention=attention,
        unknown=bundle.sides.source.unknown(value),
        finished=answer.finished,
    )


def score(bundle: Bundle, pairs: Sequence[tuple[Value, str]]) -> list[Prediction]:
    """Score given targets: for texts forced decoding, with the attention on the way.

    >>> from windlass.data import Sides
    >>> from windlass.recipe import Recipe
    >>> score(Bundle.new(Recipe(), Sides.tiny()), [("cab", "abc")])[0].text
    'abc'
    """
    if bundle.task.reads_nothing:
        return score_texts(bundle, [target for _, target in pairs])
    sides = bundle.sides
    values = [sides.read(source) for source, _ in pairs]
    encoded = [sides.encode(value, target) for value, (_, target) in zip(values, pairs, strict=True)]
    found: list[Prediction] = [NO_PREDICTION] * len(pairs)
    bundle.model.eval()
    for batch in sides.loader(encoded, BATCH_TOKENS).epoch(0):
        moved = batch.to(bundle.device)
        assert moved.target is not None
        with torch.no_grad():
            memory = bundle.model.encode(moved)
            if not sides.target.written:
                judged = judge(bundle, memory, moved.target, [values[key] for key in batch.keys.tolist()])
                for key, prediction in zip(batch.keys.tolist(), judged, strict=True):
                    found[key] = prediction
                continue
            hypotheses = force(bundle.model.writer, memory, moved.target)
        real = _real(memory)
        for n, (key, hypothesis) in enumerate(zip(batch.keys.tolist(), hypotheses, strict=True)):
            found[key] = _prediction(bundle, values[key], hypothesis, real[n])
    return found


@dataclass(frozen=True)
class Evaluation:
    """Figures as papers print them.

    >>> Evaluation({"wer": 18.5}, examples=450, predictions=()).metrics["wer"]
    18.5
    """

    metrics: dict[str, float]
    examples: int
    predictions: tuple[Prediction, ...]


def evaluate(
    bundles: Sequence[Bundle],
    examples: Sequence[Example],
    options: SearchOptions | None = None,
    rows: int = ROWS,
) -> Evaluation:
    """Predict and compare with the right answers. Where a task allows several, rows of a source are one question.

    A language model predicts nothing: texts are scored, running text in so many `rows` side by side.

    >>> from windlass.data import Sides
    >>> from windlass.data.examples import Place
    >>> from windlass.recipe import Recipe
    >>> bundle = Bundle.new(Recipe(), Sides.tiny())
    >>> sorted(evaluate([bundle], [Example("ab", ("ba",), None, Place("pairs.tsv", 1))]).metrics)
    ['accuracy', 'cer', 'chrf']
    """
    task = bundles[0].task
    if task.reads_nothing and examples:
        if options is not None:
            raise RecipeError("a search has no use where texts are scored: leave its options out")
        return Evaluation(text_metrics(bundles, [e.target for e in examples], rows), len(examples), ())
    asked = group(examples) if task.several_answers else list(examples)
    if not asked:
        raise DataError("nothing to evaluate: there are no examples")
    predictions = predict(bundles, [e.source for e in asked], options)
    metrics = task.measure([p.text for p in predictions], [e.targets for e in asked])
    if task.forced:
        how = likelihoods(bundles, asked)
        metrics = {name: how[name] for name in task.forced} | metrics
    return Evaluation(metrics, len(asked), tuple(predictions))


def likelihoods(bundles: Sequence[Bundle], examples: Sequence[Example]) -> dict[str, float]:
    """How likely the right answers are: nats and perplexity a token, the end mark counted; several bundles as one.

    A word that is neither in the vocabulary nor copied counts as the unknown mark.

    >>> from windlass.data import Sides
    >>> from windlass.data.examples import Place
    >>> from windlass.recipe import Recipe
    >>> bundle = Bundle.new(Recipe(), Sides.tiny())
    >>> sorted(likelihoods([bundle], [Example("ab", ("ba",), None, Place("pairs.tsv", 1))]))
    ['nats', 'perplexity']
    """
    pairs = [(e.source, e.target) for e in examples]
    each = [score(bundle, pairs) for bundle in bundles]
    logprob, tokens = 0.0, 0
    for forced in zip(*each, strict=True):
        for chances in zip(*(prediction.probabilities for prediction in forced), strict=True):
            logprob += math.log(max(sum(chances) / len(chances), 1e-300))
            tokens += 1
    return likelihood(logprob, tokens, None)


def alignment_figures(bundle: Bundle, examples: Sequence[Example]) -> tuple[dict[str, float], dict[str, float]]:
    """Alignment error rate of the attention under forced decoding, and of the diagonal, on examples that have links.

    Every target token is linked to the source token it attends to most when it is written, or when it has been read
    (`links: reading`); the end marks are left out.

    >>> from windlass.data import Sides
    >>> from windlass.data.examples import Place
    >>> from windlass.recipe import Recipe
    >>> bundle = Bundle.new(Recipe(), Sides.tiny())
    >>> one = Example("ab", ("ab",), ((0, 0), (1, 1)), Place("pairs.tsv", 1))
    >>> alignment_figures(bundle, [one])[1]["aer"]
    0.0
    """
    decoder = bundle.recipe.model.decoder
    late = decoder is not None and decoder.context.kind == "attention" and decoder.context.links == "reading"
    known = [e for e in examples if e.alignment]
    forced = score(bundle, [(e.source, e.target) for e in known])
    found, diagonals, gold = [], [], []
    for example, prediction in zip(known, forced, strict=True):
        if prediction.attention is None:
            raise DataError("alignments need a model with attention")
        words = prediction.attention[late : late + len(prediction.tokens)]
        rows = [row[: len(prediction.source_tokens) - 1] for row in words]
        found.append(align(rows))
        diagonals.append(diagonal(len(prediction.source_tokens) - 1, len(prediction.tokens)))
        gold.append(set(example.alignment or ()))
    return alignment_error_rate(found, gold), alignment_error_rate(diagonals, gold)
