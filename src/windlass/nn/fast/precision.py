"""Mixed precision: matrix products in bfloat16, everything else in float32.

bfloat16 has the range of float32 and 8 bits of its fraction. Weights, states, gradients and all sums stay float32; the
factors of a product are rounded, and so is its result. Processors with instructions for it (AVX-512 BF16, AMX) multiply
about twice as fast.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch

Precision = Literal["float32", "bfloat16"]

_precision: Precision = "float32"  # of the process: on a GPU the backward pass runs in threads of its own


def mixed() -> bool:
    """Whether products are in bfloat16 here.

    >>> mixed()
    False
    """
    return _precision == "bfloat16"


@contextmanager
def precision(kind: Precision) -> Iterator[None]:
    """Inside, products that `nn.fast` computes have this precision.

    >>> with precision("bfloat16"):
    ...     mixed()
    True
    """
    global _precision
    before, _precision = _precision, kind
    try:
        yield
    finally:
        _precision = before


def pays(device: str = "cpu") -> bool:
    """Whether a device has instructions for bfloat16; elsewhere it would be slower than float32.

    >>> pays() in (True, False)
    True
    """
    if torch.device(device).type == "cpu":
        probe = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", None)
        return probe is not None and bool(probe())
    return torch.device(device).type != "cuda" or torch.cuda.is_bf16_supported()
