"""Figures of tags: single ones, and whole spans as the CoNLL shared tasks score them."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.errors import DataError
from windlass.data.schemes import spans


def _rows(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> list[tuple[list[str], list[str]]]:
    rows = [(p.split(), r[0].split()) for p, r in zip(predictions, references, strict=True)]
    for number, (found, right) in enumerate(rows, 1):
        if len(found) != len(right):
            raise DataError(f"sentence {number}: {len(found)} tags, but {len(right)} are right: the words differ")
    return rows


def tag_accuracy(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Tags that are right, in percent of all.

    >>> tag_accuracy(["DET NOUN", "VERB"], [["DET VERB"], ["VERB"]])
    {'tag_accuracy': 66.66666666666667}
    """
    pairs = [pair for found, right in _rows(predictions, references) for pair in zip(found, right, strict=True)]
    return {"tag_accuracy": 100 * sum(a == b for a, b in pairs) / max(1, len(pairs))}


def span_f1(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Precision, recall and F1 of whole spans, each with its bounds and label right, in percent.

    Ill-formed tags are read as conlleval reads them: an I-x that nothing goes before begins a span.

    >>> span_f1(["B-x I-x O B-y"], [["B-x I-x O B-x"]])
    {'span_f1': 50.0, 'span_precision': 50.0, 'span_recall': 50.0}
    """
    right = found = gold = 0
    for guessed, true in _rows(predictions, references):
        a, b = set(spans(guessed)), set(spans(true))
        right, found, gold = right + len(a & b), found + len(a), gold + len(b)
    return {
        "span_f1": 200 * right / max(1, found + gold),
        "span_precision": 100 * right / max(1, found),
        "span_recall": 100 * right / max(1, gold),
    }
