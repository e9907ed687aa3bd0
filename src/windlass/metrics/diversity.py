"""Diversity of outputs."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.metrics.edit import check_references


def distinct(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return distinct-1 and distinct-2: distinct unigrams and bigrams in percent of all (Li et al. 2016).

    Words are lowercased and split at spaces; bigrams do not cross texts. The scores fall with the amount of text:
    compare them on the same inputs only.

    >>> distinct(["no no no", "I see"], [["yes"], ["yes"]])
    {'distinct_1': 60.0, 'distinct_2': 66.66...}
    """
    check_references(predictions, references)
    texts = [text.lower().split() for text in predictions]
    scores = {}
    for n in (1, 2):
        ngrams = [ngram for text in texts for ngram in zip(*(text[k:] for k in range(n)), strict=False)]
        scores[f"distinct_{n}"] = 100 * len(set(ngrams)) / max(1, len(ngrams))
    return scores
