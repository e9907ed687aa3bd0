"""Sound, as log-mel frames."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from typing import Any, ClassVar, Literal, final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from windlass.core.errors import BundleError
from windlass.core.records import Padded, Places
from windlass.data.encoded import Arrays
from windlass.data.examples import Value
from windlass.data.sides.base import Json
from windlass.data.sides.media import PORTION, MediaOptions, MediaSource, Reader
from windlass.media.errors import MediaError
from windlass.media.sound import EXTENSIONS, log_mel, read_sound

SAMPLE = 512
"""Sounds whose mean and deviation stand for those of all."""

LEAST = 1.0
"""The least deviation of a band, in log units (speech: 2 to 4), so that one without sound is not blown up."""


class SoundOptions(MediaOptions):
    """A recording.

    >>> SoundOptions().bands
    80
    """

    kind: Literal["sound"] = "sound"
    rate: int = Field(16000, ge=1000, le=192000, description="samples a second, to which recordings are resampled")
    bands: int = Field(80, ge=2, le=256, description="mel bands of a frame")
    window: float = Field(0.025, gt=0, le=1, description="seconds of a frame")
    hop: float = Field(0.01, gt=0, le=1, description="seconds from one frame to the next")


class SoundReader(Reader):
    """Log-mel frames of recordings.

    >>> SoundReader(SoundOptions(rate=8000)).identity
    'log-mel, 80 bands of 8000 Hz, 25 ms every 10 ms'
    """

    def __init__(self, options: SoundOptions):
        self.options, self.shape = options, (options.bands,)
        times = f"{1000 * options.window:g} ms every {1000 * options.hop:g} ms"
        self.identity = f"log-mel, {options.bands} bands of {options.rate} Hz, {times}"

    def load(self, path: str) -> NDArray[np.float32]:
        """The frames of a recording: (F, bands)."""
        o = self.options
        return log_mel(read_sound(path, o.rate), o.rate, o.bands, o.window, o.hop)

    def rows(self, loaded: Sequence[Any]) -> list[NDArray[Any]]:
        """The same in 16 bits."""
        return [frames.astype(np.float16) for frames in loaded]


@cache
def _reader(options: SoundOptions) -> SoundReader:
    return SoundReader(options)


@final
@dataclass(frozen=True)
class SoundSource(MediaSource):
    """A recording as log-mel frames, of which each band has mean 0 and deviation 1 in the training data.

    >>> SoundSource.fit(SoundOptions(bands=4), ()).sizes
    {'source': 4}
    """

    extensions = EXTENSIONS
    what = "recording"
    least: ClassVar[Mapping[str, float]] = {"seconds": 0.05}
    unit = "frames"

    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()

    @classmethod
    def measure(cls, options: SoundOptions, value: Value) -> dict[str, float]:
        return {"seconds": len(read_sound(value, options.rate)) / options.rate}

    @classmethod
    def reader_of(cls, options: SoundOptions) -> SoundReader:
        return _reader(options)

    @classmethod
    def fit(cls, options: SoundOptions, values: Iterable[Value]) -> SoundSource:
        reader = cls.reader_of(options)
        unknown = cls(options, reader.shape, reader.identity)
        count, total, squares = 0, np.zeros(options.bands), np.zeros(options.bands)
        sample = iter(dict.fromkeys(islice(values, 4 * SAMPLE)))
        for part in iter(lambda: list(islice(sample, PORTION)), []):
            for rows in unknown._rows(part):
                if not isinstance(rows, MediaError):
                    frames = rows.astype(np.float64)
                    count, total, squares = count + len(frames), total + frames.sum(0), squares + (frames**2).sum(0)
            if count > 100 * SAMPLE:
                break
        mean = total / max(1, count)
        deviation = np.sqrt(np.maximum(squares / max(1, count) - mean**2, LEAST**2))
        return replace(unknown, mean=tuple(mean.tolist()), deviation=tuple(deviation.tolist()))

    @classmethod
    def split(cls, options: SoundOptions, value: Value) -> tuple[str, ...]:
        """The numbers of the frames."""
        return tuple(map(str, range(1, len(_reader(options).load(value)) + 1)))

    def collate(self, rows: Sequence[Arrays]) -> dict[str, Padded]:
        """Input `source`: (B, S, bands), normalised."""
        mean, deviation = (np.array(numbers, np.float32) for numbers in (self.mean, self.deviation))
        normal = [(self.features(row).astype(np.float32) - mean) / deviation for row in rows]
        return super().collate([{"source": frames} for frames in normal])

    def places(self, value: Value) -> Places:
        """The times of the frames, in seconds."""
        count = self.cost(self.encode(value))
        return Places("spectrogram", tuple(f"{n * self.options.hop:.2f}" for n in range(count)))

    def shown(self, value: Value) -> NDArray[np.float32]:
        """Its log-mel frames."""
        frames: NDArray[np.float32] = self.reader.load(value)
        return frames

    def to_json(self) -> Json:
        return super().to_json() | {"mean": list(self.mean), "deviation": list(self.deviation)}

    @classmethod
    def from_json(cls, options: SoundOptions, content: Json) -> SoundSource:
        side = super().from_json(options, content)
        mean, deviation = (tuple(float(n) for n in content[name]) for name in ("mean", "deviation"))
        finite = all(map(math.isfinite, mean)) and all(math.isfinite(n) and n > 0 for n in deviation)
        if not finite or not len(mean) == len(deviation) == options.bands:
            raise BundleError("damaged codec: mean and deviation of the bands; take the file from a fresh copy")
        return replace(side, mean=mean, deviation=deviation)

    @classmethod
    def tiny(cls) -> tuple[SoundSource, tuple[Value, ...]]:
        from windlass.media.samples import sample_sounds

        values = sample_sounds()
        return cls.fit(SoundOptions(rate=8000, bands=8), values), values
