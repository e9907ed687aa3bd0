"""Draws docs/images/captions.png and captions-attention.png: captions of ten photos in the public domain.

    pip install scikit-image && python docs/make_captions.py MODEL          a model of benchmarks/caption.py

The photos are those that scikit-image ships and releases under CC0 or as public domain.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from textwrap import fill

import numpy as np
import skimage.data
from matplotlib.figure import Figure
from PIL import Image

import windlass
from windlass.decoding.options import Beam
from windlass.media.picture import centre_crop

HERE = Path(__file__).parent / "images"
PHOTOS = ("astronaut", "camera", "chelsea", "coffee", "rocket", "horse", "coins", "hubble_deep_field", "grass", "clock")

SEARCH = Beam(size=5, length_penalty=0.7, unknown=False)


def main() -> None:
    """Caption the photos and draw them."""
    model = windlass.load(sys.argv[1])
    figure = Figure(figsize=(11, 5.6))
    with tempfile.TemporaryDirectory() as folder:
        for n, name in enumerate(PHOTOS):
            pixels = getattr(skimage.data, name)()
            photo = Image.fromarray(pixels if pixels.dtype != bool else pixels.astype("uint8") * 255).convert("RGB")
            path = Path(folder) / f"{name}.png"
            photo.save(path)
            axes = figure.add_subplot(2, 5, n + 1)
            axes.imshow(centre_crop(np.asarray(photo), 224))  # what the CNN sees
            axes.set_axis_off()
            caption = model.predict(str(path), SEARCH)[0].text
            print(f"{name}: {caption}")
            axes.set_title(fill(caption, 28), fontsize=9, y=-0.05, va="top")
            if name == "camera":
                model.explain(str(path), HERE / "captions-attention.png")
        figure.subplots_adjust(0.01, 0.12, 0.99, 0.99, 0.06, 0.3)
        figure.savefig(HERE / "captions.png", dpi=90)
    for picture in ("captions.png", "captions-attention.png"):
        drawn = Image.open(HERE / picture).convert("RGB")
        drawn.thumbnail((1200, 1200))
        drawn.quantize(128).save(HERE / picture, optimize=True)


if __name__ == "__main__":
    main()
