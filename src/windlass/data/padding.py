"""Rows of unequal length as one padded tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from windlass.core.records import Padded


def pad(rows: Sequence[NDArray[Any]], end: int | None = None) -> Padded:
    """Pad rows of ids to the longest of them, each followed by the mark `end` if set: (B, S).

    >>> pad([np.array([5, 6]), np.array([7])], end=3).values.tolist()
    [[5, 6, 3], [7, 3, 0]]
    """
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    width = max(1, int(lengths.max()) + (end is not None))
    values = np.zeros((len(rows), width), dtype=np.int64)
    places = np.arange(width)
    values[places < lengths[:, None]] = np.concatenate(rows)
    if end is not None:
        values[np.arange(len(rows)), lengths] = end
        lengths = lengths + 1
    return Padded(torch.from_numpy(values), torch.from_numpy(places < lengths[:, None]))


def pad_features(rows: Sequence[NDArray[Any]]) -> Padded:
    """Pad rows of places of any shape with zeros: (B, S, ...).

    >>> pad_features([np.ones((2, 3), np.float32), np.ones((1, 3), np.float32)]).values.shape
    torch.Size([2, 2, 3])
    """
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    values = np.zeros((len(rows), max(1, int(lengths.max())), *rows[0].shape[1:]), dtype=rows[0].dtype)
    for n, row in enumerate(rows):
        values[n, : len(row)] = row
    mask = np.arange(values.shape[1]) < lengths[:, None]
    return Padded(torch.from_numpy(values), torch.from_numpy(mask))


def pad_nested(rows: Sequence[NDArray[Any]], lengths: Sequence[NDArray[Any]]) -> Padded:
    """Pad rows whose places have places of their own, such as the letters of words: (B, S, C).

    A row is flat; its `lengths` say how many of its ids belong to each place.

    >>> pad_nested([np.array([4, 5, 6]), np.array([7])], [np.array([2, 1]), np.array([1])]).values.tolist()
    [[[4, 5], [6, 0]], [[7, 0], [0, 0]]]
    """
    inner = pad(lengths)
    counts = np.where(inner.mask.numpy(), inner.values.numpy(), 0)  # (B, S)
    width = max(1, int(counts.max()))
    mask = np.arange(width) < counts[:, :, None]
    values = np.zeros(mask.shape, dtype=np.int64)
    values[mask] = np.concatenate(rows)
    return Padded(torch.from_numpy(values), torch.from_numpy(mask))
