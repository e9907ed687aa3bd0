"""Tagging metrics: accuracy per tag, and F1 of spans as in the CoNLL shared tasks."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.errors import DataError
from windlass.data.schemes import spans
from windlass.metrics.labels import macro_f1


def tag_pairs(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> list[tuple[list[str], list[str]]]:
    """Return the predicted and the gold tags of every sentence.

    >>> tag_pairs(["DET NOUN"], [["DET VERB"]])
    [(['DET', 'NOUN'], ['DET', 'VERB'])]
    """
    sentences = [(p.split(), r[0].split()) for p, r in zip(predictions, references, strict=True)]
    for number, (predicted, gold) in enumerate(sentences, 1):
        if len(predicted) != len(gold):
            raise DataError(f"sentence {number}: {len(predicted)} predicted tags, but {len(gold)} gold tags")
    return sentences


def tag_accuracy(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return the percentage of correct tags.

    >>> tag_accuracy(["DET NOUN", "VERB"], [["DET VERB"], ["VERB"]])
    {'tag_accuracy': 66.66666666666667}
    """
    sentences = tag_pairs(predictions, references)
    pairs = [pair for predicted, gold in sentences for pair in zip(predicted, gold, strict=True)]
    return {"tag_accuracy": 100 * sum(a == b for a, b in pairs) / max(1, len(pairs))}


def tag_macro_f1(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return the mean F1 of all tags that occur, in percent.

    >>> tag_macro_f1(["a a", "b"], [["a b"], ["b"]])
    {'tag_macro_f1': 66.66666666666666}
    """
    sentences = tag_pairs(predictions, references)
    predicted = [tag for tags, _ in sentences for tag in tags]
    scores = macro_f1(predicted, [[tag] for _, tags in sentences for tag in tags]) if predicted else {"macro_f1": 0.0}
    return {"tag_macro_f1": scores["macro_f1"]}


def span_f1(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return precision, recall and F1 of spans (boundaries and label) in percent.

    Ill-formed tags are read as conlleval does: an I-x without a preceding tag of x starts a span.

    >>> span_f1(["B-x I-x O B-y"], [["B-x I-x O B-x"]])
    {'span_f1': 50.0, 'span_precision': 50.0, 'span_recall': 50.0}
    """
    correct = predicted = gold = 0
    for predicted_tags, gold_tags in tag_pairs(predictions, references):
        a, b = set(spans(predicted_tags)), set(spans(gold_tags))
        correct, predicted, gold = correct + len(a & b), predicted + len(a), gold + len(b)
    return {
        "span_f1": 200 * correct / max(1, predicted + gold),
        "span_precision": 100 * correct / max(1, predicted),
        "span_recall": 100 * correct / max(1, gold),
    }
