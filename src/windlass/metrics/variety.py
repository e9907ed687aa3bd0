"""How varied what a model says is."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.metrics.edit import check_pairs


def distinct(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Distinct-1 and distinct-2: different words, and pairs of words, in percent of all said (Li et al. 2016).

    Words are what stands between spaces, lowercased; pairs do not go from one text to the next. A model that always
    says the same has next to nothing, however long the data; so compare figures over the same inputs only.

    >>> distinct(["no no no", "I see"], [["yes"], ["yes"]])
    {'distinct_1': 60.0, 'distinct_2': 66.66...}
    """
    check_pairs(predictions, references)
    texts = [text.lower().split() for text in predictions]
    found = {}
    for n in (1, 2):
        runs = [run for text in texts for run in zip(*(text[k:] for k in range(n)), strict=False)]
        found[f"distinct_{n}"] = 100 * len(set(runs)) / max(1, len(runs))
    return found
