"""Pictures, as grids of regions that a convolutional network (CNN) makes of them."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal, final

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from windlass.core.errors import RecipeError
from windlass.core.records import Padded, Places
from windlass.data.encoded import Arrays
from windlass.data.examples import Value
from windlass.data.sides.base import CellError
from windlass.data.sides.media import MediaOptions, MediaSource, Reader
from windlass.media.cnn import Cnn, load_cnn
from windlass.media.errors import MediaError
from windlass.media.in_memory import is_picture, kept_picture
from windlass.media.picture import EXTENSIONS, centre_crop, picture_size, read_picture

SHOWN = 336
"""Pixels of a side of a picture that attention is drawn on."""


class CnnOptions(MediaOptions):
    """The CNN of a source of pictures or clips.

    >>> CnnOptions(cnn="small").finetune
    0
    """

    cnn: str = Field(
        "lite0", description="lite0 (EfficientNet-Lite0), timm:NAME, torchvision:NAME, or small: trained from scratch"
    )
    finetune: int = Field(0, ge=0, description="last blocks of the CNN that are trained with the rest; 0: frozen")
    augment: bool = Field(True, description="random crops and flips in training, if the whole CNN is trained")


class PictureOptions(CnnOptions):
    """A picture.

    >>> PictureOptions().cnn
    'lite0'
    """

    kind: Literal["picture"] = "picture"
    vector: bool = Field(False, description="one vector, the mean of the regions, instead of a grid to attend to")


@cache
def _network(name: str) -> Cnn:
    return load_cnn(name)


class CnnReader(Reader):
    """The frozen front of a CNN: pixels to a grid of regions, to the input of its trained blocks, or as they are.

    >>> CnnReader(PictureOptions(cnn="small")).dtype
    'uint8'
    """

    def __init__(self, options: CnnOptions):
        self.cnn = _network(options.cnn)
        self.trained = trained_blocks(options, self.cnn)
        self.whole = self.trained == len(self.cnn.blocks)
        self.front, _ = self.cnn.split(self.trained)
        self.size = self.cnn.size  # numbers of a place, after the trained blocks
        shape: Sequence[int] = self._front(np.zeros((1, self.cnn.pixels, self.cnn.pixels, 3), np.uint8)).shape[1:]
        self.grid = 1 if self.trained else shape[0]  # places of a picture
        self.shape = tuple(shape if self.trained else shape[1:])
        if self.whole:
            self.dtype, self.identity = "uint8", f"pixels {self.cnn.pixels}"
        else:
            self.identity = f"{self.cnn.identity}, {self.trained} blocks trained" if self.trained else self.cnn.identity

    def _front(self, pixels: NDArray[np.uint8]) -> Tensor:
        with torch.inference_mode():
            found: Tensor = self.front(torch.from_numpy(pixels))
            return found

    def load(self, path: str) -> NDArray[np.uint8]:
        """The pixels of a picture, as the CNN wants them."""
        return self.cnn.prepare(read_picture(path, shorter=self.cnn.pixels))

    def rows(self, loaded: Sequence[Any]) -> list[NDArray[Any]]:
        """Of each picture its regions or, if blocks are trained, one place with their input."""
        if not loaded:
            return []
        found = self._front(np.stack(loaded)).cpu().numpy().astype(self.dtype)
        return [*(found[:, None] if self.trained else found)]


def trained_blocks(options: CnnOptions, cnn: Cnn) -> int:
    """How many of the last blocks are trained; of a CNN without weights of its own, all.

    >>> trained_blocks(PictureOptions(cnn="small"), load_cnn("small")) == len(load_cnn("small").blocks)
    True
    """
    if options.cnn == "small":
        if options.finetune:
            raise RecipeError("source.finetune is for a CNN that is trained already, and small is not: leave it out")
        return len(cnn.blocks)
    if options.finetune > len(cnn.blocks):
        raise RecipeError(f"source.finetune: {options.finetune}, but {options.cnn} has {len(cnn.blocks)} blocks")
    return options.finetune


class CnnTail(nn.Module):
    """The trained blocks of a CNN, within a model: what its front gave (B, N, ...) to regions, or a vector a frame.

    `regions` are those of a frame, whose vectors are joined; None: of a picture, as many as the CNN has.

    >>> tail = CnnTail(PictureOptions(cnn="small"), regions=None)
    >>> tail(Padded(torch.zeros(2, 1, 64, 64, 3, dtype=torch.uint8), torch.ones(2, 1) > 0)).values.ndim
    3
    """

    def __init__(self, options: CnnOptions, regions: int | None):
        super().__init__()
        cnn = load_cnn(options.cnn)
        trained = trained_blocks(options, cnn)
        self.tail = cnn.split(trained)[1]
        self.augment = options.augment and trained == len(cnn.blocks)
        self.regions = regions

    def forward(self, source: Padded) -> Padded:
        """To (B, places, D) of a picture, or (B, N, D) of N frames."""
        x = source.values.flatten(0, 1)
        if self.training and self.augment:
            x = crop_and_flip(x, source.values.size(1))
        assert self.tail is not None
        grid: Tensor = self.tail(x)
        if self.regions:
            return Padded(join_regions(grid, self.regions).view(*source.mask.shape, -1), source.mask)
        return Padded(grid, source.mask.expand(-1, grid.size(1)))


def join_regions(grid: Tensor, side: int) -> Tensor:
    """Average a grid to side x side regions, and join their vectors: (N, places, D) -> (N, side * side * D).

    >>> join_regions(torch.arange(4.0).view(1, 4, 1), 1), join_regions(torch.arange(4.0).view(1, 4, 1), 2)
    (tensor([[1.5000]]), tensor([[0., 1., 2., 3.]]))
    """
    edge = math.isqrt(grid.size(1))
    x = F.adaptive_avg_pool2d(grid.transpose(1, 2).unflatten(2, (edge, edge)), side)  # (N, D, side, side)
    return x.flatten(2).transpose(1, 2).flatten(1)


def crop_and_flip(pixels: Tensor, frames: int = 1) -> Tensor:
    """Shift each picture by up to an eighth, and mirror half of them; all frames of a clip alike: (B * N, H, W, 3).

    >>> crop_and_flip(torch.zeros(2, 16, 16, 3, dtype=torch.uint8)).shape
    torch.Size([2, 16, 16, 3])
    """
    height, width = pixels.shape[1:3]
    clips = pixels.view(-1, frames, *pixels.shape[1:])
    shifts = torch.randint(-(height // 8), height // 8 + 1, (len(clips), 2)).tolist()
    flips = (torch.rand(len(clips)) < 0.5).tolist()
    rows = []
    for clip, (down, right), flip in zip(clips, shifts, flips, strict=True):
        at_rows = (torch.arange(height) + down).clamp(0, height - 1)
        at_columns = (torch.arange(width) + right).clamp(0, width - 1)
        if flip:
            at_columns = at_columns.flip(0)
        rows.append(clip[:, at_rows.to(clip.device)][:, :, at_columns.to(clip.device)])
    return torch.cat(rows)


@dataclass(frozen=True)
class CnnSource(MediaSource):
    """What sources share whose files are seen by a CNN."""

    @property
    def sizes(self) -> dict[str, int]:
        reader = self.reader_of(self.options) if len(self.shape) > 1 else None
        return {"source": self.shape[0] if reader is None else reader.size}  # type: ignore[attr-defined]


class PictureReader(CnnReader):
    """The front of a CNN; with `vector`, a frozen one gives the mean of the regions.

    >>> PictureReader(PictureOptions(cnn="small")).identity
    'pixels 64'
    """

    def __init__(self, options: PictureOptions):
        super().__init__(options)
        self.mean = options.vector and not self.trained
        if self.mean:
            self.grid, self.identity = 1, f"{self.identity}, mean of the regions"

    def rows(self, loaded: Sequence[Any]) -> list[NDArray[Any]]:
        """Of each picture its regions, their mean or, if blocks are trained, one place with their input."""
        rows = super().rows(loaded)
        return [row.mean(0, keepdims=True, dtype=np.float32).astype(self.dtype) for row in rows] if self.mean else rows


@cache
def _reader(options: PictureOptions) -> PictureReader:
    return PictureReader(options)


@final
@dataclass(frozen=True)
class PictureSource(CnnSource):
    """A picture as a grid of regions, each a vector of the CNN.

    >>> PictureSource.read(PictureOptions(), "cat.jpg")
    'cat.jpg'
    """

    extensions = EXTENSIONS
    what = "picture"
    unit = "regions"
    least: ClassVar[Mapping[str, float]] = {"width in pixels": 16, "height in pixels": 16}

    @classmethod
    def reader_of(cls, options: PictureOptions) -> PictureReader:
        return _reader(options)

    @classmethod
    def read(cls, options: PictureOptions, cell: object) -> Value:
        """The name of a file; a picture in memory is written to one."""
        if isinstance(cell, str | os.PathLike):
            return super().read(options, cell)
        try:
            return str(kept_picture(cell))
        except MediaError as error:
            raise CellError(error.kind, str(error)) from None

    @classmethod
    def measure(cls, options: PictureOptions, value: Value) -> dict[str, float]:
        read_picture(value, shorter=32)  # all of it is decoded, in little memory
        width, height = picture_size(value)
        return {"width in pixels": width, "height in pixels": height}

    @classmethod
    def inputs(cls, data: Any) -> list[Any] | None:
        """Pictures in memory, one or several: of Pillow, arrays (H, W), (H, W, 3) or (N, H, W, 3), or bytes."""
        if is_picture(data):
            return [data]
        if getattr(data, "ndim", 0) == 4 or (isinstance(data, list | tuple) and any(map(is_picture, data))):
            return list(data)
        return super().inputs(data)

    def front(self) -> nn.Module | None:
        regions = 1 if self.options.vector else None
        return CnnTail(self.options, regions) if len(self.shape) > 1 else None

    def cost(self, arrays: Arrays) -> int:
        """Its regions."""
        if len(self.shape) == 1:
            return super().cost(arrays)
        return self._regions

    @property
    def _regions(self) -> int:
        return _regions(self.options)

    def places(self, value: Value) -> Places:
        side = math.isqrt(self._regions)
        return Places("grid", tuple(f"{row},{column}" for row in range(1, side + 1) for column in range(1, side + 1)))

    def shown(self, value: Value) -> NDArray[np.uint8]:
        """The square that the CNN sees, in more pixels."""
        return centre_crop(read_picture(value), SHOWN)

    @classmethod
    def tiny(cls) -> tuple[PictureSource, tuple[Value, ...]]:
        from windlass.media.samples import sample_pictures

        return cls.fit(PictureOptions(cnn="small"), ()), sample_pictures()


@cache
def _regions(options: PictureOptions) -> int:
    """How many regions a picture has."""
    reader = _reader(options)
    if not reader.trained:
        return reader.grid
    tail = CnnTail(options, 1 if options.vector else None).eval()
    values = torch.zeros(1, 1, *reader.shape, dtype=torch.uint8 if reader.whole else torch.float32)
    with torch.inference_mode():
        return tail(Padded(values, torch.ones(1, 1, dtype=torch.bool))).values.size(1)  # type: ignore[no-any-return]
