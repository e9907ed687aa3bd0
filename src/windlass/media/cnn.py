"""CNNs that turn pictures into grids of vectors. `load_cnn` loads one by name."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from windlass.core.errors import WindlassError, nearest, short
from windlass.media.picture import centre_crop

_CHUNK = 4  # pictures that a frozen front takes at once: what more of them give no longer fits the cache


class _Evaluating(nn.Module):
    """A module that is always in evaluation mode: batch norm keeps its statistics, also while it is fine-tuned."""

    def train(self, mode: bool = True) -> Self:
        """Stay in evaluation mode, whatever the model around it does."""
        return super().train(False)


class _Normalise(nn.Module):
    """uint8 (B, H, W, 3) -> float (B, 3, H, W), channels last in memory."""

    mean: Tensor
    scale: Tensor

    def __init__(self, mean: Sequence[float], scale: Sequence[float]):
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).view(3, 1, 1))
        self.register_buffer("scale", torch.tensor(scale).view(3, 1, 1))

    def forward(self, batch: Tensor) -> Tensor:
        """(x - mean) / scale, for pixels from 0 to 255."""
        if batch.dtype != torch.uint8 or batch.dim() != 4 or batch.shape[3] != 3:
            raise WindlassError(
                f"pixels of {batch.dtype}, shape {tuple(batch.shape)}: give uint8 (B, H, W, 3), as `prepare` makes them"
            )
        return (batch.permute(0, 3, 1, 2).to(self.mean.dtype) - self.mean) / self.scale


class _Places(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        """(B, D, H, W) -> (B, places, D), row by row."""
        return x.flatten(2).transpose(1, 2)


class _Frozen(_Evaluating):
    """Stages without a gradient, with batch norm folded into the convolutions before it."""

    def __init__(self, stages: Iterable[nn.Module], example: Tensor):
        super().__init__()
        self.stages = _channels_last(_folded(nn.Sequential(*stages), example)).requires_grad_(False)
        self.train()

    @torch.no_grad()  # and not inference_mode, whose output a tail could not be trained on
    def forward(self, batch: Tensor) -> Tensor:
        """Pixels -> the input of the tail, or the grid."""
        parts = batch.split(_CHUNK) if batch.device.type == "cpu" else (batch,)
        return torch.cat([self.stages(part) for part in parts])


class _Trained(_Evaluating):
    """Stages whose weights are trained; the statistics of their batch norm stay."""

    def __init__(self, stages: Iterable[nn.Module]):
        super().__init__()
        self.stages = _channels_last(copy.deepcopy(nn.Sequential(*stages))).requires_grad_(True)
        self.train()

    def forward(self, x: Tensor) -> Tensor:
        """The output of the front -> the grid."""
        y: Tensor = self.stages(x)
        return y


class Cnn(_Evaluating):
    """A CNN: blocks, one after the other, and how a picture must be prepared for them.

    The grid of a picture has a vector of `size` numbers for every place; the vector of a picture is their mean.

    >>> cnn = load_cnn("small")
    >>> picture = np.zeros((90, 120, 3), dtype=np.uint8)
    >>> cnn.grid(torch.from_numpy(cnn.prepare(picture))[None]).shape
    torch.Size([1, 64, 128])
    """

    def __init__(
        self,
        name: str,
        pixels: int,
        size: int,
        blocks: Iterable[nn.Module],
        mean: Sequence[float],
        scale: Sequence[float],
    ):
        super().__init__()
        self.name, self.pixels, self.size = name, pixels, size
        self.blocks = nn.ModuleList(blocks)
        self._normalise = _Normalise(mean, scale)
        self._places = _Places()
        self.train()

    @property
    def identity(self) -> str:
        """The name with a hash of the weights and of the preprocessing: the same identity gives the same vectors.

        >>> load_cnn("small").identity
        'small-...'
        """
        digest = hashlib.sha256(f"{self.name} {self.pixels} centre crop, bicubic".encode())
        for name, tensor in self.state_dict().items():
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
        return f"{self.name}-{digest.hexdigest()[:16]}"

    def prepare(self, picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Cut and resize a picture (H, W, 3) to the pixels that the CNN takes.

        >>> load_cnn("small").prepare(np.zeros((90, 120, 3), dtype=np.uint8)).shape
        (64, 64, 3)
        """
        return centre_crop(picture, self.pixels)

    def normalise(self, batch: Tensor) -> Tensor:
        """Scale pixels as the CNN was trained: uint8 (B, H, W, 3) -> float (B, 3, H, W).

        >>> load_cnn("small").normalise(torch.zeros(2, 64, 64, 3, dtype=torch.uint8)).shape
        torch.Size([2, 3, 64, 64])
        """
        x: Tensor = self._normalise(batch)
        return x

    def grid(self, batch: Tensor) -> Tensor:
        """The vectors of all places: uint8 (B, H, W, 3) -> (B, places, D), row by row.

        >>> load_cnn("small").grid(torch.zeros(2, 64, 64, 3, dtype=torch.uint8)).mean(1).shape
        torch.Size([2, 128])
        """
        grid: Tensor = nn.Sequential(self._normalise, *self.blocks, self._places)(batch)
        return grid

    def split(self, trained: int) -> tuple[nn.Module, nn.Module | None]:
        """Copies of the blocks: a frozen front, and a tail of the last `trained` blocks, to be fine-tuned.

        The front takes pixels, uint8 (B, H, W, 3), and gives what the tail takes; the tail gives the grid. Without a
        tail the front gives the grid; if all blocks are trained it passes the pixels on, and the tail normalises them.

        >>> front, tail = load_cnn("small").split(2)
        >>> middle = front(torch.zeros(1, 64, 64, 3, dtype=torch.uint8))
        >>> middle.requires_grad, tail(middle).requires_grad, tail(middle).shape
        (False, True, torch.Size([1, 64, 128]))
        """
        if not 0 <= trained <= len(self.blocks):
            raise WindlassError(
                f"{self.name} has {len(self.blocks)} blocks: train 0 to {len(self.blocks)}, not {trained}"
            )
        stages = [*self.blocks, self._places]
        if trained == len(self.blocks):
            return nn.Identity(), _Trained([self._normalise, *stages])
        example = (torch.arange(self.pixels**2 * 3) * 37 % 256).to(torch.uint8).view(1, self.pixels, self.pixels, 3)
        if not trained:
            return _Frozen([self._normalise, *stages], example), None
        front = stages[: -trained - 1]
        return _Frozen([self._normalise, *front], example), _Trained(stages[-trained - 1 :])


