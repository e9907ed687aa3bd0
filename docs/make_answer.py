"""Draws docs/images/answer.png: questions about a photo in the public domain, and where the model looks.

    pip install scikit-image && python docs/make_answer.py MODEL            a model of benchmarks/answer.py

The photo is one that scikit-image ships and releases as public domain (CC0).
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import skimage.data
from PIL import Image

import windlass
from windlass.explain.attention import draw

PICTURE = Path(__file__).parent / "images" / "answer.png"
QUESTIONS = ("what is on the plate", "what is the colour of the table", "how many cups are there")


def main() -> None:
    """Ask the questions and draw the attention of each."""
    model = windlass.load(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        photo = str(Path(folder) / "coffee.png")
        Image.fromarray(skimage.data.coffee()).save(photo)
        asked = [(photo, question) for question in QUESTIONS]
        found, source = model.predict(asked), model.bundle.sides.source
        draw(found, PICTURE, over=[source.shown(value) for value in asked])
    for (_, question), prediction in zip(asked, found, strict=True):
        print(f"{question}? {prediction.text}")
    drawn = Image.open(PICTURE).convert("RGB")
    drawn.thumbnail((1200, 1200))
    drawn.quantize(128).save(PICTURE, optimize=True)


if __name__ == "__main__":
    main()
