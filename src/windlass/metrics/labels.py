"""Classification metrics: F1 per label, macro F1, and the confusion matrix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean


def macro_f1(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return the mean F1 of all labels that occur in predictions or references, in percent.

    With several references, the first counts, unless the prediction is another one of them.

    >>> macro_f1(["a", "a", "b"], [["a"], ["b"], ["b"]])
    {'macro_f1': 66.66666666666666}
    """
    return {"macro_f1": 100 * fmean(f1(predictions, references).values())}


def f1(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return the F1 of every label, from 0 to 1.

    >>> f1(["a", "a", "b"], [["a"], ["b"], ["c"]])
    {'a': 0.6666666666666666, 'b': 0.0, 'c': 0.0}
    """
    counts = confusion(predictions, references)
    correct = Counter({a: n for (a, b), n in counts.items() if a == b})
    gold: Counter[str] = Counter()
    predicted: Counter[str] = Counter()
    for (a, b), n in counts.items():
        gold[a] += n
        predicted[b] += n
    return {label: 2 * correct[label] / (gold[label] + predicted[label]) for label in sorted(gold | predicted)}


def confusion(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> Counter[tuple[str, str]]:
    """Return the confusion matrix: counts of (gold label, predicted label).

    >>> confusion(["a", "a", "b"], [["a"], ["b"], ["b"]])
    Counter({('a', 'a'): 1, ('b', 'a'): 1, ('b', 'b'): 1})
    """
    return Counter((p if p in gold else gold[0], p) for p, gold in zip(predictions, references, strict=True))
