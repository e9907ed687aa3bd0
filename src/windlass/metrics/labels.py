"""Figures of labels: F1 a label, and which label is taken for which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean


def macro_f1(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """F1 of every label that is right or given somewhere, and of these the mean, in percent.

    Of several right answers the first counts, unless the prediction is another of them.

    >>> macro_f1(["a", "a", "b"], [["a"], ["b"], ["b"]])
    {'macro_f1': 66.66666666666666}
    """
    return {"macro_f1": 100 * fmean(f1(predictions, references).values())}


def f1(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """F1 of every label, from 0 to 1.

    >>> f1(["a", "a", "b"], [["a"], ["b"], ["c"]])
    {'a': 0.6666666666666666, 'b': 0.0, 'c': 0.0}
    """
    counts = confusion(predictions, references)
    right = Counter({a: n for (a, b), n in counts.items() if a == b})
    gold: Counter[str] = Counter()
    given: Counter[str] = Counter()
    for (a, b), n in counts.items():
        gold[a] += n
        given[b] += n
    return {label: 2 * right[label] / (gold[label] + given[label]) for label in sorted(gold | given)}


def confusion(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> Counter[tuple[str, str]]:
    """How often a right label was taken for which.

    >>> confusion(["a", "a", "b"], [["a"], ["b"], ["b"]])
    Counter({('a', 'a'): 1, ('b', 'a'): 1, ('b', 'b'): 1})
    """
    return Counter((p if p in right else right[0], p) for p, right in zip(predictions, references, strict=True))
