"""Reading clips: frames sampled over a whole clip, in the memory of the sampled frames alone."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from windlass.core.errors import WindlassError
from windlass.media import picture
from windlass.media.errors import MediaError
from windlass.media.opening import header_length, name_of, opened

if TYPE_CHECKING:
    from av import VideoFrame
    from av.container import InputContainer
    from av.video.reformatter import VideoReformatter
    from av.video.stream import VideoStream

EXTENSIONS: frozenset[str] = frozenset(
    ".mp4 .m4v .mov .webm .mkv .avi .mpg .mpeg .m2ts .mts .wmv .flv .3gp .ogv".split()
)
"""The endings of clip files, in lower case. The content of a file decides how it is read."""
LARGEST = 100_000_000
"""Pixels of the largest frame that is decoded."""
MOST = 2**31
"""Bytes that the frames of one clip may take."""
Source: TypeAlias = str | Path | bytes
Frames: TypeAlias = NDArray[np.uint8]
Times: TypeAlias = NDArray[np.float64]


def read_clip(
    source: Source, frames: int | None = None, rate: float | None = None, shorter: int | None = None
) -> tuple[Frames, Times]:
    """Read frames of a clip as RGB pixels (F, H, W, 3), upright, with their times in seconds from the first frame (F,).

    Without `frames` and `rate`, every frame is read.

    - `frames`: so many, from the middles of equal parts of the clip; a clip with fewer gives all that it has.
    - `rate`: frames a second: at 0, 1/rate, 2/rate ... the frame that is seen then.
    - `shorter`: the frames are resized (bicubic) so that the shorter side has so many pixels.

    The source is a file, its bytes, or a folder of pictures: the frames in natural order (2 before 10), one a second.
    A clip that is cut off or damaged is an error, except if at least `frames` of its frames can be read.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from PIL import Image
    >>> with TemporaryDirectory() as folder:
    ...     for i in range(12):
    ...         Image.new("L", (40, 30), 20 * i).save(Path(folder) / f"frame{i}.png")
    ...     pixels, times = read_clip(folder, frames=4, shorter=15)
    >>> pixels.shape, pixels[:, 0, 0, 0].tolist(), times.tolist()
    ((4, 15, 20, 3), [20, 80, 140, 200], [1.0, 4.0, 7.0, 10.0])
    """
    for option, value in (("frames", frames), ("rate", rate), ("shorter", shorter)):
        if value is not None and not 0 < value < math.inf:
            raise WindlassError(f"{option}: {value}: must be above 0")
    if frames is not None and rate is not None:
        raise WindlassError("frames and rate both say which frames to read: leave one of them out")
    if not isinstance(source, bytes) and Path(source).is_dir():
        return _read_folder(Path(source), frames, rate, shorter)
    name = name_of(source, "clip")
    for measured, checked in ((_by_packets, True), (_by_decoding, False)):
        clip = measured(source, name, shorter)
        if clip is None:
            continue
        if clip.broken and (frames is None or len(clip.times) < frames):
            raise _damaged(name, len(clip.times))
        numbers, times = _chosen(clip, frames, rate, name)
        pixels = _taken(source, name, clip, numbers, checked)
        if pixels is not None:
            return pixels, times
    raise _damaged(name, 0)


def clip_length(source: str | Path) -> tuple[float | None, int]:
    """The seconds of a clip, and its frames; a folder of pictures has no seconds.

    >>> from windlass.media.samples import sample_clips
    >>> clip_length(sample_clips()[0])
    (None, 3)
    """
    if Path(source).is_dir():
        return None, len(_frames_of(Path(source)))
    clip = _by_packets(source, str(source), 8) or _by_decoding(source, str(source), 8)
    return float(clip.times[-1]) + clip.step, len(clip.times)


@dataclass(frozen=True)
class _Clip:
    """What is known of a clip before its frames are taken."""

    times: Times  # of every frame, from the first
    step: float  # seconds from a frame to the next
    size: tuple[int, int]  # height and width of the frames to return, before they are turned upright
    broken: bool


def _by_packets(source: Source, name: str, shorter: int | None) -> _Clip | None:
    """Measure a clip without decoding, by its packets: one a frame. None where they do not tell the times."""
    stamps: list[int] = []
    broken = False
    with opened(source, "clip") as container:
        stream = _video(container, name)
        for packet in container.demux(stream):
            broken |= packet.is_corrupt
            if packet.size and not packet.is_discard:
                if packet.pts is None:
                    return None
                stamps.append(packet.pts)
        return _measured(container, stream, sorted(stamps), broken, name, shorter) if stamps else None


def _by_decoding(source: Source, name: str, shorter: int | None) -> _Clip:
    """Measure a clip by decoding every frame: where packets are not frames, or some are damaged."""
    stamps: list[int | None] = []
    broken = False
    with opened(source, "clip") as container:
        stream = _video(container, name)
        for frame in _decoded(container, stream):
            if frame is None:
                broken = True
            else:
                stamps.append(frame.pts)
        if not stamps:
            raise _damaged(name, 0)
        return _measured(container, stream, stamps, broken, name, shorter)


def _measured(
    container: InputContainer,
    stream: VideoStream,
    stamps: Sequence[int | None],
    broken: bool,
    name: str,
    shorter: int | None,
) -> _Clip:
    height, width = stream.height, stream.width
    if height * width > LARGEST:
        raise MediaError("too large", f"{name}: frames of {width} x {height} pixels: save it smaller")
    if not height * width:
        raise _damaged(name, 0)
    scale = 1 if shorter is None else shorter / min(height, width)
    size = (max(1, round(height * scale)), max(1, round(width * scale)))
    step = 1 / float(stream.average_rate or stream.guessed_rate or 25)
    known = [stamp for stamp in stamps if stamp is not None]
    if len(known) == len(stamps) and all(a < b for a, b in pairwise(known)) and stream.time_base is not None:
        times: Times = (np.array(known, np.float64) - known[0]) * float(stream.time_base)
        step = float(np.median(np.diff(times))) if len(times) > 1 else step
        length = header_length(container, stream) or 0
        missing = length - (times[-1] + step)
        broken |= missing > max(3 * step, 0.1 * length)  # a header rounds, and the last frame may stand longer
    else:  # no times, or senseless ones
        times = np.arange(len(stamps), dtype=np.float64) * step
    return _Clip(times, step, size, broken)


def _chosen(clip: _Clip, frames: int | None, rate: float | None, name: str) -> tuple[NDArray[np.int64], Times]:
    """The numbers of the frames to take, in order, and their times."""
    count = len(clip.times)
    if rate is not None:
        steps = max(1, math.ceil((clip.times[-1] + clip.step) * rate - 1e-6))
        _check_room(name, steps, *clip.size)
        times = np.arange(steps) / rate
        return np.searchsorted(clip.times, times + 1e-6, side="right") - 1, times
    numbers = _even(count, count if frames is None else frames)
    _check_room(name, len(numbers), *clip.size)
    return numbers, clip.times[numbers]


def _even(count: int, frames: int) -> NDArray[np.int64]:
    """The middles of so many equal parts; every frame if there are no more."""
    frames = min(count, frames)
    return (2 * np.arange(frames) + 1) * count // (2 * frames)


def _taken(source: Source, name: str, clip: _Clip, numbers: NDArray[np.int64], checked: bool) -> Frames | None:
    """Decode up to the last frame that is wanted. None where the frames turn out not to be those that were measured."""
    from av.video.reformatter import VideoReformatter

    pixels: Frames | None = None
    first: float | None = None
    number = place = 0
    with opened(source, "clip") as container:
        stream, scaler = _video(container, name), VideoReformatter()
        for frame in _decoded(container, stream):
            if frame is None:
                if checked:
                    return None
                continue
            first = frame.time if first is None else first
            if number == numbers[place]:
                if checked and (frame.time is None or abs(frame.time - first - clip.times[number]) > 1e-3):
                    return None
                shot = _pixels(frame, scaler, clip.size)
                if pixels is None:
                    pixels = np.empty((len(numbers), *shot.shape), np.uint8)
                while place < len(numbers) and numbers[place] == number:
                    pixels[place] = shot
                    place += 1
                if place == len(numbers):
                    return pixels
            number += 1
    return None


def _video(container: InputContainer, name: str) -> VideoStream:
    """The first stream of frames; the cover picture of a song is none."""
    from av.stream import Disposition

    for stream in container.streams.video:
        if not stream.disposition & Disposition.attached_pic and stream.codec_context is not None:
            return stream
    raise MediaError(
        "unreadable clip", f"{name}: has no frames (cut off, or sound alone): copy it again, or leave it out"
    )


def _decoded(container: InputContainer, stream: VideoStream) -> Iterator[VideoFrame | None]:
    """The frames in the order in which they are seen; None for a part that is damaged."""
    from av.error import FFmpegError

    for packet in container.demux(stream):
        if packet.is_corrupt:
            yield None
            continue
        try:
            yield from packet.decode()
        except FFmpegError:
            yield None


def _pixels(frame: VideoFrame, scaler: VideoReformatter, size: tuple[int, int]) -> Frames:
    """A frame as RGB, resized, then turned upright."""
    height, width = size
    scaled = scaler.reformat(frame, width=width, height=height, format="rgb24", interpolation="BICUBIC")
    return np.rot90(scaled.to_ndarray(), round(frame.rotation / 90))


def _read_folder(folder: Path, frames: int | None, rate: float | None, shorter: int | None) -> tuple[Frames, Times]:
    if rate is not None:
        raise WindlassError(f"{folder}: a folder of frames has no times, so rate cannot be met: set frames instead")
    files = _frames_of(folder)
    if not files:
        raise MediaError("unreadable clip", f"{folder}: a folder without pictures: name a clip, or a folder of frames")
    files.sort(key=_natural)
    numbers = _even(len(files), len(files) if frames is None else frames)
    pixels: Frames | None = None
    for place, number in enumerate(numbers):
        shot = picture.read_picture(files[number], shorter)
        if pixels is None:
            _check_room(str(folder), len(numbers), *shot.shape[:2])
            pixels = np.empty((len(numbers), *shot.shape), np.uint8)
        if shot.shape != pixels.shape[1:]:
            size, before = (f"{width} x {height} pixels" for height, width in (shot.shape[:2], pixels.shape[1:3]))
            raise MediaError(
                "unreadable clip", f"{files[number]}: {size}, the frames before {before}: bring all to one size"
            )
        pixels[place] = shot
    assert pixels is not None
    return pixels, numbers.astype(np.float64)


def _frames_of(folder: Path) -> list[Path]:
    return [file for file in folder.iterdir() if file.suffix.lower() in picture.EXTENSIONS and file.name[0] != "."]


def _natural(file: Path) -> tuple[list[str | int], str]:
    """A key to sort by: numbers count as numbers."""
    parts = re.split(r"([0-9]+)", file.name)
    return [int(part) if i % 2 else part.lower() for i, part in enumerate(parts)], file.name


def _check_room(name: str, count: int, height: int, width: int) -> None:
    size = 3 * count * height * width
    if size > MOST:
        raise MediaError(
            "too large",
            f"{name}: {count} frames of {width} x {height} pixels take {size / 2**30:.1f} GiB: "
            "set frames or shorter, or a lower rate",
        )


def _damaged(name: str, count: int) -> MediaError:
    left = f"only {count} frames" if count else "no frame"
    return MediaError(
        "unreadable clip", f"{name}: cut off or damaged ({left} can be read): copy it again, or leave it out"
    )
