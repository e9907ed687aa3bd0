"""Where a token stands: sinusoidal and learned positions, added to its vector, and rotary ones, which turn queries and
keys."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from windlass.core.errors import DataError


def _angles(at: Tensor, size: int) -> Tensor:
    """at / 10000^(2i / size) for every pair i of a vector: (..., size / 2), in float64."""
    rates = torch.exp(torch.arange(0, size, 2, device=at.device, dtype=torch.float64) * (-math.log(10000.0) / size))
    return at.to(torch.float64)[..., None] * rates


def sinusoids_at(at: Tensor, size: int, like: Tensor) -> Tensor:
    """The sinusoidal positions (..., size) of places (...), with the dtype of `like`.

    p_{t,2i} = sin(t / 10000^(2i / size))        p_{t,2i+1} = cos(t / 10000^(2i / size))      (Vaswani et al. 2017)

    >>> sinusoids_at(torch.tensor([0]), 4, torch.zeros(1)).tolist()
    [[0.0, 1.0, 0.0, 1.0]]
    """
    angles = _angles(at, size)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)[..., :size].to(like.dtype)


def sinusoids(places: int, size: int, like: Tensor) -> Tensor:
    """Sinusoidal positions (places, size) of the first places, with the device and dtype of `like`.

    >>> sinusoids(2, 4, torch.zeros(1))[0].tolist()
    [0.0, 1.0, 0.0, 1.0]
    """
    return sinusoids_at(torch.arange(places, device=like.device), size, like)


Positioned = Literal["source", "target", "source with its target"]
"""What has positions."""


class LearnedPositions(nn.Module):
    """Learned positions, up to a longest sequence.

    >>> LearnedPositions(longest=6, size=4)(3).shape
    torch.Size([3, 4])
    """

    def __init__(self, longest: int, size: int, what: Positioned = "source", part: str = "model.encoder"):
        super().__init__()
        self.table = nn.Parameter(torch.randn(longest, size) * 0.1)
        self.what, self.part = what, part

    def forward(self, places: int) -> Tensor:
        """The vectors of the first `places` places."""
        self.check(places)
        return self.table[:places]

    def at(self, places: Tensor, real: Tensor | None = None) -> Tensor:
        """The vectors (..., size) of places (T,) or (N, T), of which those that are not `real` (N, T) may be anything.

        Without `real`, places that differ by row are not checked: some rows may have ended.
        """
        if real is not None or places.dim() == 1:
            used = places if real is None else places.expand(real.shape)[real]
            self.check(int(used.max()) + 1 if used.numel() else 0)
        return self.table[places.clamp(max=self.table.size(0) - 1)]

    def fits(self, source: int, target: int) -> bool:
        """Whether there is a position for every token of a source and a target of these lengths."""
        places = {"source": source, "target": target, "source with its target": source + target}
        return places[self.what] <= self.table.size(0)

    def check(self, places: int) -> None:
        """Refuse a sequence that has more places."""
        if places > self.table.size(0):
            raise DataError(
                f"the {self.what} has {places} tokens, but {self.part}.longest is {self.table.size(0)}: "
                "train with a larger one, or with positions: sinusoidal, which has no limit"
            )


class Rotation(NamedTuple):
    """Rotary positions (Su et al. 2021): pairs of numbers of a query or key are turned by their place.

    (x_2i, x_2i+1) of place t is turned by the angle t / 10000^(2i / d), so that q_t . k_s depends on t - s alone

    >>> turn = Rotation.at(torch.arange(3), 2, torch.zeros(1))
    >>> [round(x, 2) for x in turn(torch.tensor([[1.0, 0.0]] * 3))[1].tolist()]
    [0.54, 0.84]
    """

    cos: Tensor  # (..., d / 2)
    sin: Tensor

    @classmethod
    def at(cls, places: Tensor, size: int, like: Tensor) -> Rotation:
        """The rotation of vectors of a size at places (...), with the dtype of `like`."""
        angles = _angles(places, size)
        return cls(angles.cos().to(like.dtype), angles.sin().to(like.dtype))

    def __call__(self, x: Tensor) -> Tensor:
        """Turn vectors (..., d)."""
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack([a * self.cos - b * self.sin, a * self.sin + b * self.cos], dim=-1).flatten(-2)
