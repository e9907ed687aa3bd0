"""Sound: the samples of every format, a clear error for every bad file, and the formulas of the spectrogram."""

import math
import struct
import sys

import numpy as np
import pytest

av = pytest.importorskip("av")

from making import encode_clip, encode_sound, tone  # noqa: E402

from windlass.core.errors import WindlassError  # noqa: E402
from windlass.media import sound as sounds  # noqa: E402
from windlass.media.clip import read_clip  # noqa: E402
from windlass.media.errors import MediaError  # noqa: E402
from windlass.media.sound import EXTENSIONS, log_mel, read_sound  # noqa: E402

NOTE = tone(440)


def kind(source, **options):
    with pytest.raises(MediaError) as caught:
        read_sound(source, **options)
    assert "\n" not in str(caught.value)
    return caught.value.kind, str(caught.value)


@pytest.mark.parametrize(("codec", "off"), [
    ("pcm_u8", 1 / 100), ("pcm_s16le", 1e-4), ("pcm_s24le", 1e-6), ("pcm_s32le", 1e-6), ("pcm_f32le", 1e-6),
    ("pcm_f64le", 1e-6), ("pcm_mulaw", 0.03), ("pcm_alaw", 0.03),
])  # fmt: skip
def test_every_depth_of_wav(codec, off):
    samples = read_sound(encode_sound(NOTE, codec=codec))
    assert samples.dtype == np.float32
    np.testing.assert_allclose(samples, NOTE, atol=off)


@pytest.mark.parametrize(("form", "codec", "off"), [
    ("flac", "flac", 1e-4), ("aiff", "pcm_s16be", 1e-4), ("mp3", "libmp3lame", 0.05), ("ogg", "libopus", 0.2),
    ("mp4", "aac", 0.1), ("webm", "libopus", 0.2), ("matroska", "pcm_s16le", 1e-4),
])  # fmt: skip
def test_every_format(form, codec, off):
    samples = read_sound(encode_sound(NOTE, form=form, codec=codec))
    assert abs(len(samples) - len(NOTE)) <= 0.15 * len(NOTE)  # an encoder pads
    assert abs(samples).max() <= 1
    middle = samples[4000:12000]
    assert abs(np.fft.rfft(middle * np.hanning(8000))).argmax() == 220  # 440 Hz, in steps of 2
    assert math.sqrt(2 * (middle**2).mean()) == pytest.approx(0.5, abs=off)


def test_channels_are_averaged():
    left, right = tone(440), np.zeros(16_000, np.float32)
    np.testing.assert_allclose(read_sound(encode_sound([left, right])), left / 2, atol=1e-4)
    np.testing.assert_allclose(read_sound(encode_sound([left, left])), left, atol=1e-4)
    np.testing.assert_allclose(read_sound(encode_sound([left] * 6)), left, atol=1e-4)


@pytest.mark.parametrize("rate", [8000, 11_025, 16_000, 22_050, 44_100, 48_000])
def test_resampled(rate):
    samples = read_sound(encode_sound(tone(440, rate=rate), rate))
    assert len(samples) == 16_000
    np.testing.assert_allclose(samples[500:-500], NOTE[500:-500], atol=2e-3)


def test_other_rate():
    samples = read_sound(encode_sound(NOTE), rate=8000)
    np.testing.assert_allclose(samples[300:-300], tone(440, rate=8000)[300:-300], atol=2e-3)
    aliased = read_sound(encode_sound(tone(7000)), rate=8000)  # above half the rate: must go, not fold back
    assert abs(aliased[300:-300]).max() < 0.01
    for rate in (0, -1):
        with pytest.raises(WindlassError, match="rate"):
            read_sound(encode_sound(NOTE), rate=rate)


def test_silence_and_single_samples():
    assert not read_sound(encode_sound(np.zeros(1000))).any()
    assert read_sound(encode_sound([0.5])).tolist() == pytest.approx([0.5], abs=1e-4)
    assert len(read_sound(encode_sound([0.5], 8000))) == 2
    assert len(read_sound(encode_sound([0.5], 48_000))) == 1
    assert kind(encode_sound(NOTE)[:44])[0] in ("too small", "unreadable sound")


def test_loud_and_senseless_samples():
    assert abs(read_sound(encode_sound(3 * NOTE, codec="pcm_f32le"))).max() == 1
    sick = NOTE.copy()
    sick[100] = np.nan
    assert "not numbers" in kind(encode_sound(sick, codec="pcm_f32le"))[1]


def test_sound_of_a_clip_and_clip_without_sound():
    assert "no sound in it" in kind(encode_clip())[1]
    both = encode_clip(sound=NOTE)
    assert abs(np.fft.rfft(read_sound(both)[4000:12000] * np.hanning(8000))).argmax() == 220
    np.testing.assert_array_equal(read_clip(both)[0], read_clip(encode_clip())[0])


