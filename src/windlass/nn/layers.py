"""Output layers: one, or several with a bend between them."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn


def layers(size: int, hidden: Sequence[int], outputs: int, dropout: float) -> nn.Sequential:
    """o = V tanh(... tanh(W_1 x + b_1) ...) + b, with dropout on the input of every layer.

    >>> layers(4, [3], 2, dropout=0.0)
    Sequential(
      (0): Linear(in_features=4, out_features=3, bias=True)
      (1): Tanh()
      (2): Linear(in_features=3, out_features=2, bias=True)
    )
    """
    parts: list[nn.Module] = []
    for width in hidden:
        parts += [*_dropout(dropout), nn.Linear(size, width), nn.Tanh()]
        size = width
    return nn.Sequential(*parts, *_dropout(dropout), nn.Linear(size, outputs))


def _dropout(share: float) -> list[nn.Module]:
    return [nn.Dropout(share)] if share else []
