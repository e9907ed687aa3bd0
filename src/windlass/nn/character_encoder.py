"""Character encoders: a vector for every word from its characters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, Literal, final

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from windlass.core.options import Options as BaseOptions
from windlass.core.options import Part, named
from windlass.core.records import Padded
from windlass.nn.cells import LSTM, CellOptions
from windlass.nn.dropout import drop
from windlass.nn.recurrence import Stack, StackOptions


class _CharacterOptions(BaseOptions):
    embedding: int = Field(32, ge=1, description="size of the character embeddings")
    dropout: float = Field(0.0, ge=0, lt=1, description="on the word vectors")

    def build(self, characters: int) -> CharacterEncoder:
        """Build the encoder."""
        return self.part(characters, self)  # type: ignore[no-any-return]


class CharacterEncoder(Part, nn.Module, ABC):
    """Characters (B, S, C) -> word vectors (B, S, E). Every distinct word of a batch is encoded once."""

    size: int
    """The size of a word vector: E."""

    def __init__(self, characters: int, options: _CharacterOptions):
        super().__init__()
        self.table = nn.Parameter(torch.randn(characters, options.embedding))
        self.dropout = options.dropout

    def forward(self, characters: Padded) -> Tensor:
        """One vector per word, zeros on padding."""
        B, S, C = characters.values.shape
        ids = characters.values.masked_fill(~characters.mask, -1).view(B * S, C)
        words, origin = torch.unique(ids, dim=0, return_inverse=True)
        real = words >= 0
        vectors = self.encode(F.embedding(words.clamp(min=0), self.table) * real[..., None], real)
        vectors = vectors * real.any(1, keepdim=True)
        return drop(vectors[origin].view(B, S, -1), self.dropout, self.training)

    @abstractmethod
    def encode(self, x: Tensor, mask: Tensor) -> Tensor:
        """Embedded characters (W, C, L) of distinct words -> (W, E)."""


@final
class CharacterRNN(CharacterEncoder):
    """The last states of a bidirectional recurrent network over the characters (Lample et al. 2016).

    v = [forward h_C; backward h_1]

    >>> encoder = CharacterRNN.Options(size=3, embedding=2).build(characters=9)
    >>> encoder(Padded.nested([[[4, 5], [6]], [[7]]])).shape
    torch.Size([2, 2, 6])
    """

    class Options(_CharacterOptions):
        """A recurrent network over the characters."""

        kind: Literal["recurrent"] = "recurrent"
        cell: CellOptions = Field(LSTM.Options(), description="the recurrent cell")
        size: int = Field(32, ge=1, description="units per direction")

    def __init__(self, characters: int, options: Options):
        super().__init__(characters, options)
        stack = StackOptions(cell=options.cell, size=options.size)
        self.stack = Stack(options.embedding, stack, bidirectional=True)
        self.size = self.stack.size

    def encode(self, x: Tensor, mask: Tensor) -> Tensor:
        """The last states of both directions."""
        _, final = self.stack(x, mask)
        h: Tensor = final[-1][0]
        return h


@final
class CharacterCNN(CharacterEncoder):
    """A convolution over the characters with max pooling (Ma and Hovy 2016).

    v_f = max_j relu(w_f . [x_j; ...; x_{j+width-1}] + b_f)

    >>> encoder = CharacterCNN.Options(size=5, embedding=2).build(characters=9)
    >>> encoder(Padded.nested([[[4, 5], [6]], [[7]]])).shape
    torch.Size([2, 2, 5])
    """

    class Options(_CharacterOptions):
        """A convolution over the characters."""

        kind: Literal["convolution"] = "convolution"
        size: int = Field(64, ge=1, description="filters")
        width: int = Field(3, ge=1, description="kernel width, in characters")

    def __init__(self, characters: int, options: Options):
        super().__init__(characters, options)
        self.width = options.width
        self.filters = nn.Conv1d(options.embedding, options.size, options.width)
        self.size = options.size

    def encode(self, x: Tensor, mask: Tensor) -> Tensor:
        """Words are padded with zeros; windows that start after the last character do not count."""
        padded = F.pad(x.transpose(1, 2), (self.width - 1, self.width - 1))  # (W, L, C + 2 width - 2)
        y = torch.relu(self.filters(padded))  # (W, E, C + width - 1)
        places = torch.arange(y.size(2), device=x.device) < mask.sum(1, keepdim=True) + self.width - 1
        pooled: Tensor = (y * places[:, None]).max(2).values
        return pooled


CharacterEncoderOptions = Annotated[CharacterRNN.Options | CharacterCNN.Options, Field(discriminator="kind"), named]
"""Every character encoder that a recipe can name."""
