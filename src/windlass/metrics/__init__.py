"""Metrics: functions of predictions and references that return scores by name, in percent as in papers.

`METRICS` lists those of text, labels, tags and trees; `metrics/alignment.py` has the alignment error rate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from windlass.core.errors import RecipeError, nearest
from windlass.metrics import captions, edit, labels, numbers, rouge, spans, text, trees
from windlass.metrics.likelihood import LIKELIHOODS

MetricFunction = Callable[[Sequence[str], Sequence[Sequence[str]]], dict[str, float]]


@dataclass(frozen=True)
class Metric:
    """A metric: its name, description, direction, and the function that computes it (maybe with others).

    >>> METRICS["per"].about
    'phone error rate: edits in percent of the phones of the closest reference'
    """

    name: str
    about: str
    higher_is_better: bool
    function: MetricFunction


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("accuracy", "outputs that match a reference", True, edit.accuracy),
        Metric("wer", "word error rate of single words: outputs that match no reference", False, edit.wrong_words),
        Metric(
            "per",
            "phone error rate: edits in percent of the phones of the closest reference",
            False,
            edit.phone_error_rate,
        ),
        Metric(
            "word_error_rate",
            "word error rate of sentences: edits in percent of the words of the closest reference",
            False,
            edit.word_error_rate,
        ),
        Metric(
            "cer",
            "character error rate: edits in percent of the characters of the closest reference",
            False,
            edit.character_error_rate,
        ),
        Metric("bleu", "sacreBLEU, cased", True, text.bleu),
        Metric("bleu_lc", "sacreBLEU, lowercased", True, text.bleu),
        Metric("chrf", "chrF2", True, text.chrf),
        Metric("bleu_1", "captions: BLEU of unigrams, lowercased, no punctuation", True, captions.caption_bleu),
        Metric("bleu_2", "captions: BLEU up to bigrams", True, captions.caption_bleu),
        Metric("bleu_3", "captions: BLEU up to trigrams", True, captions.caption_bleu),
        Metric("bleu_4", "captions: BLEU up to 4-grams", True, captions.caption_bleu),
        Metric("cider", "captions: CIDEr-D, from 0 to 10, not stemmed", True, captions.cider),
        Metric("rouge_1", "ROUGE-1: F1 of unigrams, lowercased, not stemmed", True, rouge.rouge),
        Metric("rouge_2", "ROUGE-2: F1 of bigrams", True, rouge.rouge),
        Metric("rouge_l", "ROUGE-L: F1 of the longest common subsequence of words", True, rouge.rouge),
        Metric("distinct_1", "distinct unigrams in percent of all", True, text.distinct),
        Metric("distinct_2", "distinct bigrams in percent of all", True, text.distinct),
        Metric("macro_f1", "mean of the F1 of every label", True, labels.macro_f1),
        Metric("micro_f1", "sets of labels: F1 over all assignments (micro average)", True, labels.set_f1),
        Metric("label_macro_f1", "sets of labels: mean of the F1 of every label", True, labels.set_f1),
        Metric("exact_match", "sets of labels that match exactly", True, labels.exact_match),
        Metric("pearson", "Pearson correlation, from -1 to 1", True, numbers.pearson),
        Metric("spearman", "Spearman rank correlation, from -1 to 1", True, numbers.spearman),
        Metric("mse", "mean squared error", False, numbers.mean_squared_error),
        Metric("tag_accuracy", "correct tags", True, spans.tag_accuracy),
        Metric("tag_macro_f1", "mean of the F1 of every tag", True, spans.tag_macro_f1),
        Metric("span_f1", "F1 of labelled spans, as conlleval counts them", True, spans.span_f1),
        Metric("span_precision", "predicted spans that are correct", True, spans.span_f1),
        Metric("span_recall", "gold spans that are predicted", True, spans.span_f1),
        Metric("bracket_f1", "F1 of labelled constituents, as evalb counts them", True, trees.bracket_f1),
        Metric("bracket_precision", "predicted constituents that are correct", True, trees.bracket_f1),
        Metric("bracket_recall", "gold constituents that are predicted", True, trees.bracket_f1),
        Metric("well_formed", "outputs that are a tree over the words of the sentence", True, trees.bracket_f1),
    )
}
"""Every metric by name, except alignment error rate and likelihoods."""


def get_metric(name: str) -> Metric:
    """Return a metric by name.

    >>> get_metric("weer")
    Traceback (most recent call last):
    windlass.core.errors.RecipeError: unknown metric 'weer': did you mean 'wer'?
    """
    if name not in METRICS:
        raise RecipeError(f"unknown metric {name!r}: {nearest(name, METRICS)}")
    return METRICS[name]


def higher_is_better(name: str) -> bool:
    """Whether a higher score is better, for `METRICS`, alignment error rate and likelihoods.

    >>> higher_is_better("wer"), higher_is_better("bleu"), higher_is_better("aer")
    (False, True, False)
    """
    return name != "aer" and name not in LIKELIHOODS and get_metric(name).higher_is_better


def best_possible(name: str) -> float | None:
    """The score that cannot be improved on; None if there is none, as for likelihoods.

    >>> best_possible("wer"), best_possible("bleu"), best_possible("pearson")
    (0.0, 100.0, 1.0)
    """
    if name in LIKELIHOODS:
        return None
    if name in ("pearson", "spearman"):
        return 1.0
    if not higher_is_better(name):
        return 0.0
    return 10.0 if name == "cider" else 100.0


def score(names: Iterable[str], predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return the named scores, in the order of `names`.

    >>> score(["wer", "per"], ["k a t"], [["k a t", "k æ t"]])
    {'wer': 0.0, 'per': 0.0}
    """
    metrics = [get_metric(name) for name in names]
    scores: dict[str, float] = {}
    for metric in metrics:
        if metric.name not in scores:
            scores |= metric.function(predictions, references)
    return {metric.name: scores[metric.name] for metric in metrics}
