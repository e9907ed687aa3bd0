"""A multi-layer perceptron: the output layers of the label, labels, number and tags heads."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn


def mlp(size: int, hidden: Sequence[int], outputs: int, dropout: float) -> nn.Sequential:
    """o = V tanh(... tanh(W_1 x + b_1) ...) + b, with dropout on the input of every layer.

    >>> mlp(4, [3], 2, dropout=0.0)
    Sequential(
      (0): Linear(in_features=4, out_features=3, bias=True)
      (1): Tanh()
      (2): Linear(in_features=3, out_features=2, bias=True)
    )
    """
    modules: list[nn.Module] = []
    for width in hidden:
        modules += [*_dropout(dropout), nn.Linear(size, width), nn.Tanh()]
        size = width
    return nn.Sequential(*modules, *_dropout(dropout), nn.Linear(size, outputs))


def _dropout(p: float) -> list[nn.Module]:
    return [nn.Dropout(p)] if p else []
