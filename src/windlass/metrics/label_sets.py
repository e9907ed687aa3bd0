"""Figures of sets of labels, each written as a text with commas between the labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

SEPARATOR = ","


def label_set(text: str) -> frozenset[str]:
    """The labels of a text.

    >>> sorted(label_set("b, a,,"))
    ['a', 'b']
    """
    return frozenset(label for part in text.split(SEPARATOR) if (label := part.strip()))


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


def _f1(right: int, found: int, gold: int) -> float:
    return 2 * right / (found + gold) if found + gold else 1.0
