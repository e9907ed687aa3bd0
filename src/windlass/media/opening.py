"""Opening clips and sounds with PyAV: only formats that hold frames or samples themselves, and errors in one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, TypeAlias

from windlass.core.errors import WindlassError
from windlass.media.errors import MediaError

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.stream import Stream

What: TypeAlias = Literal["clip", "sound"]
_FORMATS = (  # no playlists, which name other files and addresses, and no pictures
    "mov,mp4,matroska,webm,avi,asf,flv,ogg,mpeg,mpegts,mpegvideo,h264,hevc,m4v,ivf,gif,"
    "wav,w64,flac,mp3,aac,aiff,au,caf,amr,wv,ac3"
)
_OPTIONS = {"format_whitelist": _FORMATS, "protocol_whitelist": "none"}
_REMEDY = {"clip": "save it as MP4, or leave it out", "sound": "save it as WAV, or leave it out"}


def name_of(source: str | Path | bytes, what: What) -> str:
    """What an error calls a source.

    >>> name_of("wave.mp4", "clip"), name_of(b"RIFF", "sound")
    ('wave.mp4', 'the bytes of a sound')
    """
    return f"the bytes of a {what}" if isinstance(source, bytes) else str(source)


@contextmanager
def opened(source: str | Path | bytes, what: What) -> Iterator[InputContainer]:
    """Open a file or its bytes for reading. An error of PyAV, also a later one, becomes a `MediaError`.

    >>> with opened(b"no clip", "clip"):
    ...     pass
    Traceback (most recent call last):
    ...
    windlass.media.errors.MediaError: the bytes of a clip: text, not a clip: leave it out, or name the clip
    """
    try:
        import av
        from av.error import FFmpegError
    except ImportError:
        extra = "video" if what == "clip" else "sound"
        raise WindlassError(f'reading a {what} needs the package av: pip install "windlass[{extra}]"') from None
    name = name_of(source, what)
    with file_of(source, name, what) as file:
        try:
            with av.open(file, "r", options=_OPTIONS, metadata_errors="ignore") as container:
                yield container
        except (FFmpegError, OSError, ValueError) as error:  # a damaged header may send the file to places it has not
            file.seek(0)
            text = f"{name}: {_seems(file.read(1000), what)}"
            raise MediaError("unreadable clip" if what == "clip" else "unreadable sound", text) from error


def header_length(container: InputContainer, stream: Stream) -> float | None:
    """The seconds of a stream that the header tells; None if it tells nothing about this very stream.

    >>> from fractions import Fraction
    >>> from types import SimpleNamespace as Some  # a container and a stream of PyAV
    >>> sound, frames = Some(duration=None), Some(duration=90, time_base=Fraction(1, 60))
    >>> container = Some(duration=2_000_000, streams=[frames, sound])
    >>> header_length(container, frames), header_length(container, sound)
    (1.5, None)
    """
    if stream.duration is not None and stream.time_base is not None:
        return float(stream.duration * stream.time_base)
    if container.duration is not None and len(container.streams) == 1:
        return container.duration / 1_000_000  # microseconds
    return None


def file_of(source: str | Path | bytes, name: str, what: What) -> BinaryIO:
    """Open the file, or its bytes, with errors that name it.

    >>> file_of(b"RIFF", "a sound", "sound").read()
    b'RIFF'
    """
    if isinstance(source, bytes):
        return BytesIO(source)
    try:
        path = Path(source)
        if path.exists() and not path.is_file():  # a pipe or a device may never end
            raise MediaError("missing file", f"{name}: not a regular file: name a {what}")
        return path.open("rb")
    except FileNotFoundError:
        raise MediaError("missing file", f"{name}: no such file: check the path") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or error
        raise MediaError(
            "missing file", f"{name}: cannot be opened ({reason}): check the path and its rights"
        ) from None


def _seems(start: bytes, what: What) -> str:
    """What a file that cannot be read seems to be, and what to do."""
    if not start:
        return f"an empty file, not a {what}: copy it again, or leave it out"
    if not any(byte < 9 or 13 < byte < 32 for byte in start):
        return f"text, not a {what}: leave it out, or name the {what}"
    return f"not a {what} that can be read (cut off, damaged, or of an unknown format): copy it again, {_REMEDY[what]}"
