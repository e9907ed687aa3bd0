"""Clips of video, as a vector a frame that a convolutional network makes of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, final

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, model_validator
from torch import nn

from windlass.core.errors import RecipeError
from windlass.core.records import Places
from windlass.data.examples import Value
from windlass.data.sides.media import PORTION
from windlass.data.sides.picture import CnnOptions, CnnReader, CnnSource, CnnTail, join_regions
from windlass.media import picture
from windlass.media.clip import EXTENSIONS, clip_length, read_clip


class VideoOptions(CnnOptions):
    """A clip: a video file, or a folder of frames.

    >>> VideoOptions().frames
    16
    """

    kind: Literal["video"] = "video"
    frames: int | None = Field(16, ge=1, description="frames that are read, evenly over the clip; none: see rate")
    rate: float | None = Field(None, gt=0, description="frames a second that are read; none, if frames is none: all")
    regions: int = Field(
        1, ge=1, description="a frame is cut into regions x regions, whose vectors are joined: so position is seen"
    )

    @model_validator(mode="after")
    def _one(self) -> Self:
        if self.frames is not None and self.rate is not None:
            raise ValueError("frames and rate both say which frames are read: set frames: null, or leave rate out")
        return self


class VideoReader(CnnReader):
    """The front of a CNN, frame by frame; a frozen CNN gives the joined vectors of a frame's regions.

    >>> VideoReader(VideoOptions(cnn="small")).identity
    'pixels 64, 16 frames'
    """

    def __init__(self, options: VideoOptions):
        super().__init__(options)
        self.frames, self.rate = options.frames, options.rate
        sampled = f"{options.frames} frames" if options.frames else f"{options.rate or 'all'} frames a second"
        self.identity = f"{self.identity}, {sampled}"
        self.regions = options.regions
        if self.regions > 1:
            pixels = torch.zeros(1, self.cnn.pixels, self.cnn.pixels, 3, dtype=torch.uint8)
            edge = math.isqrt(self.cnn.grid(pixels).size(1))
            if self.regions > edge:
                raise RecipeError(f"source.regions: {self.regions}, but {options.cnn} gives {edge} x {edge}: set fewer")
            self.size *= self.regions**2
            if not self.trained:
                self.shape = (self.size,)
                self.identity += f", {self.regions} x {self.regions} regions"

    def load(self, path: str) -> NDArray[np.uint8]:
        """The frames, as the CNN wants them: (F, H, W, 3)."""
        frames, _ = read_clip(path, self.frames, self.rate, shorter=self.cnn.pixels)
        return np.stack([self.cnn.prepare(frame) for frame in frames])

    def rows(self, loaded: Sequence[Any]) -> list[NDArray[Any]]:
        """Of each clip a vector a frame or, if blocks are trained, their input a frame."""
        found = []
        for clip in loaded:
            parts = [self._front(clip[start : start + PORTION]) for start in range(0, len(clip), PORTION)]
            rows = [part.numpy() if self.trained else join_regions(part, self.regions).numpy() for part in parts]
            found.append(np.concatenate(rows).astype(self.dtype))
        return found


@cache
def _reader(options: VideoOptions) -> VideoReader:
    return VideoReader(options)


@final
@dataclass(frozen=True)
class VideoSource(CnnSource):
    """A clip as a sequence of frames.

    >>> VideoSource.read(VideoOptions(), "wave.mp4")
    'wave.mp4'
    """

    extensions = EXTENSIONS
    what = "clip"
    least: ClassVar[Mapping[str, float]] = {"frames": 2}
    unit = "frames"

    @classmethod
    def holds(cls, path: Path) -> bool:
        """Whether this is a clip: a file, or a folder of pictures."""
        try:
            if path.is_dir():
                return any(file.suffix.lower() in picture.EXTENSIONS for file in path.iterdir())
        except (OSError, ValueError):  # a text that is no name of a file, or a folder that cannot be read
            return False
        return super().holds(path)

    @classmethod
    def measure(cls, options: VideoOptions, value: Value) -> dict[str, float]:
        read_clip(value, options.frames, options.rate, shorter=8)
        seconds, frames = clip_length(value)
        return {"frames": frames} | ({} if seconds is None else {"seconds": seconds})

    @classmethod
    def reader_of(cls, options: VideoOptions) -> VideoReader:
        return _reader(options)

    @classmethod
    def split(cls, options: VideoOptions, value: Value) -> tuple[str, ...]:
        """The numbers of the frames."""
        frames, _ = read_clip(value, options.frames, options.rate, shorter=8)
        return tuple(map(str, range(1, len(frames) + 1)))

    def front(self) -> nn.Module | None:
        return CnnTail(self.options, self.options.regions) if len(self.shape) > 1 else None

    def places(self, value: Value) -> Places:
        return Places("frames", super().places(value).names)

    def shown(self, value: Value) -> NDArray[np.uint8]:
        """The frames that the CNN sees."""
        frames: NDArray[np.uint8] = self.reader.load(value)
        return frames

    @classmethod
    def tiny(cls) -> tuple[VideoSource, tuple[Value, ...]]:
        from windlass.media.samples import sample_clips

        return cls.fit(VideoOptions(cnn="small", frames=None), ()), sample_clips()
