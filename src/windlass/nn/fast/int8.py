"""Weights in 8 bits: a quarter of the memory to store and to read, and products of integers."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, final

import torch
from torch import Tensor

SMALLEST = 2**17
"""Elements of the smallest weight that is multiplied in 8 bits: below it, rounding the input costs more than it saves.

The rows of the input do not count, so that a result does not depend on the batch. Inputs within -1..1, which need no
scale, are multiplied in 8 bits by smaller weights too.
"""


@final
@dataclass(frozen=True)
class QuantisedMatrix:
    """Integers from -127 to 127, and a scale for every row.

    >>> matrix = QuantisedMatrix.of(torch.tensor([[1.0, -2.0], [0.0, 0.0]]))
    >>> matrix.integers.tolist(), [round(s, 4) for s in matrix.scale.tolist()]
    ([[64, -127], [0, 0]], [0.0157, 1.0])
    >>> [round(x, 2) for x in matrix.weight[0].tolist()]
    [1.01, -2.0]
    """

    integers: Tensor  # (O, I) int8
    scale: Tensor  # (O,)

    @classmethod
    def of(cls, weight: Tensor) -> QuantisedMatrix:
        """Round a matrix, every row to its own scale."""
        largest = weight.abs().amax(1) if weight.size(1) else weight.new_zeros(weight.size(0))
        scale = torch.where(largest > 0, largest / 127, torch.ones_like(largest))
        return cls((weight / scale[:, None]).round().clamp(-127, 127).to(torch.int8), scale)

    @property
    def weight(self) -> Tensor:
        """The rounded matrix as floating-point numbers."""
        return self.integers * self.scale[:, None]


@final
@dataclass(frozen=True)
class Int8Weight:
    """x (N, I) -> x W' + b (N, O) in integers: exact sums of a rounded weight and a rounded input.

    Every row of the input is scaled by its own largest value, so that a row's result does not depend on the others;
    inputs known to lie within -1..1 (`bounded`) need no scale.

    >>> weight = torch.randn(6, 32) / 6
    >>> x = torch.randn(3, 32)
    >>> bool(((Int8Weight.of(weight, None, False)(x) - x @ weight.t()).abs() < 0.05).all()) if levels() else True
    True
    """

    weight: Any  # opaque
    bias: Tensor | None
    bounded: bool

    @staticmethod
    def usable(weight: Tensor, bounded: bool = False) -> bool:
        """Whether this machine multiplies by such a weight in 8 bits, and gains by it."""
        large = weight.numel() >= (1 if bounded else max(SMALLEST, 1))
        return weight.dtype == torch.float32 and weight.device.type == "cpu" and large and levels() > 0

    @classmethod
    def of(cls, weight: Tensor, bias: Tensor | None, bounded: bool) -> Int8Weight:
        """Round and lay out a weight."""
        return cls(_prepack(QuantisedMatrix.of(weight), bias if bounded else None), bias, bounded)

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply."""
        if self.bounded:
            return _multiply(x, self.weight, levels())
        largest = x.abs().amax(1, keepdim=True) + 1e-30  # never 0
        product = _multiply(x / largest, self.weight, levels())
        return product.mul_(largest) if self.bias is None else torch.addcmul(self.bias, product, largest)


def _prepack(matrix: QuantisedMatrix, bias: Tensor | None) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch means to drop its 8-bit tensors some day; `levels` then returns 0
        zeros = torch.zeros_like(matrix.scale, dtype=torch.long)
        tensor = torch._make_per_channel_quantized_tensor(matrix.integers, matrix.scale.double(), zeros, 0)
        return torch.ops.quantized.linear_prepack(tensor, bias)


def _multiply(x: Tensor, weight: Any, levels: int) -> Tensor:
    operation = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32
    product: Tensor = operation(x, 1.0 / levels, levels + 1, weight)
    return product


@cache
def levels() -> int:
    """How finely inputs are rounded: to -127..127, to -63..63 where sums of two would overflow; 0: no 8-bit products.

    >>> levels() in (0, 63, 127)
    True
    """
    try:
        weight = _prepack(QuantisedMatrix(torch.full((4, 64), 127, dtype=torch.int8), torch.ones(4)), None)
        for most in (127, 63):  # without VNNI instructions, x86 adds two products in 16 bits and saturates
            if bool(torch.allclose(_multiply(torch.ones(1, 64), weight, most), torch.tensor(64.0 * 127))):
                return most
    except (AttributeError, RuntimeError, NotImplementedError):
        pass
    return 0


_SCALE = "|scale"


def quantise(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Round every matrix to 8 bits, with its scales beside it; other tensors stay.

    >>> sorted(quantise({"cell.bias": torch.ones(2), "output": torch.ones(2, 3)}))
    ['cell.bias', 'output', 'output|scale']
    """
    quantised: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if tensor.dim() == 2 and tensor.is_floating_point():
            matrix = QuantisedMatrix.of(tensor)
            quantised |= {name: matrix.integers, name + _SCALE: matrix.scale}
        else:
            quantised[name] = tensor
    return quantised


def dequantise(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The floating-point tensors that `quantise` rounded.

    >>> dequantise(quantise({"output": torch.tensor([[0.0, 127.0]])}))
    {'output': tensor([[  0., 127.]])}
    """
    return {
        name: QuantisedMatrix(tensor, tensors[name + _SCALE]).weight if name + _SCALE in tensors else tensor
        for name, tensor in tensors.items()
        if not name.endswith(_SCALE)
    }
