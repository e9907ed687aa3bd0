"""A product with a weight, as an object: the fast paths replace it by one with a packed weight."""

from __future__ import annotations

import torch
from torch import Tensor


class Product:
    """x -> x W' (+ add) for x (N, I) and W (O, I).

    >>> Product(torch.tensor([[2.0, 3.0]]))(torch.ones(1, 2), add=torch.ones(1, 1)).item()
    6.0
    """

    def __init__(self, weight: Tensor):
        self.weight = weight

    def __call__(self, x: Tensor, add: Tensor | None = None) -> Tensor:
        """x W' + add."""
        return x @ self.weight.t() if add is None else torch.addmm(add, x, self.weight.t())
