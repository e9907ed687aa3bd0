"""Metrics: functions over (predictions, references) that give figures by name, in percent as papers do.

`METRICS` is the table of contents for text; alignments have their own function in `metrics/alignment.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from windlass.core.errors import RecipeError, nearest
from windlass.metrics import edit, label_sets, labels, numbers, rouge, spans, text, trees, variety
from windlass.metrics.likelihood import LIKELIHOODS

MetricFunction = Callable[[Sequence[str], Sequence[Sequence[str]]], dict[str, float]]


@dataclass(frozen=True)
class Metric:
    """A figure by name: what it is, which way is up, and the function that gives it (maybe among others).

    >>> METRICS["per"].about
    'phone error rate: edits in percent of the phones of the nearest right answer'
    """

    name: str
    about: str
    higher_is_better: bool
    function: MetricFunction


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("accuracy", "outputs that are one of the right answers", True, edit.accuracy),
        Metric("wer", "word error rate: outputs that are none of the right answers", False, edit.word_error_rate),
        Metric(
            "per",
            "phone error rate: edits in percent of the phones of the nearest right answer",
            False,
            edit.phone_error_rate,
        ),
        Metric(
            "cer",
            "character error rate: edits in percent of the characters of the nearest right answer",
            False,
            edit.character_error_rate,
        ),
        Metric("bleu", "sacreBLEU, cased", True, text.bleu),
        Metric("bleu_lc", "sacreBLEU, lowercased", True, text.bleu),
        Metric("chrf", "chrF2", True, text.chrf),
        Metric("rouge_1", "ROUGE-1: F1 of words, lowercased, not stemmed", True, rouge.rouge),
        Metric("rouge_2", "ROUGE-2: F1 of pairs of words", True, rouge.rouge),
        Metric("rouge_l", "ROUGE-L: F1 of the longest common subsequence of words", True, rouge.rouge),
        Metric("distinct_1", "different words in percent of all", True, variety.distinct),
        Metric("distinct_2", "different pairs of words in percent of all", True, variety.distinct),
        Metric("macro_f1", "F1 of every label, and of these the mean", True, labels.macro_f1),
        Metric("micro_f1", "sets of labels: F1 of all assignments together", True, label_sets.set_f1),
        Metric("label_macro_f1", "sets of labels: F1 of every label, and of these the mean", True, label_sets.set_f1),
        Metric("exact_match", "sets of labels that are exactly right", True, label_sets.exact_match),
        Metric("pearson", "Pearson's correlation of numbers, from -1 to 1", True, numbers.pearson),
        Metric("spearman", "Spearman's rank correlation of numbers, from -1 to 1", True, numbers.spearman),
        Metric("mse", "mean squared error of numbers", False, numbers.mean_squared_error),
        Metric("tag_accuracy", "tags that are right", True, spans.tag_accuracy),
        Metric("span_f1", "F1 of whole spans with their labels, as conlleval counts them", True, spans.span_f1),
        Metric("span_precision", "found spans that are right", True, spans.span_f1),
        Metric("span_recall", "spans that are found", True, spans.span_f1),
        Metric(
            "bracket_f1", "F1 of the constituents of trees with their labels, as evalb counts", True, trees.bracket_f1
        ),
        Metric("bracket_precision", "found constituents that are right", True, trees.bracket_f1),
        Metric("bracket_recall", "constituents that are found", True, trees.bracket_f1),
        Metric("well_formed", "outputs that are a tree of the sentence's words", True, trees.bracket_f1),
    )
}
"""Every metric of text by its name."""


def find(name: str) -> Metric:
    """Return a metric by its name.

    >>> find("weer")
    Traceback (most recent call last):
        ...
    windlass.core.errors.RecipeError: unknown metric 'weer': did you mean 'wer'?
    """
    if name not in METRICS:
        raise RecipeError(f"unknown metric {name!r}: {nearest(name, METRICS)}")
    return METRICS[name]


def higher_is_better(name: str) -> bool:
    """Say which way a metric is up; alignment error rate is one too, and so is how likely a text is.

    >>> higher_is_better("wer"), higher_is_better("bleu"), higher_is_better("aer")
    (False, True, False)
    """
    return name != "aer" and name not in LIKELIHOODS and find(name).higher_is_better


def score(names: Iterable[str], predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return the named figures, in the order asked for.

    >>> score(["wer", "per"], ["k a t"], [["k a t", "k æ t"]])
    {'wer': 0.0, 'per': 0.0}
    """
    wanted = [find(name) for name in names]
    figures: dict[str, float] = {}
    for metric in wanted:
        if metric.name not in figures:
            figures |= metric.function(predictions, references)
    return {metric.name: figures[metric.name] for metric in wanted}


__all__ = ["METRICS", "Metric", "MetricFunction", "find", "higher_is_better", "score"]
