"""Classification metrics: F1 and the confusion matrix of labels; F1 of sets of labels, written with commas between."""

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


def set_f1(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """F1 of all assignments of a label together (micro), and the mean of every label's F1 (macro), in percent.

    A label counts in the macro mean where it was assigned or predicted at all.

    >>> set_f1(["a,b", "a"], [["a"], ["a"]])
    {'micro_f1': 80.0, 'label_macro_f1': 50.0}
    """
    right, found, gold = Counter[str](), Counter[str](), Counter[str]()
    for text, texts in zip(predictions, references, strict=True):
        ours, theirs = label_set(text), label_set(texts[0])
        right.update(ours & theirs)
        found.update(ours)
        gold.update(theirs)
    every = sorted(found.keys() | gold.keys())
    micro = _f1(right.total(), found.total(), gold.total())
    macro = sum(_f1(right[label], found[label], gold[label]) for label in every) / max(1, len(every))
    return {"micro_f1": 100 * micro, "label_macro_f1": 100 * macro}


def exact_match(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Examples whose set of labels is exactly right, in percent.

    >>> exact_match(["b, a", "a"], [["a,b"], ["b"]])
    {'exact_match': 50.0}
    """
    right = [label_set(text) == label_set(texts[0]) for text, texts in zip(predictions, references, strict=True)]
    return {"exact_match": 100 * sum(right) / max(1, len(right))}


def label_set(text: str) -> frozenset[str]:
    """Return the labels of a text, which commas separate.

    >>> sorted(label_set("b, a,,"))
    ['a', 'b']
    """
    return frozenset(label for part in text.split(",") if (label := part.strip()))


def _f1(right: int, found: int, gold: int) -> float:
    return 2 * right / (found + gold) if found + gold else 1.0
