"""Figures of predicted numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def pearson(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Pearson's r of predictions and references; 0 where one of them is constant.

    >>> round(pearson(["1", "2", "4"], [["1"], ["2"], ["3"]])["pearson"], 4)
    0.982
    """
    return {"pearson": _correlation(*_numbers(predictions, references))}


def spearman(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Spearman's rho: Pearson's r of ranks, equal numbers sharing the mean of theirs.

    >>> spearman(["1", "2", "40"], [["1"], ["2"], ["3"]])["spearman"]
    1.0
    """
    return {"spearman": rank_correlation(*_numbers(predictions, references))}


def rank_correlation(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Spearman's rho of two series of numbers; 0 where one of them is constant.

    >>> rank_correlation(np.array([1.0, 2.0, 40.0]), np.array([3.0, 2.0, 1.0]))
    -1.0
    """
    return _correlation(_ranks(a), _ranks(b))


def mean_squared_error(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """The mean squared error.

    >>> mean_squared_error(["1", "2"], [["1"], ["4"]])
    {'mse': 2.0}
    """
    found, gold = _numbers(predictions, references)
    return {"mse": float(((found - gold) ** 2).mean())}


def _numbers(
    predictions: Sequence[str], references: Sequence[Sequence[str]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return np.array([float(text) for text in predictions]), np.array([float(texts[0]) for texts in references])


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: NDArray[np.float64] = (last - (counts - 1) / 2)[places]
    return ranks


def _correlation(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    if a.min() == a.max() or b.min() == b.max():
        return 0.0  # after rounding, what is left of a constant would be noise
    a, b = a - a.mean(), b - b.mean()
    return float((a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum()))
