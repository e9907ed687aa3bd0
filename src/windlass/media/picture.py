"""Reading pictures: from whatever a file holds to 8-bit RGB pixels, upright, or an error that says what is wrong."""

from __future__ import annotations

import warnings
from codecs import getincrementaldecoder
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from threading import Lock
from typing import IO, TypeAlias

import numpy as np
from numpy.typing import NDArray

from windlass.media.errors import MediaError
from windlass.media.pillow import Image

EXTENSIONS: frozenset[str] = frozenset(
    ".jpg .jpeg .jpe .jfif .png .apng .gif .bmp .dib .tif .tiff .webp .avif .jp2 .ppm .pgm .pbm .pnm".split()
)
"""The endings of picture files, in lower case. The content of a file decides how it is read."""
LARGEST = 100_000_000
"""Pixels of the largest picture that is decoded."""
_TOO_LARGE = f"more than {LARGEST // 1_000_000} megapixels: make it smaller, or leave it out"
Source: TypeAlias = "str | Path | bytes | Image.Image | NDArray[np.generic]"

_FORMATS = ("JPEG", "PNG", "GIF", "BMP", "DIB", "TIFF", "WEBP", "AVIF", "JPEG2000", "PPM")  # none that runs programs
_ORIENTATION = 0x0112  # the EXIF tag
_UPRIGHT = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}
_SPACES = str.maketrans("\t\r\n\f", "    ")
_QUIET = Lock()  # the filters of `warnings` belong to the process: one thread at a time may change them


def read_picture(source: Source, shorter: int | None = None) -> NDArray[np.uint8]:
    """Read a picture as RGB pixels (H, W, 3), as a viewer shows it: turned upright, without transparency (over white).

    16 bits are scaled to 8. The first frame of an animation counts. With `shorter`, the picture is resized (bicubic,
    antialiased) so that its shorter side has so many pixels. More than 100 megapixels are refused before decoding.

    >>> read_picture(Image.new("L", (40, 30), 7)).shape
    (30, 40, 3)
    >>> read_picture(np.zeros((30, 40), dtype=np.uint8), shorter=15).shape
    (15, 20, 3)
    >>> read_picture(b"%PDF-1.7")
    Traceback (most recent call last):
    ...
    windlass.media.errors.MediaError: the bytes of a picture: text, not a picture: ...
    """
    if shorter is not None and shorter < 1:
        raise MediaError("too small", f"shorter: {shorter}: a picture has at least 1 pixel a side: set 1 or more")
    if isinstance(source, np.ndarray):
        return _decoded(_image(source), shorter, "an array")
    if isinstance(source, Image.Image):
        return _decoded(source, shorter, "a picture")
    if isinstance(source, bytes):
        return _opened(BytesIO(source), shorter, "the bytes of a picture")
    name = str(source)
    try:
        path = Path(source)
        if path.is_dir():
            raise MediaError("missing file", f"{name}: a folder, not a picture: name a file in it")
        if path.exists() and not path.is_file():  # a pipe or a device may never end
            raise MediaError("unreadable picture", f"{name}: not a regular file: name a picture")
        with path.open("rb") as file:
            return _opened(file, shorter, name)
    except FileNotFoundError:
        raise MediaError("missing file", f"{name}: no such file: check the path") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or error
        raise MediaError(
            "missing file", f"{name}: cannot be opened ({reason}): check the path and its rights"
        ) from None


def picture_size(path: str | Path) -> tuple[int, int]:
    """The width and height of a picture, upright, as its header tells them.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "wide.png"
    >>> Image.new("L", (40, 30)).save(file)
    >>> picture_size(file)
    (40, 30)
    """
    try:
        with _QUIET, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(path, formats=_FORMATS) as image:
                size = image.size
                turned = image.getexif().get(_ORIENTATION, 1) >= 5
    except Exception:  # as in `_opened`
        raise MediaError("unreadable picture", f"{path}: not a picture that can be read: leave it out") from None
    return (size[1], size[0]) if turned else size


