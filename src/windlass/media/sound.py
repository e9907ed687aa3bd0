"""Reading sound: whatever the file holds, out come mono samples; and their log mel spectrogram."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from windlass.core.errors import WindlassError
from windlass.media.errors import MediaError
from windlass.media.opening import file_of, header_length, name_of, opened

if TYPE_CHECKING:
    from av import AudioFrame, AudioResampler
    from av.audio.stream import AudioStream
    from av.container import InputContainer

EXTENSIONS: frozenset[str] = frozenset(
    ".wav .w64 .flac .mp3 .ogg .oga .opus .m4a .aac .wma .aif .aiff .aifc .au .caf .amr .weba .mka".split()
)
"""The endings of sound files, in lower case. The content of a file decides how it is read."""
LONGEST = 3600
"""Seconds of the longest sound that is read."""
_LOST = 0.1  # seconds that may be missing: encoders pad and trim by less
_GUESSED = {"mp3", "aac", "amr", "ac3", "mpegts", "mpeg"}  # their length is guessed from the bit rate
_BLOCK = 4096  # frames of a spectrogram at a time, which bounds the memory


def read_sound(source: str | Path | bytes, rate: int = 16_000) -> NDArray[np.float32]:
    """Read a sound file, or the sound of a clip, as mono samples in [-1, 1], so many a second.

    Channels are averaged. A sound of more than an hour is an error, and so is one that is cut off or damaged by more
    than a tenth of a second, where the format tells the length (MP3 and Ogg do not).

    >>> import io, wave
    >>> file = io.BytesIO()
    >>> with wave.open(file, "wb") as writer:
    ...     writer.setparams((1, 2, 16_000, 0, "NONE", ""))
    ...     writer.writeframes(np.array([0, 16_384, -32_768], "<i2").tobytes())
    >>> read_sound(file.getvalue()).tolist()
    [0.0, 0.5, -1.0]
    """
    if not 1 <= rate <= 1_000_000:
        raise WindlassError(f"rate: {rate}: must be between 1 and 1000000 samples a second")
    name = name_of(source, "sound")
    chunks: list[NDArray[np.float32]] = []
    seconds = 0.0
    with opened(source, "sound") as container:
        from av import AudioResampler

        streams = [stream for stream in container.streams.audio if stream.codec_context is not None]  # of a known codec
        if not streams:
            raise MediaError("unreadable sound", f"{name}: no sound in it (cut off, or pictures alone): leave it out")
        stream = streams[0]
        length = None if container.format.name in _GUESSED else header_length(container, stream)
        if container.format.name == "wav":
            length = _wav_length(source, name, stream)
        resampler, form = None, None
        for frame in _decoded(container, stream):
            seconds += frame.samples / frame.sample_rate
            if seconds > LONGEST + _LOST:
                raise MediaError("too large", f"{name}: longer than {LONGEST // 60} minutes: cut it into pieces")
            if form != (form := (frame.format.name, frame.layout.name, frame.sample_rate)):  # it may change on the way
                chunks += _resampled(resampler, None)
                resampler = AudioResampler(format="fltp", rate=rate)
            chunks += _resampled(resampler, frame)
        chunks += _resampled(resampler, None)
    if not seconds:
        raise MediaError("too small", f"{name}: no samples in it: record it again, or leave it out")
    if length is not None and seconds < length - _LOST:
        raise MediaError(
            "unreadable sound",
            f"{name}: cut off or damaged ({seconds:.1f} of {length:.1f} seconds can be read): "
            "copy it again, or leave it out",
        )
    samples = np.zeros(max(1, round(seconds * rate)), np.float32)  # the resampler may be a sample or two off
    there = np.concatenate(chunks)[: len(samples)] if chunks else samples
    samples[: len(there)] = there
    if not np.isfinite(samples).all():
        raise MediaError("unreadable sound", f"{name}: some samples are not numbers: save it again, or leave it out")
    return samples.clip(-1, 1)


def log_mel(
    samples: NDArray[np.float32],
    rate: int,
    bands: int = 80,
    window: float = 0.025,
    hop: float = 0.010,
    low: float = 20.0,
    high: float | None = None,
) -> NDArray[np.float32]:
    """The log mel spectrogram of samples in [-1, 1]: (frames, bands), from `low` to `high` Hz (half the rate if None).

    A frame is a Hann window of `window` seconds, every `hop` seconds, the first from the first sample on; zeros fill
    the last. Its power spectrum is summed by triangles on the Slaney mel scale (linear up to 1000 Hz, logarithmic
    above), each of area 1 in Hz; then log(x + 1e-6). A Fourier transform is long enough that no triangle is empty.

    >>> tone = np.sin(2 * np.pi * 1000 * np.arange(16_000) / 16_000).astype(np.float32)
    >>> spectrogram = log_mel(tone, 16_000)
    >>> spectrogram.shape, int(spectrogram.mean(axis=0).argmax())
    ((99, 80), 25)
    """
    high = rate / 2 if high is None else high
    length, step = round(window * rate), round(hop * rate)
    if not 0 <= low < high <= rate / 2:
        raise WindlassError(
            f"low {low:g} and high {high:g} Hz: must rise, from 0 to at most {rate / 2:g} (half the rate)"
        )
    if not 1 <= bands <= 1000 or length < 2 or step < 1:
        raise WindlassError(
            f"bands {bands}, window {window} s, hop {hop} s: 1 to 1000 bands, and at least a sample a hop"
        )
    if samples.ndim != 1 or not len(samples) or not np.issubdtype(samples.dtype, np.floating):
        raise WindlassError(f"samples: {samples.dtype} {samples.shape}: must be real numbers in [-1, 1], on one axis")
    size, filters = _filters(rate, length, bands, low, high)
    frames = 1 + max(0, math.ceil((len(samples) - length) / step))
    before = (size - length) // 2  # torch puts the window in the middle of the transform
    padded = np.zeros((frames - 1) * step + size, np.float32)
    padded[before : before + len(samples)] = samples
    hann = torch.hann_window(length)
    out = np.empty((frames, bands), np.float32)
    for start in range(0, frames, _BLOCK):
        stop = min(start + _BLOCK, frames)
        part = torch.from_numpy(padded[start * step : (stop - 1) * step + size])
        spectrum = torch.stft(part, size, step, length, hann, center=False, return_complex=True)
        out[start:stop] = torch.log(spectrum.abs().square().T @ filters + 1e-6).numpy()
    return out


def _decoded(container: InputContainer, stream: AudioStream) -> Iterator[AudioFrame]:
    """The decoded parts, without those that are damaged."""
    from av.error import FFmpegError

    for packet in container.demux(stream):
        with suppress(FFmpegError):
            yield from packet.decode()


def _resampled(resampler: AudioResampler | None, frame: AudioFrame | None) -> list[NDArray[np.float32]]:
    """The mono samples that are ready; with None, those that were held back."""
    parts = resampler.resample(frame) if resampler else []
    return [part.to_ndarray().mean(axis=0) for part in parts]


def _wav_length(source: str | Path | bytes, name: str, stream: AudioStream) -> float | None:
    """The seconds that the header of a WAV file tells; PyAV tells those that are there. None: written as a stream."""
    with file_of(source, name, "sound") as file:
        file.seek(12)
        while len(head := file.read(8)) == 8:
            size = int.from_bytes(head[4:], "little")
            if head[:4] == b"data":
                unknown = size == 0 or size >= 0x7FFF0000 or not stream.bit_rate
                return None if unknown else 8 * size / stream.bit_rate
            file.seek(size + size % 2, 1)
    return None


@lru_cache(maxsize=16)
def _filters(rate: int, length: int, bands: int, low: float, high: float) -> tuple[int, Tensor]:
    """The length of the Fourier transform, and the weights of its frequencies in the bands (frequencies, bands)."""
    edges = _hertz(np.linspace(_mel(low), _mel(high), bands + 2))
    size = 2 ** math.ceil(math.log2(max(length, rate / (edges[1] - edges[0]))))
    frequencies = np.arange(size // 2 + 1) * rate / size
    left, centre, right = (edges[i : bands + i, None] for i in range(3))
    rise, fall = (frequencies - left) / (centre - left), (right - frequencies) / (right - centre)
    triangles = np.maximum(0, np.minimum(rise, fall)) * 2 / (right - left)
    return size, torch.from_numpy(triangles.T.astype(np.float32))


_LOG_STEP = math.log(6.4) / 27  # Slaney: 27 mel from 1000 to 6400 Hz


def _mel(hertz: float) -> float:
    return 3 * hertz / 200 if hertz < 1000 else 15 + math.log(hertz / 1000) / _LOG_STEP


def _hertz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    above = 1000 * np.exp(_LOG_STEP * (np.maximum(mel, 15) - 15))
    return np.where(mel < 15, 200 * mel / 3, above)
