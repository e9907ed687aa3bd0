"""All that exists only to be fast: every equation here is also written, step by step, outside.

A part offers a fast path by overriding `fused` (training) or `inference` (see `interface.py`), and need not: what
offers nothing runs step by step. `disabled()` turns every fast path off, so that any result can be checked against
plain torch.
"""

from windlass.nn.fast.interface import OffersInference, fused, inference
from windlass.nn.fast.switch import disabled, enabled

__all__ = ["OffersInference", "disabled", "enabled", "fused", "inference"]
