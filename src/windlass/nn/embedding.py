"""Embeddings: learned, one-hot, or pretrained word vectors from a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, Self

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from windlass.core.errors import DataError, RecipeError
from windlass.core.fitting import Gives, Needs, Refuses, Term
from windlass.core.marks import UNK
from windlass.core.options import Options, named
from windlass.nn.dropout import drop


class _Embedding(Options):
    dropout: float = Field(0.0, ge=0, lt=1, description="on the embeddings")
    blank: float = Field(0.0, ge=0, lt=1, description="share of tokens that become unknown in training (word dropout)")


class Learned(_Embedding):
    """A learned embedding table.

    >>> Learned(size=4).build(10)(torch.tensor([[1, 2]])).shape
    torch.Size([1, 2, 4])
    """

    kind: Literal["learned"] = "learned"
    size: int = Field(256, ge=1, description="embedding size")
    spread: float = Field(1.0, gt=0, description="standard deviation of the initial values")

    def _terms(self, at: str) -> Iterator[Term]:
        yield Gives(f"{at} trained")

    def build(self, vocabulary: int) -> Embedding:
        """Build the embedding."""
        return Embedding(nn.Parameter(torch.randn(vocabulary, self.size) * self.spread), self.dropout, self.blank)


class OneHot(_Embedding):
    """One-hot vectors.

    >>> OneHot().build(3)(torch.tensor([2])).tolist()
    [[0.0, 0.0, 1.0]]
    """

    kind: Literal["one_hot"] = "one_hot"

    def build(self, vocabulary: int) -> Embedding:
        """Build the (fixed) embedding."""
        return Embedding(torch.eye(vocabulary), self.dropout, self.blank)


class Vectors(_Embedding):
    """Word vectors from a text file with a line per word: `word 0.1 -0.2 ...` (an optional first line `count size`).

    >>> embedding = Vectors(path="vectors.txt", size=50, freeze=True).build(10)
    >>> embedding.size, list(embedding.parameters())
    (50, [])
    """

    kind: Literal["vectors"] = "vectors"
    path: str = Field(description="a text file with a word and its numbers on every line")
    size: int = Field(ge=1, description="the size of the vectors in the file")
    freeze: bool = Field(False, description="do not train the vectors")
    more: int = Field(0, ge=0, description="add this many of the file's first words to the vocabulary")
    spread: float = Field(0.1, gt=0, description="standard deviation of the vectors of words that the file lacks")

    def _terms(self, at: str) -> Iterator[Term]:
        yield Gives(f"{at} trained", not self.freeze)
        if self.more:
            yield Needs("source whole tokens", f"{at}.more adds words, not pieces of them: set source.tokens: words")
            yield Refuses("vocabulary: joint", f"{at}.more adds words to read, not to write: set vocabulary: separate")

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """Trained and frozen, as they are before a file is loaded."""
        return cls(path="vectors.txt", size=4), cls(path="vectors.txt", size=4, freeze=True)

    def build(self, vocabulary: int) -> Embedding:
        """Build the embedding; `Embedding.load` fills it."""
        table = torch.randn(vocabulary, self.size) * self.spread
        return Embedding(table if self.freeze else nn.Parameter(table), self.dropout, self.blank)


EmbeddingOptions = Annotated[Learned | OneHot | Vectors, Field(discriminator="kind"), named]
"""Every embedding that a recipe can name."""


class Embedding(nn.Module):
    """Looks up vectors in a table (V, E) by id, with word dropout and dropout in training.

    >>> Embedding(torch.eye(3))(torch.tensor([1])).tolist()
    [[0.0, 1.0, 0.0]]
    """

    table: Tensor

    def __init__(self, table: Tensor, dropout: float = 0.0, word_dropout: float = 0.0):
        super().__init__()
        self.scale = 1.0
        self.sparse = False  # set by `training/lazy.py`
        if isinstance(table, nn.Parameter):
            self.table = table
        else:
            self.register_buffer("table", table)
        self.dropout, self.word_dropout = dropout, word_dropout

    @property
    def size(self) -> int:
        """E."""
        return self.table.size(1)

    def scale_for_tying(self) -> None:
        """Scale the table so that it can also be the output layer, which needs small weights.

        The table is divided by sqrt(E), and vectors are multiplied by it when looked up (Vaswani et al. 2017).
        """
        self.scale = float(self.size**0.5)
        self.table.data /= self.scale

    def forward(self, ids: Tensor) -> Tensor:
        """(...) -> (..., E)."""
        if self.training and self.word_dropout:
            ids = ids.masked_fill(torch.rand(ids.shape, device=ids.device) < self.word_dropout, UNK)
        vectors = F.embedding(ids, self.table, sparse=self.sparse)
        return drop(vectors if self.scale == 1 else vectors * self.scale, self.dropout, self.training)

    def load(self, path: str, words: list[str]) -> int:
        """Fill in the vectors of the words that a file has, as written or else in lower case; return their number."""
        ids = {word: i for i, word in enumerate(words)}
        forms: dict[str, list[int]] = {}  # the words with capitals, by their lower case
        for i, word in enumerate(words):
            if (lower := word.lower()) != word:
                forms.setdefault(lower, []).append(i)
        loaded: set[int] = set()
        exact: set[int] = set()
        with torch.no_grad():
            for number, word, numbers in _vectors(path, self.size):
                places = [i for i in forms.get(word, ()) if i not in exact]
                if word in ids:
                    places.append(ids[word])
                    exact.add(ids[word])
                if places:
                    try:
                        self.table[places] = torch.tensor([float(n) for n in numbers]) / self.scale
                    except ValueError:
                        raise DataError(f"{path}:{number}: not a number in the vector of {word!r}") from None
                    loaded.update(places)
        return len(loaded)


def words_of(path: str, size: int) -> Iterator[str]:
    """The words of a file of word vectors, in order.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
    ...     _ = f.write("cat 1 2" + chr(10) + "dog 3 4" + chr(10)); _ = f.seek(0)
    ...     list(words_of(f.name, 2))
    ['cat', 'dog']
    """
    return (word for _, word, _ in _vectors(path, size))


def _vectors(path: str, size: int) -> Iterator[tuple[int, str, list[str]]]:
    """The line number, word and numbers of every line."""
    try:
        with Path(path).open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                word, *numbers = line.rstrip().split(" ")
                if number == 1 and word.isdigit() and numbers == [str(size)]:  # "count size"
                    continue
                if len(numbers) != size:
                    what = f"a vector of {len(numbers)} numbers, but embedding.size is {size}"
                    raise RecipeError(f"{path}:{number}: {what}")
                yield number, word, numbers
    except OSError as error:
        raise DataError(f"{path}: cannot read word vectors: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 text ({error.reason}): convert the file first") from None
