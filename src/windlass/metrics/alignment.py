"""Word alignment: links from attention weights, the diagonal baseline, and alignment error rate (Och and Ney 2003)."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import numpy as np
from numpy.typing import ArrayLike

from windlass.core.errors import DataError

Link = tuple[int, int]
"""(source position, target position), from 0."""


def align(weights: ArrayLike) -> set[Link]:
    """Link every target position to the source position it attends to most: weights (T, S) -> links.

    Remove the row and column of the end-of-sequence token first, if the gold alignment has none. A row of zeros has
    no link; ties go to the first position.

    >>> sorted(align([[0.9, 0.1], [0.2, 0.8], [0.0, 0.0]]))
    [(0, 0), (1, 1)]
    """
    matrix = np.asarray(weights, dtype=float)
    if matrix.size == 0:
        return set()
    if matrix.ndim != 2:
        raise DataError(f"attention weights must have the axes (target, source), not {matrix.ndim} axes")
    return {(int(row.argmax()), j) for j, row in enumerate(matrix) if row.max() > 0}


def diagonal(source_length: int, target_length: int) -> set[Link]:
    """Link every target position to the source position at the same relative position: the baseline.

    >>> sorted(diagonal(2, 4))
    [(0, 0), (0, 1), (1, 2), (1, 3)]
    """
    if source_length == 0:
        return set()
    # the middle of position j lies at (j + 1/2) / T; integer arithmetic keeps this exact
    return {((2 * j + 1) * source_length // (2 * target_length), j) for j in range(target_length)}


def _percent(count: int, total: int) -> float:
    return 100 * count / total if total else 100.0


def alignment_error_rate(
    predicted: Sequence[AbstractSet[Link]],
    sure: Sequence[AbstractSet[Link]],
    possible: Sequence[AbstractSet[Link]] | None = None,
) -> dict[str, float]:
    """Return `aer`, `precision` and `recall` in percent, over all sentence pairs.

    With predicted links A, sure links S and possible links P (a superset of S; by default P = S):
    precision = |A & P| / |A|, recall = |A & S| / |S|, AER = 1 - (|A & S| + |A & P|) / (|A| + |S|).
    An empty denominator counts as perfect.

    >>> alignment_error_rate([{(0, 0), (1, 1)}], [{(0, 0)}], [{(0, 0), (1, 1), (2, 2)}])
    {'aer': 0.0, 'precision': 100.0, 'recall': 100.0}
    >>> alignment_error_rate([{(0, 0), (1, 1)}], [{(0, 0), (1, 2), (2, 2)}])
    {'aer': 60.0, 'precision': 50.0, 'recall': 33.33...}
    """
    possible = sure if possible is None else possible
    if not len(predicted) == len(sure) == len(possible):
        raise DataError(
            f"{len(predicted)} predicted alignments, but "
            f"{len(sure)} sure and {len(possible)} possible ones: the counts must be equal"
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
