"""Clips: which frames come out, upright and in bounded memory; and a clear error for every bad file."""

import gc
import sys
import weakref

import numpy as np
import pytest
from PIL import Image

av = pytest.importorskip("av")

from making import encode_clip, encode_sound, tone  # noqa: E402

from windlass.core.errors import WindlassError  # noqa: E402
from windlass.media import clip as clips  # noqa: E402
from windlass.media.clip import EXTENSIONS, read_clip  # noqa: E402
from windlass.media.errors import MediaError  # noqa: E402

SHADES = range(0, 200, 10)
FORMATS = [
    ("mp4", "libx264"), ("mp4", "mpeg4"), ("avi", "mpeg4"), ("avi", "libx264"), ("webm", "libvpx"),
    ("webm", "libvpx-vp9"), ("matroska", "libx264"), ("mpegts", "libx264"), ("mov", "mpeg4"), ("h264", "libx264"),
]  # fmt: skip


@pytest.fixture(scope="module")
def mp4():
    return encode_clip()


def shades(pixels):
    """The shade of each frame, as the clip was made: off by one or two after compression."""
    return (pixels[:, 40:, 50:].mean((1, 2, 3)) / 10).round().astype(int).tolist()


def kind(source, **options):
    with pytest.raises(MediaError) as caught:
        read_clip(source, **options)
    assert "\n" not in str(caught.value)
    return caught.value.kind, str(caught.value)


@pytest.mark.parametrize(("form", "codec"), FORMATS)
def test_every_frame_of_every_format(form, codec):
    pixels, times = read_clip(encode_clip(form, codec))
    assert pixels.shape == (20, 48, 64, 3)
    assert pixels.dtype == np.uint8
    assert shades(pixels) == list(range(20))
    red = pixels[:, 4:20, 4:28].mean((0, 1, 2))
    assert red[0] > 240
    assert red[1:].max() < 20
    if form != "h264":  # a bare stream has no times
        np.testing.assert_allclose(times, np.arange(20) / 10, atol=0.002)


@pytest.mark.parametrize(("form", "codec"), FORMATS)
def test_frames_are_the_middles_of_equal_parts(form, codec):
    pixels, times = read_clip(encode_clip(form, codec), frames=4)
    assert shades(pixels) == [2, 7, 12, 17]
    if form != "h264":
        np.testing.assert_allclose(times, [0.2, 0.7, 1.2, 1.7], atol=0.002)


@pytest.mark.parametrize("frames", [1, 3, 7, 19, 20])
def test_so_many_different_frames(mp4, frames):
    pixels, times = read_clip(mp4, frames=frames)
    assert len(set(shades(pixels))) == len(times) == frames


def test_a_short_clip_gives_all_it_has(mp4):
    assert shades(read_clip(mp4, frames=50)[0]) == list(range(20))


