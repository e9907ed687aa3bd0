"""Memory settings of a training process."""

from __future__ import annotations

import torch

from windlass.nn.fast import onednn
from windlass.nn.fast.switch import enabled

LARGEST = 2**25 - 2**16
"""Bytes of the largest block that glibc, left to itself, learns to keep (a little under 32 MB)."""


def prepare_training() -> None:
    """Bound oneDNN's cache of kernels, and let the C library keep freed blocks for the next step.

    glibc maps large blocks from the system and returns them when they are freed, page by page, unless it has seen a
    block of that size come and go; then it keeps up to twice that size. A training step frees and takes the same blocks
    over and over, so the process shows it one early. This is glibc's own rule at work: no setting is changed, and a
    block of more than 64 MB still goes back at once.

    >>> prepare_training()
    """
    if enabled():
        onednn.works()
        torch.empty(LARGEST, dtype=torch.uint8)  # freed at once
