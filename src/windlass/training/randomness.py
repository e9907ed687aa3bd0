"""The state of every random number generator, as tensors of bytes."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor


def _bytes_of(value: object) -> Tensor:
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


def random_state() -> dict[str, Tensor]:
    """The state of every generator, by name.

    >>> sorted(random_state())[:3]
    ['numpy', 'python', 'torch']
    """
    kind, keys, place, has_gauss, gauss = np.random.get_state(legacy=True)
    assert isinstance(keys, np.ndarray)
    states = {
        "torch": torch.get_rng_state(),
        "python": _bytes_of(random.getstate()),
        "numpy": _bytes_of([kind, keys.tolist(), place, has_gauss, gauss]),
    }
    if torch.cuda.is_available():
        states |= {f"cuda{n}": state for n, state in enumerate(torch.cuda.get_rng_state_all())}
    return states


def restore_random(states: Mapping[str, Tensor]) -> None:
    """Set every generator as `random_state` found it.

    >>> before = random_state()
    >>> first = torch.rand(1), random.random(), np.random.rand()
    >>> restore_random(before)
    >>> first == (torch.rand(1), random.random(), np.random.rand())
    True
    """
    torch.set_rng_state(states["torch"])
    version, keys, gauss = json.loads(bytes(states["python"].tolist()))
    random.setstate((version, tuple(keys), gauss))
    kind, words, place, has_gauss, cached = json.loads(bytes(states["numpy"].tolist()))
    np.random.set_state((kind, np.array(words, dtype=np.uint32), place, has_gauss, cached))
    if torch.cuda.is_available():
        for n in range(torch.cuda.device_count()):
            if f"cuda{n}" in states:
                torch.cuda.set_rng_state(states[f"cuda{n}"], n)


@contextmanager
def untouched_randomness() -> Iterator[None]:
    """Whatever is drawn inside leaves no trace outside.

    >>> seed_all(1)
    >>> with untouched_randomness():
    ...     inside = torch.rand(1)
    >>> torch.equal(inside, torch.rand(1))
    True
    """
    before = random_state()
    try:
        yield
    finally:
        restore_random(before)