def test_rate_takes_the_frame_that_is_seen(mp4):
    pixels, times = read_clip(mp4, rate=4)
    assert times.tolist() == [0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75]
    assert shades(pixels) == [0, 2, 5, 7, 10, 12, 15, 17]
    assert shades(read_clip(mp4, rate=20)[0]) == [number // 2 for number in range(40)]
    assert len(read_clip(mp4, rate=0.1)[0]) == 1


def test_rate_of_a_clip_with_uneven_frames():
    uneven = encode_clip(shades=[0, 10, 20, 30], stamps=[0, 1, 10, 11])
    pixels, _ = read_clip(uneven, rate=5)
    assert shades(pixels) == [0, 1, 1, 1, 1, 2]
    np.testing.assert_allclose(read_clip(uneven)[1], [0, 0.1, 1, 1.1], atol=1e-6)


def test_shorter_side(mp4):
    assert read_clip(mp4, frames=2, shorter=24)[0].shape == (2, 24, 32, 3)
    assert read_clip(mp4, frames=2, shorter=96)[0].shape == (2, 96, 128, 3)
    assert read_clip(mp4, frames=2, shorter=1)[0].shape == (2, 1, 1, 3)
    large, small = read_clip(mp4, frames=1)[0], read_clip(mp4, frames=1, shorter=24)[0]
    wanted = np.asarray(Image.fromarray(large[0]).resize((32, 24), Image.Resampling.BICUBIC), int)
    assert np.abs(small[0] - wanted).mean() < 3


@pytest.mark.parametrize(("matrix", "corner"), [
    ((0, 1, -1, 0), (0, -1)),  # a phone held upright: a quarter clockwise, so that top left is shown top right
    ((-1, 0, 0, -1), (-1, -1)),
    ((0, -1, 1, 0), (-1, 0)),
])  # fmt: skip
def test_rotation(mp4, matrix, corner):
    a, b, c, d = ((number << 16 & 0xFFFFFFFF).to_bytes(4, "big") for number in matrix)
    start = mp4.index(b"tkhd") + 44  # version 0 of the box: the matrix begins 40 bytes after its version
    turned = mp4[:start] + a + b + bytes(4) + c + d + mp4[start + 20 :]
    pixels, _ = read_clip(turned, frames=1)
    assert pixels.shape == ((1, 64, 48, 3) if matrix[0] == 0 else (1, 48, 64, 3))
    red = (pixels[0, :, :, 0] > 230) & (pixels[0, :, :, 1] < 40)
    assert red[corner]
    assert red.sum() == pytest.approx(32 * 24, rel=0.1)


def test_wrong_extension_and_paths(mp4, tmp_path):
    path = tmp_path / "a clip é.txt"
    path.write_bytes(mp4)
    for source in (path, str(path)):
        np.testing.assert_array_equal(read_clip(source)[0], read_clip(mp4)[0])
    assert ".mp4" in EXTENSIONS
    assert all(ending == ending.lower() and ending[0] == "." for ending in EXTENSIONS)


def test_one_frame_one_pixel():
    one = encode_clip(shades=[70])
    for options in ({}, {"frames": 8}, {"rate": 5}):
        pixels, times = read_clip(one, **options)
        assert pixels.shape == (1, 48, 64, 3)
        assert times.tolist() == [0]
    pixels, _ = read_clip(encode_clip("avi", "ffv1", [0, 100, 200], (1, 1), pixel="bgr0"))
    assert pixels.ravel().tolist() == [0] * 3 + [100] * 3 + [200] * 3
    tiny, _ = read_clip(encode_clip("avi", "ffv1", [0, 100], (1, 1), pixel="bgr0"), shorter=8)
    assert tiny.shape == (2, 8, 8, 3)


@pytest.mark.parametrize(("content", "words"), [
    (b"", "an empty file"),
    (b"a, b\n" * 100, "text, not a clip"),
    (b"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n/etc/passwd\n", "text, not a clip"),
    (b"ffconcat version 1.0\nfile other.mp4\n", "text, not a clip"),
    (bytes(range(256)) * 40, "not a clip that can be read"),
    (b"\x89PNG\r\n\x1a\n" + bytes(100), "not a clip that can be read"),
])  # fmt: skip
def test_no_clip(tmp_path, content, words, capfd):
    path = tmp_path / "clip.mp4"
    path.write_bytes(content)
    sort, text = kind(path)
    assert sort == "unreadable clip"
    assert text.startswith(f"{path}: {words}")
    assert kind(content)[1].startswith("the bytes of a clip: ")
    assert capfd.readouterr() == ("", "")


def test_missing_and_odd_paths(tmp_path):
    assert kind(tmp_path / "none.mp4")[0] == "missing file"
    assert kind("http://example.com/clip.mp4") == (
        "missing file",
        "http://example.com/clip.mp4: no such file: check the path",
    )
    assert kind("/dev/zero")[0] == "missing file"
    assert kind("clip\0.mp4")[0] == "missing file"


def test_sound_alone_is_no_clip():
    assert kind(encode_sound(tone(440)))[0] == "unreadable clip"


def test_picture_is_no_clip(tmp_path):
    Image.new("RGB", (40, 30)).save(tmp_path / "still.jpg")
    assert kind(tmp_path / "still.jpg")[0] == "unreadable clip"


@pytest.mark.parametrize(("form", "codec"), FORMATS)
def test_cut_off_anywhere(form, codec):
    whole = encode_clip(form, codec)
    for part in range(1, 10):
        cut = whole[: len(whole) * part // 10]
        try:
            pixels, times = read_clip(cut, frames=4)
        except MediaError:
            assert kind(cut)[0] == "unreadable clip"
            continue
        known = form not in ("mpegts", "h264")  # streams, that may end anywhere
        assert len(pixels) == len(times) == 4 or (not known and len(times))
        assert shades(pixels) == sorted(shades(pixels))
        if form in ("webm", "matroska", "mp4", "mov") and part < 9:  # the header tells the length
            assert kind(cut)[0] == "unreadable clip"


def test_cut_off_uses_what_is_there():
    whole = encode_clip("webm", "libvpx")
    cut = whole[: len(whole) * 6 // 10]
    pixels, _ = read_clip(cut, frames=2)
    assert len(pixels) == 2
    assert max(shades(pixels)) < 12
    assert "cut off or damaged" in kind(cut, frames=18)[1]
    assert "cut off or damaged" in kind(cut, rate=2)[1]
    assert "cut off or damaged" in kind(cut)[1]


@pytest.mark.parametrize(("form", "codec"), FORMATS)
def test_damaged_anywhere(form, codec):
    whole = np.frombuffer(encode_clip(form, codec), np.uint8)
    chance = np.random.default_rng(1)
    for _ in range(25):
        damaged = whole.copy()
        damaged[chance.integers(len(whole), size=10)] = chance.integers(256, size=10)
        try:
            pixels, times = read_clip(damaged.tobytes(), frames=4)
        except MediaError:
            continue
        assert len(pixels) == len(times) > 0


def test_options(mp4):
    for options in ({"frames": 0}, {"rate": 0.0}, {"rate": float("nan")}, {"rate": float("inf")}, {"shorter": -1}):
        with pytest.raises(WindlassError, match="must be above 0"):
            read_clip(mp4, **options)
    with pytest.raises(WindlassError, match="leave one of them out"):
        read_clip(mp4, frames=2, rate=2)


def test_too_large(mp4, monkeypatch):
    sort, text = kind(mp4, rate=1e6, shorter=480)
    assert sort == "too large"
    assert "set frames or shorter" in text
    monkeypatch.setattr(clips, "LARGEST", 1000)
    assert kind(mp4)[0] == "too large"


class Held:
    """A decoded frame that can be watched."""

    def __init__(self, frame):
        self.frame = frame

    def __getattr__(self, name):
        return getattr(self.frame, name)


@pytest.mark.parametrize(("form", "codec", "options"), [
    ("mp4", "mpeg4", {"frames": 6}),
    ("mp4", "mpeg4", {"rate": 1}),
    ("webm", "libvpx", {"frames": 6}),
    ("h264", "libx264", {"frames": 6}),
])  # fmt: skip
def test_memory_does_not_grow_with_length(form, codec, options, monkeypatch):
    """No frame but the one at hand is held, decoded or as pixels, beside the array that is returned."""
    held, most = weakref.WeakSet(), []
    decoded, pixels = clips._decoded, clips._pixels

    def watched(*given):
        for frame in decoded(*given):
            watch = Held(frame)
            held.add(watch)
            most.append(len(held))
            yield watch
            del watch

    def scaled(frame, scaler, size):
        return pixels(frame.frame, scaler, size)

    monkeypatch.setattr(clips, "_decoded", watched)
    monkeypatch.setattr(clips, "_pixels", scaled)
    for seconds in (10, 60):
        most.clear()
        long = encode_clip(form, codec, shades=[n % 200 for n in range(10 * seconds)], size=(16, 16))
        out, _ = read_clip(long, **options)
        assert len(out) == options.get("frames", seconds)
        assert len(most) > 8 * seconds  # all frames passed by
        assert max(most) <= 2
    gc.collect()
    assert not held


def test_folder_of_frames(tmp_path):
    for number in (10, 9, 2, 1, 100):
        Image.new("RGB", (40, 30), (number, number, number)).save(tmp_path / f"frame{number}.PNG")
    (tmp_path / "notes.txt").write_text("no frame")
    (tmp_path / "._frame1.png").write_text("no frame")
    pixels, times = read_clip(tmp_path)
    assert pixels[:, 0, 0, 0].tolist() == [1, 2, 9, 10, 100]
    assert times.tolist() == [0, 1, 2, 3, 4]
    pixels, times = read_clip(str(tmp_path), frames=2, shorter=15)
    assert pixels.shape == (2, 15, 20, 3)
    assert (pixels[:, 0, 0, 0].tolist(), times.tolist()) == ([2, 10], [1, 3])
    with pytest.raises(WindlassError, match="rate"):
        read_clip(tmp_path, rate=2)


def test_bad_folders(tmp_path):
    assert "without pictures" in kind(tmp_path)[1]
    Image.new("RGB", (40, 30)).save(tmp_path / "1.png")
    Image.new("RGB", (20, 30)).save(tmp_path / "2.png")
    sort, text = kind(tmp_path)
    assert sort == "unreadable clip"
    assert "2.png: 20 x 30 pixels, the frames before 40 x 30 pixels" in text
    (tmp_path / "2.png").write_bytes(b"")
    sort, text = kind(tmp_path)
    assert sort == "unreadable picture"
    assert "2.png" in text


def test_without_av(mp4, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(WindlassError, match=r'pip install "windlass\[video\]"'):
        read_clip(mp4)
