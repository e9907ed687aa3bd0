"""Draws docs/images/clip.png: a generated clip of a moving disc, and the frames that a model weighs to name its way.

    python docs/make_clip.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

import windlass

PICTURE = Path(__file__).parent / "images" / "clip.png"
STEPS = {"left": (0, -1), "right": (0, 1), "up": (-1, 0), "down": (1, 0)}
FRAMES = 6


def clip(folder: Path, number: int, chance: np.random.Generator) -> tuple[str, str]:
    """A folder of frames in which a disc rests, moves and rests again, and the direction."""
    direction = [*STEPS][number % 4]
    path, at = folder / str(number), chance.integers(24, 40, 2)
    path.mkdir()
    begins = int(chance.integers(1, 4))
    for frame in range(FRAMES):
        moved = min(max(frame - begins, 0), 2) * 8
        row, column = at + moved * np.array(STEPS[direction]) - 8 * np.array(STEPS[direction])
        pixels = chance.integers(90, 140, (64, 64, 3)).astype(np.uint8)
        y, x = np.mgrid[:64, :64]
        pixels[np.hypot(x - column, y - row) < 10] = (230, 40, 40)
        Image.fromarray(pixels).save(path / f"{frame}.png")
    return str(path), direction


def main() -> None:
    """Train on generated clips, and draw one that was held out."""
    chance = np.random.default_rng(4)
    with tempfile.TemporaryDirectory() as folder:
        rows = [clip(Path(folder), number, chance) for number in range(200)]
        settings = {
            "source.cnn": "small",
            "source.augment": False,
            "source.frames": FRAMES,
            "source.regions": 2,
            "model.encoder.embedding": {"kind": "features", "size": 24, "activation": "tanh"},
            "model.encoder.cell": "gru",
            "model.encoder.size": 24,
            "model.encoder.dropout": 0.0,
            "model.head.dropout": 0.0,
            "loss.label_smoothing": 0.0,
            "train.average": "none",
            "train.schedule": {"kind": "cosine", "warmup": 5},
            "train.optimiser.lr": 0.004,
            "train.batch_tokens": 48,
            "train.epochs": 14,
            "train.processes": 1,
        }
        model = windlass.fit(rows[24:], rows[:24], "classify-video", settings=settings, quiet=True)
        assert model.dev is not None
        found = model.explain(rows[1][0], PICTURE)
        print(f"{model.dev.metrics['accuracy']:.0f} % right; {rows[1][1]}: {found.text}")


if __name__ == "__main__":
    main()
