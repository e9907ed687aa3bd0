"""Products with a weight that does not change any more: laid out once for the machine, used at every step of a search.

A search multiplies few rows by the same weights again and again. oneDNN, given a weight in its own layout, is up to
four times as fast at this as the usual product; 8-bit integers are a quarter of the memory to read, and faster again.
See docs/decisions/decoding-speed.md for the figures.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import torch
from torch import Tensor, nn


class Packed(Protocol):
    """x (N, I) -> x W' + b (N, O)."""

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply."""


@dataclass(frozen=True)
class Plain:
    """The usual product, for any type and device.

    >>> Plain(torch.tensor([[2.0], [3.0]]), torch.ones(2))(torch.ones(1, 1)).tolist()
    [[3.0, 4.0]]
    """

    turned: Tensor  # (I, O)
    bias: Tensor | None

    def __init__(self, weight: Tensor, bias: Tensor | None):
        object.__setattr__(self, "turned", weight.t().contiguous())
        object.__setattr__(self, "bias", bias)

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply."""
        return x @ self.turned if self.bias is None else torch.addmm(self.bias, x, self.turned)


class Float32:
    """float32 on a CPU: oneDNN's product with a weight in oneDNN's own layout; for a single row, the usual one.

    A single row reads every weight once, which goes quicker through the transposed matrix. Either layout is made when
    it is first wanted.

    >>> weight = torch.randn(6, 4)
    >>> x = torch.randn(3, 4)
    >>> torch.allclose(pack(weight)(x), x @ weight.t(), atol=1e-5)
    True
    """

    def __init__(self, weight: Tensor, bias: Tensor | None):
        self.weight, self.bias = weight, bias
        self.for_one: Plain | None = None
        self.for_many: Tensor | None = None  # opaque

    @staticmethod
    def fits(weight: Tensor) -> bool:
        """Whether this machine can multiply by a weight in this way."""
        return weight.dtype == torch.float32 and weight.device.type == "cpu" and weight.numel() > 0 and _onednn()

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply."""
        if x.size(0) == 1:
            if self.for_one is None:
                self.for_one = Plain(self.weight, self.bias)
            return self.for_one(x)
        if self.for_many is None:
            self.for_many = _reordered(self.weight)
        return _by_onednn(x, self.for_many, self.bias)


def _reordered(weight: Tensor) -> Tensor:
    laid_out: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous())
    return laid_out


def _by_onednn(x: Tensor, laid_out: Tensor, bias: Tensor | None) -> Tensor:
    product: Tensor = torch.ops.mkldnn._linear_pointwise(x, laid_out, bias, "none", [], "")
    return product


@cache
def _onednn() -> bool:
    """Whether the two operations that torch's own compiler uses for a fixed weight are there and right."""
    try:
        weight, x = torch.randn(8, 4), torch.randn(2, 4)
        return bool(torch.allclose(_by_onednn(x, _reordered(weight), None), x @ weight.t(), atol=1e-4))
    except (AttributeError, RuntimeError, NotImplementedError):
        return False


@dataclass(frozen=True)
class Rows:
    """A matrix in 8 bits: whole numbers from -127 to 127, and for every row the number that one of them stands for.

    >>> rows = Rows.of(torch.tensor([[1.0, -2.0], [0.0, 0.0]]))
    >>> rows.numbers.tolist(), [round(s, 4) for s in rows.scale.tolist()]
    ([[64, -127], [0, 0]], [0.0157, 1.0])
    >>> [round(x, 2) for x in rows.weight[0].tolist()]
    [1.01, -2.0]
    """

    numbers: Tensor  # (O, I) int8
    scale: Tensor  # (O,)

    @classmethod
    def of(cls, weight: Tensor) -> Rows:
        """Round a matrix, every row to its own scale."""
        most = weight.abs().amax(1) if weight.size(1) else weight.new_zeros(weight.size(0))
        scale = torch.where(most > 0, most / 127, torch.ones_like(most))
        return cls((weight / scale[:, None]).round().clamp(-127, 127).to(torch.int8), scale)

    @property
    def weight(self) -> Tensor:
        """The matrix that these numbers stand for."""
        return self.numbers * self.scale[:, None]


