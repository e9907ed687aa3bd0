"""A vector for every word from its letters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, Literal, final

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from windlass.core.options import Options as BaseOptions
from windlass.core.options import named
from windlass.core.records import Padded
from windlass.nn.cells import LSTM, CellOptions
from windlass.nn.recurrence import Stack, StackOptions


class _Spelling(BaseOptions):
    embedding: int = Field(32, ge=1, description="the length of a letter's vector")
    dropout: float = Field(0.0, ge=0, lt=1, description="on the vectors of words")


class Spelling(nn.Module, ABC):
    """Letters (B, S, C) -> vectors of words (B, S, E). A word that comes several times is read once."""

    size: int
    """The length of a word's vector: E."""

    def __init__(self, letters: int, options: _Spelling):
        super().__init__()
        self.table = nn.Parameter(torch.randn(letters, options.embedding))
        self.dropout = options.dropout

    def forward(self, letters: Padded) -> Tensor:
        """One vector a word; zeros where there is none."""
        B, S, C = letters.values.shape
        ids = letters.values.masked_fill(~letters.mask, -1).view(B * S, C)
        words, origin = torch.unique(ids, dim=0, return_inverse=True)
        real = words >= 0
        vectors = self.read(F.embedding(words.clamp(min=0), self.table) * real[..., None], real)
        vectors = vectors * real.any(1, keepdim=True)
        return F.dropout(vectors[origin].view(B, S, -1), self.dropout, self.training)

    @abstractmethod
    def read(self, x: Tensor, mask: Tensor) -> Tensor:
        """Embedded letters (W, C, L) of different words -> (W, E)."""


@final
class RecurrentSpelling(Spelling):
    """Both ends of a recurrent network that reads a word's letters in both directions (Lample et al. 2016).

    v = [forward h_C; backward h_1]

    >>> spelling = RecurrentSpelling.Options(size=3, embedding=2).build(letters=9)
    >>> spelling(Padded.nested([[[4, 5], [6]], [[7]]])).shape
    torch.Size([2, 2, 6])
    """

    class Options(_Spelling):
        """A recurrent network over the letters."""

        kind: Literal["recurrent"] = "recurrent"
        cell: CellOptions = Field(LSTM.Options(), description="what takes a step")
        size: int = Field(32, ge=1, description="units a direction")

        def build(self, letters: int) -> RecurrentSpelling:
            """Make it."""
            return RecurrentSpelling(letters, self)

    def __init__(self, letters: int, options: Options):
        super().__init__(letters, options)
        stack = StackOptions(cell=options.cell, size=options.size)
        self.stack = Stack(options.embedding, stack, bidirectional=True)
        self.size = self.stack.size

    def read(self, x: Tensor, mask: Tensor) -> Tensor:
        """The last states of both directions."""
        _, final = self.stack(x, mask)
        ends: Tensor = final[-1][0]
        return ends


@final
class ConvolutionSpelling(Spelling):
    """The strongest answer of every filter that slides over a word's letters (Ma and Hovy 2016).

    v_f = max_j relu(w_f . [x_j; ...; x_{j+width-1}] + b_f)

    >>> spelling = ConvolutionSpelling.Options(size=5, embedding=2).build(letters=9)
    >>> spelling(Padded.nested([[[4, 5], [6]], [[7]]])).shape
    torch.Size([2, 2, 5])
    """

    class Options(_Spelling):
        """Filters that slide over the letters."""

        kind: Literal["convolution"] = "convolution"
        size: int = Field(64, ge=1, description="filters")
        width: int = Field(3, ge=1, description="letters that a filter sees at once")

        def build(self, letters: int) -> ConvolutionSpelling:
            """Make it."""
            return ConvolutionSpelling(letters, self)

    def __init__(self, letters: int, options: Options):
        super().__init__(letters, options)
        self.width = options.width
        self.filters = nn.Conv1d(options.embedding, options.size, options.width)
        self.size = options.size

    def read(self, x: Tensor, mask: Tensor) -> Tensor:
        """Filters see zeros around a word; a window that begins after its last letter does not count."""
        padded = F.pad(x.transpose(1, 2), (self.width - 1, self.width - 1))  # (W, L, C + 2 width - 2)
        found = torch.relu(self.filters(padded))  # (W, E, C + width - 1)
        places = torch.arange(found.size(2), device=x.device) < mask.sum(1, keepdim=True) + self.width - 1
        strongest: Tensor = (found * places[:, None]).max(2).values
        return strongest


SpellingOptions = Annotated[RecurrentSpelling.Options | ConvolutionSpelling.Options, Field(discriminator="kind"), named]
"""Every way to read a word's letters that a recipe can name."""
