"""Products with a weight that no longer changes: laid out once for the machine, used at every step of a search.

A search multiplies few rows by the same weights at every step. oneDNN, with a weight in its own layout, is up to four
times as fast at this as the plain product; 8-bit integers read a quarter of the memory and are faster still.
docs/decisions/decoding-speed.md has the figures.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TypeVar, final

import torch
from torch import Tensor, nn

from windlass.nn.fast import onednn
from windlass.nn.fast.int8 import Int8Weight
from windlass.nn.product import Product

Module = TypeVar("Module", bound=nn.Module)
Packed = Callable[[Tensor], Tensor]
"""x (N, I) -> x W' + b (N, O)."""


@final
class Transposed:
    """torch's own product, for any type and device.

    >>> Transposed(torch.tensor([[2.0], [3.0]]), torch.ones(2))(torch.ones(1, 1)).tolist()
    [[3.0, 4.0]]
    """

    def __init__(self, weight: Tensor, bias: Tensor | None):
        self.transposed, self.bias = weight.t().contiguous(), bias  # (I, O)

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply."""
        return x @ self.transposed if self.bias is None else torch.addmm(self.bias, x, self.transposed)


@final
class _Reordered:
    """oneDNN's product with a weight in oneDNN's own layout; for a single row, torch's own with a transposed weight.

    A single row reads every weight once, which is faster through the transposed matrix. Either layout is made when it
    is first needed.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None):
        self.weight, self.bias = weight, bias
        self.one_row: Transposed | None = None
        self.many_rows: Tensor | None = None  # opaque

    def __call__(self, x: Tensor) -> Tensor:
        if x.size(0) == 1:
            if self.one_row is None:
                self.one_row = Transposed(self.weight, self.bias)
            return self.one_row(x)
        if self.many_rows is None:
            self.many_rows = onednn.reorder(self.weight.contiguous())
        return onednn.multiply(x, self.many_rows, self.bias)


@final
class Precomputed(Product):
    """A product that has been computed already, for a cell's `step`; `summed`: what the step adds is in it too.

    >>> Precomputed(torch.ones(1, 2), summed=False)(torch.zeros(1, 9), add=torch.ones(1, 2)).tolist()
    [[2.0, 2.0]]
    """

    def __init__(self, value: Tensor, summed: bool):
        self.value, self.summed = value, summed

    def __call__(self, x: Tensor, add: Tensor | None = None) -> Tensor:
        """The value."""
        return self.value if self.summed or add is None else self.value + add


def pack(weight: Tensor, bias: Tensor | None = None, int8: bool = False, bounded: bool = False) -> Packed:
    """Lay out a weight (O, I) in the fastest form that this machine has; `int8` allows rounding it to 8 bits.

    A bias is added to the product. `bounded` says that inputs lie within -1..1.

    >>> pack(torch.eye(2).double(), torch.ones(2).double())(torch.tensor([[1.0, 2.0]]).double()).tolist()
    [[2.0, 3.0]]
    """
    weight, bias = weight.detach(), None if bias is None else bias.detach()
    if int8 and Int8Weight.usable(weight, bounded):
        return Int8Weight.of(weight, bias, bounded)
    return _Reordered(weight, bias) if weight.numel() and onednn.usable(weight) else Transposed(weight, bias)


@final
class PackedLinear(nn.Module):
    """A linear layer with a packed weight, for inputs (..., I).

    >>> PackedLinear(nn.Linear(2, 3))(torch.zeros(4, 5, 2)).shape
    torch.Size([4, 5, 3])
    """

    def __init__(self, layer: nn.Linear, int8: bool = False):
        super().__init__()
        self.weight, self.bias, self.out_features = layer.weight, layer.bias, layer.out_features
        self.packed = pack(layer.weight, layer.bias, int8)

    def forward(self, x: Tensor) -> Tensor:
        """x W' + b."""
        return self.packed(x.reshape(-1, x.size(-1))).view(*x.shape[:-1], self.out_features)


def pack_linear_layers(module: Module, int8: bool = False) -> Module:
    """A copy of a module with the same parameters, whose linear layers have packed weights.

    >>> pack_linear_layers(nn.Sequential(nn.ReLU(), nn.Linear(2, 3)))
    Sequential(
      (0): ReLU()
      (1): PackedLinear()
    )
    """
    packed = copy.copy(module)
    packed._modules = {
        name: PackedLinear(child, int8) if isinstance(child, nn.Linear) else child and pack_linear_layers(child, int8)
        for name, child in module._modules.items()
    }
    return packed
