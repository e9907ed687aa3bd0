"""1-D convolutions over sequences that see both sides of a place."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from windlass.core.options import Options


class ConvolutionOptions(Options):
    """Layers of filters that slide over a sequence.

    >>> ConvolutionOptions(size=8, widths=(3, 5)).layers
    1
    """

    size: int = Field(256, ge=1, description="filters of every width")
    widths: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        (3,), min_length=1, description="places that filters see at once; several numbers: filters side by side"
    )
    layers: int = Field(1, ge=1, description="how many layers stand on each other")
    activation: Literal["relu", "tanh", "gated"] = Field("relu", description="what a filter's sum goes through")
    connect: Literal["plain", "residual"] = Field("plain", description="how a layer joins the one below")
    dropout: float = Field(0.0, ge=0, lt=1, description="on what every layer puts out")

    @model_validator(mode="after")
    def _all_used(self) -> ConvolutionOptions:
        if self.connect != "plain" and self.layers == 1:
            raise ValueError(f"connect: {self.connect} changes nothing with one layer: set layers to 2 or more")
        return self


class Convolutions(nn.Module):
    """Layers of filters of one or several widths, centred on a place.

    y_t = act(sum over k of W_k x_{t+k} + b),  k from -(width - 1) // 2 to width // 2
    gated:     y_t = a_t * sigmoid(g_t), both sums of their own        (Dauphin et al. 2017)
    residual:  x + y, from the second layer on

    Outside of a row stand zeros, whatever the padding holds, so more padding changes nothing.

    >>> layers = Convolutions(3, ConvolutionOptions(size=4, widths=(1, 3), layers=2))
    >>> layers(torch.randn(2, 5, 3), torch.ones(2, 5) > 0).shape
    torch.Size([2, 5, 8])
    """

    def __init__(self, input_size: int, options: ConvolutionOptions):
        super().__init__()
        self.options = options
        self.size = options.size * len(options.widths)
        channels = options.size * (2 if options.activation == "gated" else 1)
        inputs = [input_size] + [self.size] * (options.layers - 1)
        self.layers = nn.ModuleList(
            nn.ModuleList(nn.Conv1d(width, channels, places) for places in options.widths) for width in inputs
        )

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """(B, S, I) -> (B, S, D), zeros where there is nothing real."""
        real = mask[..., None]
        x = x * real
        for number, filters in enumerate(self.layers):
            assert isinstance(filters, nn.ModuleList)
            y = torch.cat([self._slide(one, x.transpose(1, 2)) for one in filters], dim=1).transpose(1, 2)
            y = x + y if number and self.options.connect == "residual" else y
            x = F.dropout(y, self.options.dropout, self.training) * real
        return x

    def _slide(self, filters: nn.Module, x: Tensor) -> Tensor:
        assert isinstance(filters, nn.Conv1d)
        width = filters.kernel_size[0]
        sums: Tensor = filters(F.pad(x, ((width - 1) // 2, width // 2)))
        if self.options.activation == "gated":
            return F.glu(sums, dim=1)
        return torch.relu(sums) if self.options.activation == "relu" else torch.tanh(sums)
