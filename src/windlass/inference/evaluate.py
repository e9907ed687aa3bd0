"""Evaluation: metrics of predictions, of the likelihood of references, and of alignments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from windlass.bundle import Bundle
from windlass.core.errors import DataError, RecipeError
from windlass.core.records import Prediction
from windlass.data.examples import Example, group
from windlass.data.unknown import UnknownLabels, unknown_labels
from windlass.decoding.options import SearchOptions
from windlass.inference.likelihood import ROWS, text_metrics
from windlass.inference.mistakes import Mistake, find_mistakes
from windlass.inference.predict import predict, score
from windlass.metrics.alignment import align, alignment_error_rate, diagonal
from windlass.metrics.likelihood import likelihood


@dataclass(frozen=True)
class Evaluation:
    """The metrics of a model on a data set, and its predictions, which are too long to be shown.

    >>> Evaluation({"wer": 18.5}, examples=450, predictions=())
    Evaluation(metrics={'wer': 18.5}, examples=450)
    """

    metrics: dict[str, float]
    examples: int
    predictions: tuple[Prediction, ...] = field(repr=False)
    unknown: UnknownLabels | None = field(default=None, repr=False)  # references that the model cannot give
    mistakes: tuple[Mistake, ...] = field(default=(), repr=False)  # outputs that match no reference, the surest first


def evaluate(
    bundles: Sequence[Bundle],
    examples: Sequence[Example],
    options: SearchOptions | Sequence[SearchOptions] | None = None,
    rows: int = ROWS,
    dynamic: float | None = None,
) -> Evaluation:
    """Predict and compare with the references; rows with the same source are one example if the task allows several.

    A language model is scored on the texts instead, running text split into `rows`, or in one, with `dynamic` as the
    rate of dynamic evaluation.

    >>> from windlass.data import Sides
    >>> from windlass.data.examples import Place
    >>> from windlass.recipe import Recipe
    >>> bundle = Bundle.new(Recipe(), Sides.tiny())
    >>> sorted(evaluate([bundle], [Example("ab", ("ba",), None, Place("pairs.tsv", 1))]).metrics)
    ['accuracy', 'cer', 'chrf']
    """
    task = bundles[0].task
    if task.language_model and examples:
        if options is not None:
            raise RecipeError("search options have no use: a language model is evaluated by likelihood; leave them out")
        return Evaluation(text_metrics(bundles, [e.target for e in examples], rows, dynamic), len(examples), ())
    if dynamic is not None:
        raise RecipeError("dynamic evaluation is for language models of running text: leave it out")
    questions = bundles[0].sides.respell(group(examples) if task.multi_reference else list(examples))
    if not questions:
        raise DataError("no examples to evaluate on")
    predictions = predict(bundles, [e.source for e in questions], options)
    if (bad := next((p.error for p in predictions if p.error), None)) is not None:
        raise DataError(bad)
    metrics = task.score([p.text for p in predictions], [e.targets for e in questions])
    if task.likelihood_metrics:
        forced = _forced_metrics(bundles, questions)
        metrics = {name: forced[name] for name in task.likelihood_metrics} | metrics
    unknown = unknown_labels(bundles[0].sides.target, (e.target for e in questions))
    mistakes = find_mistakes(task.target, questions, predictions)
    return Evaluation(metrics, len(questions), tuple(predictions), unknown, mistakes)


def _forced_metrics(bundles: Sequence[Bundle], examples: Sequence[Example]) -> dict[str, float]:
    """Return nats and perplexity per token of the references under forced decoding, end mark included.

    A word that is neither in the vocabulary nor copied is scored as the unknown mark.
    """
    pairs = [(e.source, e.target) for e in examples]
    each = [score(bundle, pairs, refuse=True) for bundle in bundles]
    logprob, tokens = 0.0, 0
    for forced in zip(*each, strict=True):
        for probabilities in zip(*(prediction.answer.probabilities for prediction in forced), strict=True):
            logprob += math.log(max(sum(probabilities) / len(probabilities), 1e-300))
            tokens += 1
    return likelihood(logprob, tokens, None)


def alignment_metrics(bundle: Bundle, examples: Sequence[Example]) -> tuple[dict[str, float], dict[str, float]]:
    """Return the alignment error rate of the attention under forced decoding, and that of the diagonal.

    Only examples with gold links count. Every target token is linked to the source token it attends to most when it
    is written, or after it has been read (`links: reading`); end marks are left out.

    >>> from windlass.data import Sides
    >>> from windlass.data.examples import Place
    >>> from windlass.recipe import Recipe
    >>> bundle = Bundle.new(Recipe(), Sides.tiny())
    >>> one = Example("ab", ("ab",), ((0, 0), (1, 1)), Place("pairs.tsv", 1))
    >>> alignment_metrics(bundle, [one])[1]["aer"]
    0.0
    """
    decoder = bundle.recipe.model.decoder
    late = decoder is not None and decoder.aligns_late
    linked = [e for e in examples if e.alignment]
    forced = score(bundle, [(e.source, e.target) for e in linked], refuse=True)
    predicted, diagonals, gold = [], [], []
    for example, prediction in zip(linked, forced, strict=True):
        if prediction.attention is None:
            raise DataError("alignments need a decoder with attention: set model.decoder.context: attention")
        tokens, sources = len(prediction.answer.tokens), len(prediction.places.names) - 1  # without the end mark
        predicted.append(align([row[:sources] for row in prediction.attention[late : late + tokens]]))
        diagonals.append(diagonal(sources, tokens))
        gold.append(set(example.alignment or ()))
    return alignment_error_rate(predicted, gold), alignment_error_rate(diagonals, gold)