def test_unknown_codec():
    whole = encode_sound(NOTE)
    assert kind(whole[:20] + b"\x77\x77" + whole[22:])[0] == "unreadable sound"


def test_wrong_extension(tmp_path):
    path = tmp_path / "é.mp3"
    path.write_bytes(encode_sound(NOTE))
    np.testing.assert_array_equal(read_sound(path), read_sound(str(path)))
    assert all(ending == ending.lower() and ending[0] == "." for ending in EXTENSIONS)
    assert {".wav", ".flac", ".mp3", ".ogg"} <= EXTENSIONS


@pytest.mark.parametrize(("content", "words"), [
    (b"", "an empty file"),
    (b"hello\n" * 500, "text, not a sound"),
    (b"#EXTM3U\nhttp://127.0.0.1/a.mp3\n", "text, not a sound"),
    (bytes(range(32)) * 40, "not a sound that can be read"),
    (b"RIFF\0\0\0\0WAVE", "not a sound that can be read"),
])  # fmt: skip
def test_no_sound(tmp_path, content, words, capfd):
    path = tmp_path / "sound.wav"
    path.write_bytes(content)
    sort, text = kind(path)
    assert sort == "unreadable sound"
    assert text.startswith(f"{path}: {words}")
    assert capfd.readouterr() == ("", "")


def test_missing_and_odd_paths(tmp_path):
    assert kind(tmp_path / "none.wav")[0] == "missing file"
    assert kind("http://example.com/a.wav")[0] == "missing file"
    assert kind(tmp_path)[0] == "missing file"
    assert kind("/dev/zero")[0] == "missing file"


