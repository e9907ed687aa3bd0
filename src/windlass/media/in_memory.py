"""Pictures in memory, written to files of this process: all that reads pictures then reads files."""

from __future__ import annotations

import atexit
import hashlib
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from windlass.media.errors import MediaError
from windlass.media.picture import read_picture
from windlass.media.pillow import Image


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="windlass-pictures-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def is_picture(value: Any) -> bool:
    """Whether a value is a picture: of Pillow, the bytes of a file, or an array (H, W), (H, W, 3) or (H, W, 4).

    >>> is_picture(Image.new("L", (4, 4))), is_picture(np.zeros((4, 4))), is_picture("cat.jpg")
    (True, True, False)
    """
    if isinstance(value, np.ndarray):
        return value.ndim in (2, 3)
    of_pillow = type(value).__module__.startswith("PIL.") and isinstance(value, Image.Image)
    return of_pillow or isinstance(value, bytes)


def kept_picture(value: Any) -> Path:
    """Write a picture to a file of this process, named by its content, and return its path.

    >>> kept_picture(np.zeros((4, 6), np.uint8)) == kept_picture(Image.new("RGB", (6, 4)))
    True
    """
    if isinstance(value, list | tuple):
        try:
            value = np.array(value)
        except ValueError:
            value = None
        if value is not None and value.dtype.kind in "iu" and value.size and 0 <= value.min() <= value.max() <= 255:
            value = value.astype(np.uint8)
    if not is_picture(value):
        what = f"an array of shape {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
        raise MediaError(
            "unreadable picture", f"{what} is no picture: give the name of a file, a Pillow image or an array of pixels"
        )
    pixels = read_picture(value)
    name = hashlib.blake2b(f"{pixels.shape}".encode() + pixels.tobytes(), digest_size=16).hexdigest()
    path = _folder() / f"{name}.png"
    if not path.exists():
        Image.fromarray(pixels).save(path, compress_level=1)
    return path
