"""The initial state of a decoder."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from windlass.core.records import CellState, Memory
from windlass.nn.cell import Cell
from windlass.nn.linear import Linear


class InitialState(nn.Module):
    """The initial state of a decoder.

    zeros:    h_0 = 0, the empty state
    learned:  h_0 is a parameter
    summary:  h_0 of every layer is the encoder's summary, through tanh(W s + b) if sizes differ; c_0 = 0
    final:    h_0 and c_0 are the encoder's last states, layer by layer, through W s + b if sizes differ

    The summary, and the encoder's last states, enter where the cell reads them: h, or c of a cell that reads c alone.

    >>> from windlass.nn.cells import LSTM
    >>> initial_state = InitialState("summary", LSTM.Options().build(1, 3), layers=1, memory_size=5, final_sizes=())
    >>> h, c = initial_state(Memory(torch.zeros(2, 1, 5), torch.ones(2, 1) > 0, torch.randn(2, 5)))[0]
    >>> h.shape, c.abs().sum().item()
    (torch.Size([2, 3]), 0.0)
    """

    origin: Tensor

    def __init__(
        self,
        kind: Literal["zeros", "learned", "summary", "final"],
        cell: Cell,
        layers: int,
        memory_size: int,
        final_sizes: tuple[tuple[int, ...], ...],
    ):
        super().__init__()
        size, parts = cell.size, cell.parts
        self.kind, self.layers, self.size, self.unread, self.empty = kind, layers, size, cell.unread, cell.zero_state
        # Has the dtype and device of the decoder, which an empty memory may not.
        self.register_buffer("origin", torch.zeros(size), persistent=False)
        if kind == "learned":
            self.states = nn.Parameter(torch.randn(layers, parts, size) * 0.1)
        elif kind == "summary" and memory_size != size:
            self.bridges = nn.ModuleList(nn.Sequential(Linear(memory_size, size), nn.Tanh()) for _ in range(layers))
        elif kind == "final":
            # The upper layers of a deeper decoder start from the encoder's last layer.
            self.sources = [min(layer, len(final_sizes) - 1) for layer in range(layers)]
            self.bridges = nn.ModuleList(
                nn.ModuleList(
                    nn.Identity() if width == size else Linear(width, size)
                    for width in final_sizes[s][cell.unread :][: parts - cell.unread] or final_sizes[s][-1:]
                )
                for s in self.sources
            )

    def forward(self, memory: Memory) -> tuple[CellState, ...]:
        """The initial state of every layer."""
        B = memory.summary.size(0)
        if self.kind == "learned":
            return tuple(tuple(part.expand(B, -1) for part in layer.unbind(0)) for layer in self.states.unbind(0))
        empty = self.empty(B, self.origin)
        if self.kind == "zeros":
            return (empty,) * self.layers
        before, after = empty[: self.unread], empty[self.unread + 1 :]
        if self.kind == "summary":
            if memory.summary.size(1) == self.size:
                return ((*before, memory.summary, *after),) * self.layers
            return tuple((*before, bridge(memory.summary), *after) for bridge in self.bridges)
        states: list[CellState] = []
        for source, bridges in zip(self.sources, self.bridges, strict=True):
            assert isinstance(bridges, nn.ModuleList)
            read = memory.final[source][self.unread :] or memory.final[source][-1:]
            state = (*before, *(bridge(part) for bridge, part in zip(bridges, read, strict=False)))
            states.append(state + empty[len(state) :])
        return tuple(states)
