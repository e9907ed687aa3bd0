"""Stacked 1-D convolutions over sequences, centred on each place."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from windlass.core.options import Options
from windlass.nn.dropout import drop


class ConvolutionOptions(Options):
    """A stack of convolutional layers.

    >>> ConvolutionOptions(connect="residual")
    Traceback (most recent call last):
    ...
    pydantic_core._pydantic_core.ValidationError: ...
    """

    size: int = Field(256, ge=1, description="filters of every width")
    widths: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        (3,), min_length=1, description="kernel widths; the outputs of several are concatenated"
    )
    layers: int = Field(1, ge=1, le=100, description="number of layers")
    activation: Literal["relu", "tanh", "gated"] = Field("relu", description="the activation; gated: a GLU")
    connect: Literal["plain", "residual"] = Field("plain", description="connections around a layer")
    dropout: float = Field(0.0, ge=0, lt=1, description="on the output of every layer, before it is connected")

    @model_validator(mode="after")
    def _all_used(self) -> ConvolutionOptions:
        if self.connect != "plain" and self.layers == 1:
            raise ValueError(f"connect: {self.connect} changes nothing with one layer: set layers to 2 or more")
        return self


class Convolutions(nn.Module):
    """Convolutional layers with kernels of one or several widths.

    y_t = act(sum over k of W_k x_{t+k} + b),  k from -(width - 1) // 2 to width // 2
    gated:     y_t = a_t * sigmoid(g_t), two convolutions              (Dauphin et al. 2017)
    residual:  x + y, from the second layer on

    Padding counts as zeros, whatever it holds, so more padding changes nothing.

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
            nn.ModuleList(nn.Conv1d(size, channels, width) for width in options.widths) for size in inputs
        )

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """(B, S, I) -> (B, S, D), zeros on padding."""
        real = mask[..., None]
        x = x * real
        for number, convolutions in enumerate(self.layers):
            assert isinstance(convolutions, nn.ModuleList)
            y = torch.cat([self._convolve(one, x.transpose(1, 2)) for one in convolutions], dim=1).transpose(1, 2)
            y = drop(y, self.options.dropout, self.training)
            x = (x + y if number and self.options.connect == "residual" else y) * real
        return x

    def _convolve(self, convolution: nn.Module, x: Tensor) -> Tensor:
        assert isinstance(convolution, nn.Conv1d)
        width = convolution.kernel_size[0]
        y: Tensor = convolution(F.pad(x, ((width - 1) // 2, width // 2)))
        if self.options.activation == "gated":
            return F.glu(y, dim=1)
        return torch.relu(y) if self.options.activation == "relu" else torch.tanh(y)
