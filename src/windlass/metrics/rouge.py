"""ROUGE-1, ROUGE-2 and ROUGE-L (Lin 2004).

Words are lowercased runs of letters and digits, without stemming or stop words: for English the same as the package
rouge-score with `use_stemmer=False`. A text counts as one sentence, also for ROUGE-L.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

from windlass.metrics.edit import check_references

_WORD = re.compile(r"[^\W_]+")


def _f1(matches: int, predicted: int, gold: int) -> float:
    """Return the harmonic mean of precision and recall."""
    return 2 * matches / (predicted + gold) if matches else 0.0


def _rouge_n(prediction: Sequence[str], reference: Sequence[str], n: int) -> float:
    """Return the F1 of n-grams, with clipped counts."""
    a, b = (Counter(zip(*(text[k:] for k in range(n)), strict=False)) for text in (prediction, reference))
    return _f1((a & b).total(), a.total(), b.total())


def _lcs_length(a: Sequence[str], b: Sequence[str]) -> int:
    """Return the length of the longest common subsequence, bit-parallel (Hyyrö 2004)."""
    positions: dict[str, int] = {}  # bit n is set where a[n] is the word
    for n, word in enumerate(a):
        positions[word] = positions.get(word, 0) | 1 << n
    full = free = (1 << len(a)) - 1  # a bit is cleared where the length of the match grows
    for word in b:
        here = free & positions.get(word, 0)
        free = ((free + here) | (free - here)) & full
    return len(a) - free.bit_count()


def rouge(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return the mean F1 of ROUGE-1, ROUGE-2 and ROUGE-L in percent; for each, the best reference counts.

    >>> rouge(["police kill the gunman"], [["police killed the gunman", "gunman"]])
    {'rouge_1': 75.0, 'rouge_2': 33.33..., 'rouge_l': 75.0}
    """
    check_references(predictions, references)
    metrics: dict[str, Callable[[Sequence[str], Sequence[str]], float]] = {
        "rouge_1": lambda prediction, reference: _rouge_n(prediction, reference, 1),
        "rouge_2": lambda prediction, reference: _rouge_n(prediction, reference, 2),
        "rouge_l": lambda prediction, reference: _f1(
            _lcs_length(prediction, reference), len(prediction), len(reference)
        ),
    }
    items = [
        (_WORD.findall(prediction.lower()), [_WORD.findall(text.lower()) for text in texts])
        for prediction, texts in zip(predictions, references, strict=True)
    ]
    return {
        name: 100 * sum(max(metric(prediction, text) for text in texts) for prediction, texts in items) / len(items)
        for name, metric in metrics.items()
    }
