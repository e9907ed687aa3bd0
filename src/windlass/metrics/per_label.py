"""Precision, recall and F1 of every label: of labels, of sets of labels, of tags, and of the spans that tags mark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from windlass.data.schemes import marked, spans
from windlass.metrics.labels import label_set
from windlass.metrics.spans import tag_pairs

KINDS = ("label", "labels", "tags")
"""Kinds of target with labels."""

Occurrences = set[tuple[int, int, str]]
"""Where a label is: its first place, the place after it, its name."""


@dataclass(frozen=True)
class LabelScore:
    """How well one label is predicted, in percent, and how often it occurs in the references.

    >>> LabelScore(precision=50.0, recall=100.0, f1=66.7, count=3).count
    3
    """

    precision: float
    recall: float
    f1: float
    count: int


def label_scores(kind: str, predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, LabelScore]:
    """Return the scores of every label, the most frequent first; tags that mark spans are scored as spans.

    >>> label_scores("label", ["a", "a", "b"], [["a"], ["b"], ["b"]])["a"]
    LabelScore(precision=50.0, recall=100.0, f1=66.66666666666667, count=1)
    >>> label_scores("tags", ["B-x I-x O"], [["B-x I-x O"]])
    {'x': LabelScore(precision=100.0, recall=100.0, f1=100.0, count=1)}
    """
    right, found, gold = Counter[str](), Counter[str](), Counter[str]()
    for predicted, reference in _occurrences(kind, predictions, references):
        right.update(label for *_, label in predicted & reference)
        found.update(label for *_, label in predicted)
        gold.update(label for *_, label in reference)
    return {
        label: LabelScore(
            100 * right[label] / max(1, found[label]),
            100 * right[label] / max(1, gold[label]),
            200 * right[label] / (found[label] + gold[label]),
            gold[label],
        )
        for label in sorted(found | gold, key=lambda label: (-gold[label], label))
    }


def _occurrences(
    kind: str, predictions: Sequence[str], references: Sequence[Sequence[str]]
) -> Iterator[tuple[Occurrences, Occurrences]]:
    """The labels of each prediction and of its reference."""
    if kind == "tags":
        pairs = tag_pairs(predictions, references)
        as_spans = marked(tag for _, gold in pairs for tag in gold)
        for predicted, gold in pairs:
            yield (set(spans(predicted)), set(spans(gold))) if as_spans else (_each(predicted), _each(gold))
        return
    for prediction, answers in zip(predictions, references, strict=True):
        if kind == "labels":
            yield _all(label_set(prediction)), _all(label_set(answers[0]))
        else:  # with several references, any of them is right
            yield _all([prediction]), _all([prediction if prediction in answers else answers[0]])


def _all(labels: Sequence[str] | frozenset[str]) -> Occurrences:
    return {(0, 0, label) for label in labels}


def _each(tags: Sequence[str]) -> Occurrences:
    return {(place, place + 1, tag) for place, tag in enumerate(tags)}
