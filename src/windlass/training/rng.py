"""Random number generators: seed them, and save and restore their states as byte tensors."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor


def _to_bytes(value: object) -> Tensor:
    return torch.tensor(list(json.dumps(value).encode()), dtype=torch.uint8)


def seed_all(seed: int) -> None:
    """Seed torch (every device), Python and NumPy.

    >>> seed_all(1)
    >>> first = torch.rand(1)
    >>> seed_all(1)
    >>> torch.equal(first, torch.rand(1))
    True
    """
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)


def rng_state() -> dict[str, Tensor]:
    """Return the state of every generator by name.

    >>> sorted(rng_state())[:3]
    ['numpy', 'python', 'torch']
    """
    kind, keys, position, has_gauss, gauss = np.random.get_state(legacy=True)
    assert isinstance(keys, np.ndarray)
    states = {
        "torch": torch.get_rng_state(),
        "python": _to_bytes(random.getstate()),
        "numpy": _to_bytes([kind, keys.tolist(), position, has_gauss, gauss]),
    }
    if torch.cuda.is_available():
        states |= {f"cuda{n}": state for n, state in enumerate(torch.cuda.get_rng_state_all())}
    return states


def restore_rng(states: Mapping[str, Tensor]) -> None:
    """Restore the states that `rng_state` returned.

    >>> before = rng_state()
    >>> first = torch.rand(1), random.random(), np.random.rand()
    >>> restore_rng(before)
    >>> first == (torch.rand(1), random.random(), np.random.rand())
    True
    """
    torch.set_rng_state(states["torch"])
    version, keys, gauss = json.loads(bytes(states["python"].tolist()))
    random.setstate((version, tuple(keys), gauss))
    kind, words, position, has_gauss, cached = json.loads(bytes(states["numpy"].tolist()))
    np.random.set_state((kind, np.array(words, dtype=np.uint32), position, has_gauss, cached))
    if torch.cuda.is_available():
        for n in range(torch.cuda.device_count()):
            if f"cuda{n}" in states:
                torch.cuda.set_rng_state(states[f"cuda{n}"], n)


@contextmanager
def fork_rng() -> Iterator[None]:
    """Restore every generator after the block, as `torch.random.fork_rng` does for torch.

    >>> seed_all(1)
    >>> with fork_rng():
    ...     inside = torch.rand(1)
    >>> torch.equal(inside, torch.rand(1))
    True
    """
    before = rng_state()
    try:
        yield
    finally:
        restore_rng(before)
