"""The initial state of a decoder."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from windlass.core.records import CellState, Memory


class InitialState(nn.Module):
    """The initial state of a decoder.

    zeros:    h_0 = 0
    learned:  h_0 is a parameter
    summary:  h_0 of every layer is the encoder's summary, through tanh(W s + b) if sizes differ; c_0 = 0
    final:    h_0 and c_0 are the encoder's last states, layer by layer, through W s + b if sizes differ

    >>> initial_state = InitialState("summary", parts=2, layers=1, size=3, memory_size=5, final_sizes=())
    >>> h, c = initial_state(Memory(torch.zeros(2, 1, 5), torch.ones(2, 1) > 0, torch.randn(2, 5)))[0]
    >>> h.shape, c.abs().sum().item()
    (torch.Size([2, 3]), 0.0)
    """

    origin: Tensor

    def __init__(
        self,
        kind: Literal["zeros", "learned", "summary", "final"],
        parts: int,
        layers: int,
        size: int,
        memory_size: int,
        final_sizes: tuple[tuple[int, ...], ...],
    ):
        super().__init__()
        self.kind, self.parts, self.layers, self.size = kind, parts, layers, size
        # Has the dtype and device of the decoder, which an empty memory may not.
        self.register_buffer("origin", torch.zeros(size), persistent=False)
        if kind == "learned":
            self.states = nn.Parameter(torch.randn(layers, parts, size) * 0.1)
        elif kind == "summary" and memory_size != size:
            self.bridges = nn.ModuleList(nn.Sequential(nn.Linear(memory_size, size), nn.Tanh()) for _ in range(layers))
        elif kind == "final":
            # The upper layers of a deeper decoder start from the encoder's last layer.
            self.sources = [min(layer, len(final_sizes) - 1) for layer in range(layers)]
            self.bridges = nn.ModuleList(
                nn.ModuleList(
                    nn.Identity() if width == size else nn.Linear(width, size) for width in final_sizes[s][:parts]
                )
                for s in self.sources
            )

    def forward(self, memory: Memory) -> tuple[CellState, ...]:
        """The initial state of every layer."""
        B = memory.summary.size(0)
        zeros = self.origin.new_zeros(B, self.size)
        if self.kind == "zeros":
            return ((zeros,) * self.parts,) * self.layers
        if self.kind == "learned":
            return tuple(tuple(part.expand(B, -1) for part in layer.unbind(0)) for layer in self.states.unbind(0))
        cells = (zeros,) * (self.parts - 1)
        if self.kind == "summary":
            if memory.summary.size(1) == self.size:
                return ((memory.summary, *cells),) * self.layers
            return tuple((bridge(memory.summary), *cells) for bridge in self.bridges)
        states: list[CellState] = []
        for source, bridges in zip(self.sources, self.bridges, strict=True):
            assert isinstance(bridges, nn.ModuleList)
            state = tuple(b(part) for b, part in zip(bridges, memory.final[source], strict=False))
            states.append(state + (zeros,) * (self.parts - len(state)))
        return tuple(states)