@pytest.mark.parametrize(("form", "codec", "rate"), [
    ("wav", "pcm_s16le", 16_000), ("wav", "pcm_u8", 8000), ("flac", "flac", 16_000), ("aiff", "pcm_s16be", 16_000),
    ("webm", "libopus", 16_000), ("mp4", "aac", 16_000),
])  # fmt: skip
def test_cut_off(form, codec, rate):
    whole = encode_sound(tone(440, 2, rate), rate, form, codec)
    for part in (1, 5, 8):
        assert kind(whole[: len(whole) * part // 10])[0] == "unreadable sound"
    assert len(read_sound(whole)) > 31_000


@pytest.mark.parametrize(("form", "codec"), [("mp3", "libmp3lame"), ("ogg", "libopus")])
def test_cut_off_where_no_length_is_told(form, codec):
    whole = encode_sound(tone(440, 2), 16_000, form, codec)
    assert 0.4 < len(read_sound(whole[: len(whole) // 2])) / 32_000 < 0.6


@pytest.mark.parametrize("size", [0, 0x7FFFFFFF, 0xFFFFFFFF])
def test_wav_written_as_a_stream(size):
    whole = encode_sound(NOTE)
    place = whole.index(b"data") + 4
    np.testing.assert_array_equal(
        read_sound(whole[:place] + struct.pack("<I", size) + whole[place + 4 :]), read_sound(whole)
    )


@pytest.mark.parametrize(("form", "codec"), [
    ("wav", "pcm_s16le"), ("flac", "flac"), ("mp3", "libmp3lame"), ("ogg", "libopus"), ("mp4", "aac"),
])  # fmt: skip
def test_damaged_anywhere(form, codec):
    whole = np.frombuffer(encode_sound(NOTE, form=form, codec=codec), np.uint8)
    chance = np.random.default_rng(1)
    for number in range(40):
        damaged = whole.copy()
        where = chance.integers(len(whole) if number % 2 else 100, size=6)
        damaged[where] = chance.integers(256, size=6)
        try:
            samples = read_sound(damaged.tobytes())
        except MediaError:
            continue
        assert np.isfinite(samples).all()
        assert abs(samples).max() <= 1


def test_longer_than_an_hour(monkeypatch):
    monkeypatch.setattr(sounds, "LONGEST", 60)
    assert len(read_sound(encode_sound(np.zeros(60 * 8000), 8000))) == 60 * 16_000
    assert kind(encode_sound(np.zeros(61 * 8000), 8000)) == (
        "too large", "the bytes of a sound: longer than 1 minutes: cut it into pieces"
    )  # fmt: skip


def test_without_av(monkeypatch):
    whole = encode_sound(NOTE)
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(WindlassError, match=r'pip install "windlass\[sound\]"'):
        read_sound(whole)


def straightforward(samples, rate, bands, window, hop, low, high, size):
    """The formulas, one frame, band and frequency at a time."""

    def mel(f):
        return f / (200 / 3) if f < 1000 else 15 + 27 * math.log(f / 1000) / math.log(6.4)

    def hertz(m):
        return m * 200 / 3 if m < 15 else 1000 * 6.4 ** ((m - 15) / 27)

    length, step = round(window * rate), round(hop * rate)
    edges = [hertz(mel(low) + (mel(high) - mel(low)) * i / (bands + 1)) for i in range(bands + 2)]
    hann = [0.5 - 0.5 * math.cos(2 * math.pi * i / length) for i in range(length)]
    rows = []
    for start in range(0, max(1, len(samples) - length + step), step):
        frame = np.zeros(length)
        part = samples[start : start + length]
        frame[: len(part)] = part
        power = abs(np.fft.rfft(frame * hann, size)) ** 2
        row = []
        for left, centre, right in zip(edges, edges[1:], edges[2:], strict=False):
            total = 0.0
            for number, value in enumerate(power):
                f = number * rate / size
                if left < f < right:
                    total += value * ((f - left) / (centre - left) if f < centre else (right - f) / (right - centre))
            row.append(math.log(total * 2 / (right - left) + 1e-6))
        rows.append(row)
    return np.array(rows)


@pytest.mark.parametrize(("rate", "bands", "window", "hop", "low", "high", "size"), [
    (16_000, 80, 0.025, 0.010, 20, None, 512),
    (16_000, 40, 0.032, 0.016, 0, 4000, 512),
    (8000, 80, 0.025, 0.010, 20, None, 512),  # 256 would do for the window, but leaves bands without a frequency
    (22_050, 13, 0.020, 0.0101, 100, 9000, 512),
])  # fmt: skip
def test_log_mel_by_the_formulas(rate, bands, window, hop, low, high, size):
    chance = np.random.default_rng(3)
    samples = (tone(300, 0.2, rate) + 0.1 * chance.standard_normal(round(0.2 * rate))).astype(np.float32)
    wanted = straightforward(samples, rate, bands, window, hop, low, high or rate / 2, size)
    found = log_mel(samples, rate, bands, window, hop, low, high)
    assert found.dtype == np.float32
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, atol=2e-3)


@pytest.mark.parametrize("band", [0, 10, 40, 79])
def test_a_tone_peaks_in_its_band(band):
    mels = np.linspace(0.3, 15 + 27 * math.log(8) / math.log(6.4), 82)
    centre = mels[band + 1] * 200 / 3 if mels[band + 1] < 15 else 1000 * 6.4 ** ((mels[band + 1] - 15) / 27)
    assert log_mel(tone(centre), 16_000)[5:-5].mean(axis=0).argmax() == band


@pytest.mark.parametrize(("rate", "bands"), [(8000, 80), (16_000, 128), (4000, 80), (48_000, 256), (16_000, 1)])
def test_no_band_is_empty(rate, bands):
    noise = np.random.default_rng(1).standard_normal(rate).astype(np.float32)
    assert log_mel(noise, rate, bands).mean(axis=0).min() > math.log(1e-6) + 1


def test_log_mel_of_short_long_and_silent_sound():
    assert log_mel(np.float32([0.5]), 16_000).shape == (1, 80)
    assert log_mel(np.zeros(400, np.float32), 16_000).shape == (1, 80)
    assert log_mel(np.zeros(401, np.float32), 16_000).shape == (2, 80)
    np.testing.assert_allclose(log_mel(np.zeros(800, np.float32), 16_000), math.log(1e-6), rtol=1e-6)
    long = np.random.default_rng(1).standard_normal(160 * 5000).astype(np.float32)
    whole = log_mel(long, 16_000)
    np.testing.assert_allclose(whole[4000:4200], log_mel(long[160 * 4000 : 160 * 4199 + 400], 16_000), atol=1e-4)


def test_filters_are_computed_once():
    sounds._filters.cache_clear()
    for _ in range(3):
        log_mel(NOTE, 16_000)
    assert sounds._filters.cache_info().misses == 1


@pytest.mark.parametrize("options", [
    {"low": -1}, {"high": 9000}, {"low": 500, "high": 400}, {"bands": 0}, {"window": 0}, {"hop": 0}, {"bands": 5000},
])  # fmt: skip
def test_bad_options(options):
    with pytest.raises(WindlassError):
        log_mel(NOTE, 16_000, **options)


@pytest.mark.parametrize("samples", [np.zeros(0, np.float32), np.zeros((2, 800), np.float32), np.zeros(800, np.int16)])
def test_bad_samples(samples):
    with pytest.raises(WindlassError, match="samples"):
        log_mel(samples, 16_000)