@dataclass(frozen=True)
class Int8:
    """A product with whole numbers: exact in the sums, rounded in weight and input.

    Every row of the input is rounded to its own largest value, so that a row's outcome does not depend on the others;
    what is known to lie within -1 .. 1 (`bounded`) is rounded to that.

    >>> weight = torch.randn(6, 32) / 6
    >>> x = torch.randn(3, 32)
    >>> bool(((pack(weight, int8=True)(x) - x @ weight.t()).abs() < 0.05).all())
    True
    """

    weight: Any  # opaque
    bias: Tensor | None
    bounded: bool

    @staticmethod
    def fits(weight: Tensor) -> bool:
        """Whether this machine can multiply by a weight in this way."""
        return weight.dtype == torch.float32 and weight.device.type == "cpu" and weight.numel() > 0 and levels() > 0

    @classmethod
    def of(cls, weight: Tensor, bias: Tensor | None, bounded: bool) -> Int8:
        """Round and lay out a weight."""
        return cls(_laid_out(Rows.of(weight), bias if bounded else None), bias, bounded)

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply."""
        if self.bounded:
            return _multiply(x, self.weight, levels())
        most = x.abs().amax(1, keepdim=True) + 1e-30  # never by nothing
        product = _multiply(x / most, self.weight, levels())
        return product.mul_(most) if self.bias is None else torch.addcmul(self.bias, product, most)


def _laid_out(rows: Rows, bias: Tensor | None) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch means to drop its 8-bit tensors some day; `levels` then finds out
        zeros = torch.zeros_like(rows.scale, dtype=torch.long)
        tensor = torch._make_per_channel_quantized_tensor(rows.numbers, rows.scale.double(), zeros, 0)
        return torch.ops.quantized.linear_prepack(tensor, bias)


def _multiply(x: Tensor, weight: Any, most: int) -> Tensor:
    with_floats = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32
    product: Tensor = with_floats(x, 1.0 / most, most + 1, weight)
    return product


@cache
def levels() -> int:
    """How finely an input may be rounded: to -127 .. 127, to -63 .. 63 where sums of two would overflow, or 0: not.

    >>> levels() in (0, 63, 127)
    True
    """
    try:
        weight = _laid_out(Rows(torch.full((4, 64), 127, dtype=torch.int8), torch.ones(4)), None)
        for most in (127, 63):  # without VNNI instructions, x86 adds two products in 16 bits, and cuts what is beyond
            if bool(torch.allclose(_multiply(torch.ones(1, 64), weight, most), torch.tensor(64.0 * 127))):
                return most
    except (AttributeError, RuntimeError, NotImplementedError):
        pass
    return 0


def pack(weight: Tensor, bias: Tensor | None = None, int8: bool = False, bounded: bool = False) -> Packed:
    """Lay a weight (O, I) out in the quickest way this machine has; `int8` where it may be rounded.

    A bias is added to the product. `bounded` says that inputs lie within -1 .. 1.

    >>> pack(torch.eye(2).double(), torch.ones(2).double())(torch.tensor([[1.0, 2.0]]).double()).tolist()
    [[2.0, 3.0]]
    """
    weight, bias = weight.detach(), None if bias is None else bias.detach()
    if int8 and Int8.fits(weight):
        return Int8.of(weight, bias, bounded)
    return Float32(weight, bias) if Float32.fits(weight) else Plain(weight, bias)


_SCALE = "|scale"


def shrink(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights by name with every matrix in 8 bits, its scales beside it; the rest as it is.

    >>> sorted(shrink({"cell.bias": torch.ones(2), "output": torch.ones(2, 3)}))
    ['cell.bias', 'output', 'output|scale']
    """
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if tensor.dim() == 2 and tensor.is_floating_point():
            rows = Rows.of(tensor)
            found |= {name: rows.numbers, name + _SCALE: rows.scale}
        else:
            found[name] = tensor
    return found


def grow(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What `shrink` left, as full numbers again.

    >>> grow(shrink({"output": torch.tensor([[0.0, 127.0]])}))
    {'output': tensor([[  0., 127.]])}
    """
    return {
        name: Rows(tensor, tensors[name + _SCALE]).weight if name + _SCALE in tensors else tensor
        for name, tensor in tensors.items()
        if not name.endswith(_SCALE)
    }


Stamp = tuple[tuple[int, int], ...]
"""Where weights lie, and how often they were written to."""


def stamp(module: nn.Module) -> Stamp:
    """What tells weights that have changed; what was laid out before is then out of date.

    >>> layer = nn.Linear(2, 2)
    >>> before = stamp(layer)
    >>> with torch.no_grad():
    ...     _ = layer.bias.add_(1)
    >>> stamp(layer) == before
    False
    """
    tensors = [*module.parameters(), *module.buffers()]
    return tuple((t.data_ptr(), 0 if t.is_inference() else t._version) for t in tensors)
