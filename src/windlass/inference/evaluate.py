"""From predictions, or the likelihood of the right answers, to figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from windlass.bundle import Bundle
from windlass.core.errors import DataError, RecipeError
from windlass.core.records import Prediction
from windlass.data.examples import Example, group
from windlass.decoding.options import SearchOptions
from windlass.inference.language import ROWS, text_metrics
from windlass.inference.predict import predict, score
from windlass.metrics.alignment import align, alignment_error_rate, diagonal
from windlass.metrics.likelihood import likelihood


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
    if task.language_model and examples:
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
        for chances in zip(*(prediction.answer.probabilities for prediction in forced), strict=True):
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
        tokens, sources = len(prediction.answer.tokens), len(prediction.places.names) - 1  # without the end mark
        found.append(align([row[:sources] for row in prediction.attention[late : late + tokens]]))
        diagonals.append(diagonal(sources, tokens))
        gold.append(set(example.alignment or ()))
    return alignment_error_rate(found, gold), alignment_error_rate(diagonals, gold)
