"""Tiny pictures, clips and sounds, made on the spot: for tests and examples."""

from __future__ import annotations

import tempfile
import wave
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image


@cache
def _folder() -> Path:
    """A folder of this process, in the system's folder for temporary files."""
    return Path(tempfile.mkdtemp(prefix="windlass-samples-"))


def _path(name: str) -> Path:
    return _folder() / name


@cache
def sample_pictures() -> tuple[str, ...]:
    """Three pictures of one colour each.

    >>> [Image.open(path).size for path in sample_pictures()]
    [(48, 32), (32, 32), (20, 60)]
    """
    made = []
    for name, size, colour in (
        ("red", (48, 32), (200, 30, 30)),
        ("blue", (32, 32), (30, 30, 200)),
        ("grey", (20, 60), (90,) * 3),
    ):
        path = _path(f"{name}.png")
        Image.fromarray(np.full((size[1], size[0], 3), colour, np.uint8)).save(path)
        made.append(str(path))
    return tuple(made)


@cache
def sample_features() -> tuple[str, ...]:
    """Three files of features: grids of 2 x 2, 1 x 2 and 2 x 1 regions, of two numbers each.

    >>> [np.load(path).shape for path in sample_features()]
    [(2, 2, 2), (1, 2, 2), (2, 1, 2)]
    """
    made = []
    for n, shape in enumerate(((2, 2, 2), (1, 2, 2), (2, 1, 2))):
        path = _path(f"features{n}.npy")
        np.save(path, np.random.default_rng(n).normal(size=shape).astype(np.float32))
        made.append(str(path))
    return tuple(made)


@cache
def sample_clips() -> tuple[str, ...]:
    """Three clips of 3, 2 and 4 frames, as folders of pictures.

    >>> [len(list(Path(clip).iterdir())) for clip in sample_clips()]
    [3, 2, 4]
    """
    made = []
    for name, frames in (("dawn", 3), ("blink", 2), ("dusk", 4)):
        folder = _path(name)
        folder.mkdir(exist_ok=True)
        for n in range(frames):
            Image.fromarray(np.full((24, 24, 3), 40 * n + frames, np.uint8)).save(folder / f"{n}.png")
        made.append(str(folder))
    return tuple(made)


@cache
def sample_sounds() -> tuple[str, ...]:
    """Three tones of 0.1, 0.2 and 0.15 s.

    >>> [Path(sound).suffix for sound in sample_sounds()]
    ['.wav', '.wav', '.wav']
    """
    made = []
    for name, pitch, seconds in (("low", 220, 0.1), ("high", 880, 0.2), ("middle", 440, 0.15)):
        path, times = _path(f"{name}.wav"), np.arange(int(8000 * seconds)) / 8000
        with wave.open(str(path), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(8000)
            file.writeframes((12000 * np.sin(2 * np.pi * pitch * times)).astype("<i2").tobytes())
        made.append(str(path))
    return tuple(made)
