"""Word alignments: links read off attention, a diagonal to beat, and the error rate of Och and Ney (2003)."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import numpy as np
from numpy.typing import ArrayLike

from windlass.core.errors import DataError

Link = tuple[int, int]
"""(source place, target place), counted from 0."""


def align(weights: ArrayLike) -> set[Link]:
    """Link every target place to the source place it attends to most: weights (T, S) -> links.

    Cut off the rows and columns of the end mark first, where they are no words of the gold alignment. A row
    of zeros links to nothing; of equal weights the first wins.

    >>> sorted(align([[0.9, 0.1], [0.2, 0.8], [0.0, 0.0]]))
    [(0, 0), (1, 1)]
    """
    table = np.asarray(weights, dtype=float)
    if table.size == 0:
        return set()
    if table.ndim != 2:
        raise DataError(f"attention of one item has the axes (target, source), but this has {table.ndim} axes")
    return {(int(row.argmax()), place) for place, row in enumerate(table) if row.max() > 0}


def diagonal(source_length: int, target_length: int) -> set[Link]:
    """Link every target place to the source place that is equally far along: the baseline that reads nothing.

    >>> sorted(diagonal(2, 4))
    [(0, 0), (0, 1), (1, 2), (1, 3)]
    """
    if source_length == 0:
        return set()
    # the middle of target place j falls at (j + 1/2) / T of the way; whole numbers keep this exact
    return {((2 * j + 1) * source_length // (2 * target_length), j) for j in range(target_length)}


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 100.0


def alignment_error_rate(
    predicted: Sequence[AbstractSet[Link]],
    sure: Sequence[AbstractSet[Link]],
    possible: Sequence[AbstractSet[Link]] | None = None,
) -> dict[str, float]:
    """Return `aer`, `precision` and `recall` in percent, over all sentence pairs together.

    With links A, sure links S and possible ones P (which take in S; where not given, P = S):
    precision = |A & P| / |A|, recall = |A & S| / |S|, AER = 1 - (|A & S| + |A & P|) / (|A| + |S|).
    Where there is nothing to divide by, nothing was done wrong.

    >>> alignment_error_rate([{(0, 0), (1, 1)}], [{(0, 0)}], [{(0, 0), (1, 1), (2, 2)}])
    {'aer': 0.0, 'precision': 100.0, 'recall': 100.0}
    >>> alignment_error_rate([{(0, 0), (1, 1)}], [{(0, 0), (1, 2), (2, 2)}])
    {'aer': 60.0, 'precision': 50.0, 'recall': 33.33...}
    """
    possible = sure if possible is None else possible
    if not len(predicted) == len(sure) == len(possible):
        raise DataError(
            f"alignments of {len(predicted)} pairs cannot be scored against "
            f"{len(sure)} sure and {len(possible)} possible ones"
        )
    links = n_sure = in_sure = in_possible = 0
    for a, s, p in zip(predicted, sure, possible, strict=True):
        links, n_sure = links + len(a), n_sure + len(s)
        in_sure, in_possible = in_sure + len(a & s), in_possible + len(a & (p | s))
    return {
        "aer": 100 - _percent(in_sure + in_possible, links + n_sure),
        "precision": _percent(in_possible, links),
        "recall": _percent(in_sure, n_sure),
    }
