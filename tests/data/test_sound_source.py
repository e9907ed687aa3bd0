"""Sound as a source."""

from __future__ import annotations

import wave

import numpy as np

from windlass.data.sides.sound import SoundOptions, SoundSource


def noise(path, loudness: float) -> str:
    """A second of noise as a telephone records it, at 8 kHz."""
    samples = np.random.default_rng(0).normal(0, loudness, 8000).clip(-1, 1)
    with wave.open(str(path), "wb") as writer:
        writer.setparams((1, 2, 8000, 0, "NONE", ""))
        writer.writeframes((32767 * samples).astype("<i2").tobytes())
    return str(path)


def test_bands_above_what_was_recorded_are_not_blown_up(tmp_path):
    quiet, loud = noise(tmp_path / "quiet.wav", 0.02), noise(tmp_path / "loud.wav", 0.3)
    side = SoundSource.fit(SoundOptions(rate=16_000), [quiet])
    frames = side.collate([side.encode(loud)])["source"].values[0]
    assert frames.abs().max() < 10
