"""ROUGE: how much of a right answer a summary says, and how little else (Lin 2004).

Words are lowercased runs of letters and digits, without stemming and with all common words: for English what the
package rouge-score gives with `use_stemmer=False`. A text is taken as one sentence, also for ROUGE-L.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

from windlass.metrics.edit import check_pairs

_WORD = re.compile(r"[^\W_]+")


def words(text: str) -> list[str]:
    """The words that are compared.

    >>> words("Pre-trained BERT_x, 2.5%!")
    ['pre', 'trained', 'bert', 'x', '2', '5']
    """
    return _WORD.findall(text.lower())


def f1(shared: int, said: int, right: int) -> float:
    """The harmonic mean of precision and recall.

    >>> f1(shared=2, said=4, right=2)
    0.666...
    """
    return 2 * shared / (said + right) if shared else 0.0


def overlap(said: Sequence[str], right: Sequence[str], n: int) -> float:
    """F1 of runs of n words, each counted as often as both have it (ROUGE-n).

    >>> overlap("the cat sat".split(), "the cat the dog".split(), 1)
    0.571...
    """
    mine, theirs = (Counter(zip(*(text[k:] for k in range(n)), strict=False)) for text in (said, right))
    return f1((mine & theirs).total(), mine.total(), theirs.total())


def common(a: Sequence[str], b: Sequence[str]) -> int:
    """The length of the longest common subsequence, bit-parallel (Hyyrö 2004).

    >>> common("police killed the gunman".split(), "police kill the gunman".split())
    3
    """
    places: dict[str, int] = {}
    for n, word in enumerate(a):
        places[word] = places.get(word, 0) | 1 << n
    full = free = (1 << len(a)) - 1  # a bit is cleared where the length of the best match grows
    for word in b:
        here = free & places.get(word, 0)
        free = ((free + here) | (free - here)) & full
    return len(a) - free.bit_count()


def longest(said: Sequence[str], right: Sequence[str]) -> float:
    """F1 of the longest common subsequence (ROUGE-L).

    >>> longest("police kill the gunman".split(), "police killed the gunman".split())
    0.75
    """
    return f1(common(said, right), len(said), len(right))


def rouge(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Mean F1 of ROUGE-1, ROUGE-2 and ROUGE-L, in percent; of several right answers the best counts, for each figure.

    >>> rouge(["police kill the gunman"], [["police killed the gunman", "gunman"]])
    {'rouge_1': 75.0, 'rouge_2': 33.33..., 'rouge_l': 75.0}
    """
    check_pairs(predictions, references)
    figures: dict[str, Callable[[Sequence[str], Sequence[str]], float]] = {
        "rouge_1": lambda said, right: overlap(said, right, 1),
        "rouge_2": lambda said, right: overlap(said, right, 2),
        "rouge_l": longest,
    }
    cut = [
        (words(said), [words(answer) for answer in answers])
        for said, answers in zip(predictions, references, strict=True)
    ]
    return {
        name: 100 * sum(max(figure(said, right) for right in answers) for said, answers in cut) / len(cut)
        for name, figure in figures.items()
    }
