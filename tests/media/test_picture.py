"""Pictures of every mode, format and damage."""

import io
import pickle
import struct
import threading
import warnings
import zlib
from contextlib import suppress

import numpy as np
import pytest
from PIL import Image

from windlass.core.errors import DataError
from windlass.media.errors import MediaError
from windlass.media.picture import EXTENSIONS, centre_crop, read_picture

RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)


def saved(image, format="PNG", **options):
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


def photo(width=64, height=48):
    """Smooth colours, which survive JPEG."""
    y, x = np.mgrid[0:height, 0:width]
    pixels = np.stack([255 * x / width, 255 * y / height, np.full_like(x, 90)], axis=2)
    return Image.fromarray(pixels.astype(np.uint8))


def png_header(width, height):
    """A PNG that claims a size and holds no pixels."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def refused(source, kind, *words, **options):
    with pytest.raises(MediaError) as caught:
        read_picture(source, **options)
    text = str(caught.value)
    assert caught.value.kind == kind
    assert "\n" not in text
    for word in words:
        assert word in text
    return text


@pytest.mark.parametrize("format", ["PNG", "BMP", "TIFF", "PPM", "GIF", "WEBP", "JPEG", "JPEG2000"])
def test_every_format_gives_the_same_colours(format):
    options = {"lossless": True} if format == "WEBP" else {"quality": 95} if format == "JPEG" else {}
    plain = Image.new("RGB", (40, 30), (200, 100, 50))
    picture = read_picture(saved(plain, format, **options))
    assert picture.shape == (30, 40, 3)
    assert picture.dtype == np.uint8
    assert picture.flags.writeable
    assert np.abs(picture.astype(int) - (200, 100, 50)).max() <= 3


@pytest.mark.parametrize(
    ("mode", "colour", "expected"),
    [
        ("1", 1, WHITE),
        ("L", 77, (77, 77, 77)),
        ("P", 3, None),
        ("LA", (10, 0), WHITE),
        ("LA", (10, 255), (10, 10, 10)),
        ("RGBA", (255, 0, 0, 0), WHITE),
        ("RGBA", (255, 0, 0, 255), RED),
        ("RGBA", (0, 0, 0, 51), (204, 204, 204)),
        ("I;16", 65535, WHITE),
        ("I;16", 25700, (100, 100, 100)),
        ("I;16", 257, (1, 1, 1)),
    ],
)
def test_every_mode_of_a_png(mode, colour, expected):
    image = Image.new(mode, (5, 4), colour)
    expected = expected or image.convert("RGB").getpixel((0, 0))
    picture = read_picture(saved(image))
    assert picture.shape == (4, 5, 3)
    assert (picture == expected).all()


@pytest.mark.parametrize("format", ["JPEG", "TIFF"])
def test_cmyk_is_converted(format):
    picture = read_picture(saved(Image.new("CMYK", (16, 16), (0, 255, 255, 0)), format))
    assert np.abs(picture.astype(int) - RED).max() <= 3


def test_floats_of_a_tiff_are_scaled():
    ramp = np.linspace(-5, 5, 12, dtype=np.float32).reshape(3, 4)
    picture = read_picture(saved(Image.fromarray(ramp), "TIFF"))
    assert picture.min() == 0
    assert picture.max() == 255
    half = read_picture(saved(Image.fromarray(np.full((3, 4), 0.5, np.float32)), "TIFF"))
    assert set(half.ravel()) == {128}


def test_palette_with_a_transparent_colour():
    image = Image.new("P", (2, 1))
    image.putpalette([*RED, *GREEN])
    image.putpixel((1, 0), 1)
    picture = read_picture(saved(image, transparency=1))
    assert picture.tolist() == [[list(RED), list(WHITE)]]


def test_rgb_with_a_transparent_colour():
    image = Image.new("RGB", (2, 1), RED)
    image.putpixel((1, 0), GREEN)
    assert read_picture(saved(image, transparency=GREEN)).tolist() == [[list(RED), list(WHITE)]]


@pytest.mark.parametrize("format", ["GIF", "PNG", "WEBP", "TIFF"])
def test_an_animation_gives_its_first_frame(format):
    frames = [Image.new("RGB", (8, 8), colour) for colour in (RED, GREEN, BLUE)]
    data = saved(frames[0], format, save_all=True, append_images=frames[1:])
    assert np.abs(read_picture(data).astype(int) - RED).max() <= 3


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_as_a_viewer_shows_it(orientation):
    upright = np.zeros((32, 48, 3), np.uint8)
    upright[:16, :24], upright[:16, 24:], upright[16:, :24] = RED, GREEN, BLUE
    stored = {  # what the camera stores for the upright picture
        1: lambda x: x,
        2: lambda x: x[:, ::-1],
        3: lambda x: x[::-1, ::-1],
        4: lambda x: x[::-1],
        5: lambda x: x.transpose(1, 0, 2),
        6: lambda x: np.rot90(x, 1),
        7: lambda x: np.rot90(x, 2).transpose(1, 0, 2),
        8: lambda x: np.rot90(x, -1),
    }[orientation](upright)
    exif = Image.Exif()
    exif[0x0112] = orientation
    for format in ("PNG", "TIFF"):
        data = saved(Image.fromarray(np.ascontiguousarray(stored)), format, exif=exif)
        assert (read_picture(data) == upright).all()
        assert read_picture(data, shorter=16).shape == (16, 24, 3)


@pytest.mark.parametrize("exif", [b"Exif\x00\x00II*\x00\xff\xff\xff\xff", b"Exif\x00\x00rubbish", b"Exif\x00\x00"])
def test_damaged_exif_does_not_hide_the_picture(exif):
    assert read_picture(saved(photo(), "JPEG", exif=exif)).shape == (48, 64, 3)


def test_an_orientation_that_does_not_exist_is_ignored():
    exif = Image.Exif()
    exif[0x0112] = 77
    assert (read_picture(saved(photo(), exif=exif)) == np.array(photo())).all()


def test_one_pixel():
    data = saved(Image.new("RGB", (1, 1), RED))
    assert read_picture(data).tolist() == [[list(RED)]]
    assert read_picture(data, shorter=7).shape == (7, 7, 3)
    assert centre_crop(read_picture(data), 5).tolist() == [[list(RED)] * 5] * 5


@pytest.mark.parametrize(("size", "expected"), [((640, 480), (48, 64)), ((480, 640), (64, 48)), ((10, 10), (48, 48))])
@pytest.mark.parametrize("format", ["PNG", "JPEG"])
def test_the_shorter_side(size, expected, format):
    picture = read_picture(saved(photo(*size), format), shorter=48)
    assert picture.shape == (*expected, 3)


def test_a_jpeg_decoded_small_looks_like_one_decoded_whole():
    data = saved(photo(1600, 1200), "JPEG", quality=95)
    whole = Image.fromarray(read_picture(data)).resize((64, 48), Image.Resampling.BICUBIC)
    assert np.abs(read_picture(data, shorter=48).astype(int) - np.array(whole)).max() <= 4


def test_resizing_is_antialiased():
    stripes = np.zeros((64, 64), np.uint8)
    stripes[:, ::2] = 255
    inner = read_picture(stripes, shorter=16)[:, 2:-2]
    assert np.abs(inner.astype(int) - 128).max() <= 2


def test_centre_crop_is_resizing_and_then_cropping():
    picture = np.random.default_rng(1).integers(0, 256, (60, 100, 3), np.uint8)
    resized = np.array(Image.fromarray(picture).resize((50, 30), Image.Resampling.BICUBIC))
    assert np.abs(centre_crop(picture, 30).astype(int) - resized[:, 10:40]).max() <= 1
    tall = centre_crop(picture.transpose(1, 0, 2).copy(), 30)
    assert np.abs(tall.astype(int) - resized[:, 10:40].transpose(1, 0, 2)).max() <= 1
    assert (centre_crop(picture[:60, :60], 60) == picture[:60, :60]).all()


def test_content_decides_and_not_the_extension(tmp_path):
    path = tmp_path / "photo.png"
    path.write_bytes(saved(photo(), "JPEG"))
    assert read_picture(path).shape == (48, 64, 3)
    assert read_picture(str(path)).shape == (48, 64, 3)


def test_missing_files(tmp_path):
    refused(tmp_path / "none.jpg", "missing file", "none.jpg", "no such file")
    refused(tmp_path, "missing file", "a folder")
    refused("nul\0.jpg", "missing file", "cannot be opened")
    refused("x" * 5000 + ".jpg", "missing file")
    refused("", "missing file")
    refused("/dev/zero", "unreadable picture", "not a regular file")


def test_files_that_are_no_pictures(tmp_path):
    for name, data, word in [
        ("empty.jpg", b"", "empty"),
        ("text.jpg", b"<html>404 not found</html>", "text"),
        ("utf8.png", "kein Bild: äöü".encode(), "text"),
        ("noise.jpg", bytes(range(256)) * 4, "damaged"),
        ("phone.jpg", b"\x00\x00\x00\x18ftypheic\x00\x00\x00\x00mif1heic", "HEIC"),
        ("start.jpg", b"\xff\xd8\xff", "damaged"),
        ("start.png", b"\x89PNG\r\n\x1a\n", "damaged"),
        ("program.eps", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "text"),
    ]:
        (tmp_path / name).write_bytes(data)
        refused(tmp_path / name, "unreadable picture", name, word)
        refused(data, "unreadable picture", word)


@pytest.mark.parametrize("format", ["JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "JPEG2000", "PPM"])
@pytest.mark.parametrize("kept", [0.02, 0.3, 0.6, 0.9])
def test_a_file_cut_off_is_refused(format, kept):
    noise = Image.fromarray(np.random.default_rng(3).integers(0, 256, (90, 120, 3), np.uint8))
    data = saved(noise, format)
    refused(data[: int(len(data) * kept)], "unreadable picture")


@pytest.mark.filterwarnings("ignore")  # Pillow warns of odd tags
def test_damage_anywhere_gives_pixels_or_one_error():
    chance = np.random.default_rng(5)
    for format in ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "PPM", "JPEG2000"):
        whole = saved(photo(), format)
        for _ in range(60):
            data = bytearray(whole)
            for place in chance.integers(0, len(data), 4):
                data[place] = chance.integers(0, 256)
            with suppress(MediaError):
                assert read_picture(bytes(data), shorter=8).shape[2] == 3


@pytest.mark.parametrize("size", [(10_001, 10_000), (14_000, 13_000), (60_000, 60_000), (2**31 - 1, 2**31 - 1)])
def test_a_decompression_bomb_is_refused_by_its_header(size):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        refused(png_header(*size), "too large", "100 megapixels", "smaller")


def test_a_picture_that_resizing_would_blow_up_is_refused():
    thin = np.zeros((1, 50_000, 3), np.uint8)
    refused(thin, "too large", "50000 x 1 pixels, with a shorter side of 224", shorter=224)
    assert centre_crop(thin, 224).shape == (224, 224, 3)
    refused(thin, "too small", shorter=0)


def test_arrays():
    grey = np.arange(12, dtype=np.uint8).reshape(3, 4)
    assert (read_picture(grey) == grey[:, :, None]).all()
    assert (read_picture(grey[:, :, None]) == grey[:, :, None]).all()
    assert (read_picture(grey.astype(np.uint16) * 257) == grey[:, :, None]).all()
    assert (read_picture(grey / 255) == grey[:, :, None]).all()
    assert set(read_picture(grey > 5).ravel()) == {0, 255}
    colours = np.random.default_rng(2).integers(0, 256, (3, 4, 3), np.uint8)
    assert (read_picture(colours) == colours).all()
    assert (read_picture(colours[:, ::-1]) == colours[:, ::-1]).all()
    assert (read_picture(np.concatenate([colours, np.zeros_like(colours[:, :, :1])], 2)) == 255).all()
    for array, kind, word in [
        (np.zeros((3, 40, 40), np.uint8), "unreadable picture", "(3, 40, 40)"),
        (np.zeros(7, np.uint8), "unreadable picture", "(7,)"),
        (np.zeros((0, 4, 3), np.uint8), "too small", "no pixels"),
        (np.full((3, 4), 200.0), "unreadable picture", "float64"),
        (np.full((3, 4), np.nan), "unreadable picture", "float64"),
        (np.zeros((3, 4), int), "unreadable picture", "int64"),
    ]:
        refused(array, kind, word)


def test_an_open_image_stays_open():
    image = Image.open(io.BytesIO(saved(photo(), "JPEG")))
    whole = read_picture(image)
    assert (read_picture(image) == whole).all()
    refused(Image.new("RGB", (0, 5)), "too small")


def test_extensions_are_lower_case_with_the_dot():
    assert {".jpg", ".jpeg", ".png", ".webp", ".gif"} <= EXTENSIONS
    assert all(one == one.lower() and one.startswith(".") for one in EXTENSIONS)


def test_threads_read_at_once():
    data, results = saved(photo(), "JPEG"), []
    threads = [threading.Thread(target=lambda: results.append(read_picture(data))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8
    assert all((one == results[0]).all() for one in results)


def test_an_error_survives_a_worker_process():
    error = pickle.loads(pickle.dumps(MediaError("too large", "a.png: too large")))
    assert isinstance(error, DataError)
    assert (error.kind, str(error)) == ("too large", "a.png: too large")
