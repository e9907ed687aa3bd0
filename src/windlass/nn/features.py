"""Features: numbers that are read as they are, where a text has the embeddings of its tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, Self

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from windlass.core.fitting import Needs, Refuses, Term
from windlass.core.options import Options
from windlass.core.records import Padded
from windlass.nn.dropout import drop
from windlass.nn.linear import Linear


class SpecAugmentOptions(Options):
    """Masks blocks of a spectrogram in training: whole times and whole bands (Park et al. 2019).

    >>> SpecAugmentOptions(time_masks=1).times
    20
    """

    time_masks: int = Field(2, ge=0, description="blocks of places that are masked")
    times: int = Field(20, ge=1, description="the widest of them, in places; never more than a fifth of a sequence")
    band_masks: int = Field(2, ge=0, description="blocks of numbers of a place that are masked")
    bands: int = Field(15, ge=1, description="the widest of them")


class FeatureOptions(Options):
    """Numbers of the source, stacked, normalised and projected.

    >>> FeatureOptions(size=4, stack=2).build(3)(Padded(torch.ones(1, 5, 3), torch.ones(1, 5) > 0)).values.shape
    torch.Size([1, 3, 4])
    """

    kind: Literal["features"] = "features"
    size: int | None = Field(256, ge=1, description="units of a linear projection; none: the numbers as they are")
    activation: Literal["none", "relu", "tanh"] = Field("none", description="of the projection")
    stack: int = Field(1, ge=1, description="places that are concatenated into one, for long sequences")
    norm: bool = Field(False, description="layer normalisation of the numbers of a place")
    dropout: float = Field(0.0, ge=0, lt=1, description="on the features")
    augment: SpecAugmentOptions | None = Field(None, description="mask times and bands in training (SpecAugment)")

    def _terms(self, at: str) -> Iterator[Term]:
        yield Needs("source features", f"{at}: features are of numbers, and source: <source> gives tokens: use learned")
        if self.stack > 1:
            yield Refuses("target: tags", f"{at}.stack joins places that have a tag each: set it to 1")

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """As they are, projected, and all that there is."""
        whole = cls(size=4, stack=2, norm=True, activation="tanh", augment=SpecAugmentOptions())
        return cls(size=4), cls(size=None), whole

    def build(self, numbers: int) -> Features:
        """Build the projection of places of so many numbers."""
        return Features(numbers, self)


class Features(nn.Module):
    """x_t = f(W norm([v_kt; ...; v_kt+k-1]) + b) for places of numbers v, k of them at a time.

    A stack that is not full is filled with zeros.

    >>> source = Padded(torch.ones(1, 3, 2), torch.ones(1, 3) > 0)
    >>> Features(2, FeatureOptions(size=None, stack=2))(source).values.tolist()
    [[[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.0]]]
    """

    def __init__(self, numbers: int, options: FeatureOptions):
        super().__init__()
        self.options = options
        width = numbers * options.stack
        self.norm = nn.LayerNorm(width) if options.norm else None
        self.projection = None if options.size is None else Linear(width, options.size)
        self.size = options.size or width

    def forward(self, source: Padded) -> Padded:
        """(B, S, N) -> (B, ceil(S / k), E)."""
        options, x, mask = self.options, source.values, source.mask
        x = x.masked_fill(~mask[..., None], 0.0)
        if self.training and options.augment is not None:
            x = spec_augment(x, mask, options.augment)
        x, mask = stack_places(x, mask, options.stack)
        if self.norm is not None:
            x = self.norm(x)
        if self.projection is not None:
            x = self.projection(x)
        if options.activation != "none":
            x = torch.relu(x) if options.activation == "relu" else torch.tanh(x)
        return Padded(drop(x, options.dropout, self.training) * mask[..., None], mask)


def stack_places(x: Tensor, mask: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Concatenate k places at a time into one, the last filled up with zeros: (B, S, N) -> (B, ceil(S / k), k N).

    >>> stack_places(torch.ones(1, 3, 2), torch.ones(1, 3) > 0, 2)[0].shape
    torch.Size([1, 2, 4])
    """
    if k == 1:
        return x, mask
    missing = -x.size(1) % k
    x = F.pad(x, (0, 0, 0, missing)).reshape(x.size(0), -1, k * x.size(2))
    return x, F.pad(mask, (0, missing)).reshape(mask.size(0), -1, k).any(2)


def spec_augment(x: Tensor, mask: Tensor, options: SpecAugmentOptions) -> Tensor:
    """Mask random blocks of times and of bands with 0, the mean of normalised features: (B, S, N).

    >>> x = torch.ones(1, 40, 8)
    >>> 0 < spec_augment(x, x[..., 0] > 0, SpecAugmentOptions()).sum() <= 320
    tensor(True)
    """
    rows, lengths = x.size(0), mask.sum(1)
    for _ in range(options.time_masks):
        widest = (lengths // 5).clamp(max=options.times)
        x = x.masked_fill(_blocks(rows, lengths, widest, x.size(1), x.device)[..., None], 0.0)
    whole = torch.full_like(lengths, x.size(2))
    for _ in range(options.band_masks):
        x = x.masked_fill(
            _blocks(rows, whole, (whole // 2).clamp(max=options.bands), x.size(2), x.device)[:, None], 0.0
        )
    return x


def _blocks(rows: int, lengths: Tensor, widest: Tensor, places: int, device: torch.device) -> Tensor:
    """A random block of places in each row: (B, places)."""
    width = (torch.rand(rows, device=device) * (widest + 1)).long()
    begin = (torch.rand(rows, device=device) * (lengths - width + 1)).long()
    at = torch.arange(places, device=device)
    return (at >= begin[:, None]) & (at < (begin + width)[:, None])