def centre_crop(picture: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """Resize the centre square of a picture (H, W, 3) to (size, size, 3): bicubic, antialiased.

    >>> centre_crop(np.zeros((30, 40, 3), dtype=np.uint8), 10).shape
    (10, 10, 3)
    """
    height, width = picture.shape[:2]
    if height == width == size:
        return picture
    side = min(height, width)
    left, top = (width - side) / 2, (height - side) / 2
    box = (left, top, left + side, top + side)  # the filter sees beyond the box: the same as resizing, then cropping
    return np.array(Image.fromarray(picture).resize((size, size), Image.Resampling.BICUBIC, box=box))


def _opened(file: IO[bytes], shorter: int | None, name: str) -> NDArray[np.uint8]:
    """Read the pixels of an open file."""
    try:
        with _QUIET, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd tags, and of large pictures
            image = Image.open(file, formats=_FORMATS)
    except Image.DecompressionBombError:
        raise MediaError("too large", f"{name}: {_TOO_LARGE}") from None
    except Exception:  # the decoders of damaged files raise any error
        file.seek(0)
        raise MediaError("unreadable picture", f"{name}: {_instead(file.read(1000))}") from None
    with image:
        return _decoded(image, shorter, name)


def _instead(start: bytes) -> str:
    """What a file that is not a picture seems to be, and what to do."""
    if not start:
        return "an empty file, not a picture: copy it again, or leave it out"
    if start[4:8] == b"ftyp" and start[8:12] in (b"heic", b"heix", b"hevc", b"mif1", b"msf1"):
        return "a HEIC picture, which cannot be read: save it as JPEG or PNG"
    with suppress(UnicodeDecodeError):
        if getincrementaldecoder("utf-8")().decode(start).translate(_SPACES).isprintable():
            return "text, not a picture: leave it out, or name the picture"
    return "not a picture that can be read (damaged, or of an unknown format): save it as JPEG or PNG, or leave it out"


def _decoded(image: Image.Image, shorter: int | None, name: str) -> NDArray[np.uint8]:
    """Decode, convert to RGB, resize and turn upright."""
    width, height = image.size
    if not width * height:
        raise MediaError("too small", f"{name}: {width} x {height} pixels: leave it out")
    scale = 1.0 if shorter is None else max(1.0, shorter / min(width, height))
    if width * height * scale**2 > LARGEST:
        with_side = f" with a shorter side of {shorter}" if scale > 1 else ""
        raise MediaError("too large", f"{name}: {width} x {height} pixels,{with_side} {_TOO_LARGE}")
    try:
        if shorter is not None:  # JPEG: decode at a half, quarter or eighth, still twice as large as needed
            image.draft(None, (2 * shorter, 2 * shorter))
        image.load()
        turn = _UPRIGHT.get(_orientation(image))  # after loading, which turns a TIFF
        image = _rgb(image)
    except MemoryError:
        raise
    except Exception as error:  # the decoders of damaged files raise any error
        reason = " ".join(str(error).split()) or type(error).__name__
        text = f"{name}: a damaged picture ({reason}): copy it again, save it as JPEG or PNG, or leave it out"
        raise MediaError("unreadable picture", text) from None
    if shorter is not None:
        side = min(image.size)
        width, height = (max(1, round(length * shorter / side)) for length in image.size)
        image = image.resize((width, height), Image.Resampling.BICUBIC)
    return np.array(image if turn is None else image.transpose(Image.Transpose[turn]))


def _orientation(image: Image.Image) -> int:
    """How the camera was held, 1 to 8, from EXIF; EXIF that cannot be read counts as none."""
    try:
        with _QUIET, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return int(image.getexif().get(_ORIENTATION, 1))
    except Exception:
        return 1


def _rgb(image: Image.Image) -> Image.Image:
    """Convert any mode to RGB."""
    if image.mode.startswith("I") or image.mode == "F":
        return Image.fromarray(_eight_bits(np.array(image))).convert("RGB")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image.convert("RGB")


def _eight_bits(values: NDArray[np.generic]) -> NDArray[np.uint8]:
    """Scale 16 bits and floats from 0 to 1 by their range; other numbers from their least to their greatest."""
    numbers = np.nan_to_num(values.astype(np.float32))
    low, high = float(numbers.min()), float(numbers.max())
    greatest = 65535.0 if values.dtype.kind in "iu" else 1.0
    if low >= 0 and high <= greatest:
        low, high = 0.0, greatest
    scaled: NDArray[np.uint8] = np.rint((numbers - low) * (255 / max(high - low, 1e-30))).astype(np.uint8)
    return scaled


def _image(array: NDArray[np.generic]) -> Image.Image:
    """An array of grey, RGB or RGBA pixels as a picture."""
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim != 2 and not (array.ndim == 3 and array.shape[2] in (3, 4)):
        text = f"an array of shape {array.shape}: give (height, width), (height, width, 3) or (height, width, 4)"
        raise MediaError("unreadable picture", text)
    if not array.size:
        raise MediaError("too small", f"an array of shape {array.shape}: no pixels: leave it out")
    if array.dtype == np.bool_:
        array = array.astype(np.uint8) * 255
    elif array.dtype == np.uint16 or (array.dtype.kind == "f" and array.min() >= 0 and array.max() <= 1):
        array = _eight_bits(array)
    elif array.dtype != np.uint8:
        text = f"an array of {array.dtype}: give uint8 from 0 to 255, uint16 from 0 to 65535, or floats from 0 to 1"
        raise MediaError("unreadable picture", text)
    return Image.fromarray(np.ascontiguousarray(array))