def _channels_last(stages: nn.Sequential) -> nn.Sequential:
    return stages.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def _folded(stages: nn.Sequential, example: Tensor) -> nn.Sequential:
    """A copy with every batch norm folded into the convolution defined before it, if that gives the same output."""
    folded = copy.deepcopy(stages)
    pairs: list[tuple[str, str]] = []
    before: str | None = None
    for name, module in folded.named_modules():
        if isinstance(module, nn.Conv2d):
            before = name
        elif type(module) is nn.BatchNorm2d and before is not None:  # a subclass may do more than normalise
            pairs.append((before, name))
            before = None
    if not pairs:
        return folded
    for convolution, norm in pairs:
        one, other = folded.get_submodule(convolution), folded.get_submodule(norm)
        assert isinstance(one, nn.Conv2d)
        assert isinstance(other, nn.BatchNorm2d)
        if one.out_channels != other.num_features:
            return copy.deepcopy(stages)
        folded.set_submodule(convolution, fuse_conv_bn_eval(one, other))
        folded.set_submodule(norm, nn.Identity())
    with torch.inference_mode():
        expected, y = stages(example), folded(example)
    same = torch.allclose(y, expected, rtol=1e-3, atol=1e-4 * float(expected.abs().max()))
    return folded if same else copy.deepcopy(stages)


def load_cnn(name: str) -> Cnn:
    """Load a CNN: `lite0`, `small` (untrained), `timm:NAME` or `torchvision:NAME` (with their pretrained weights).

    >>> len(load_cnn("small").blocks)
    4
    >>> load_cnn("smal")
    Traceback (most recent call last):
    ...
    windlass.core.errors.WindlassError: no CNN 'smal': did you mean 'small'?
    """
    from windlass.media.published import lite0, timm, torchvision

    library, _, model = name.partition(":")
    if name == "small":
        return Cnn(name, 64, 128, _small(), [127.5] * 3, [64.0] * 3)
    if name == "lite0":
        return Cnn(name, *lite0())
    if model and library in ("timm", "torchvision"):
        return Cnn(name, *(timm if library == "timm" else torchvision)(model))
    raise WindlassError(f"no CNN {short(name)}: {nearest(name, ['lite0', 'small', 'timm:NAME', 'torchvision:NAME'])}")


def _small() -> list[nn.Module]:
    """Four blocks for 64 pixels: 8 x 8 places of 128 numbers. Group norm, so that no example sees its batch."""
    sizes = [3, 32, 64, 128, 128]
    blocks: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers = [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.GroupNorm(8, outputs), nn.ReLU(inplace=True)]
        blocks.append(nn.Sequential(*layers, *([] if inputs == outputs else [nn.MaxPool2d(2)])))
    return blocks
