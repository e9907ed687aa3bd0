"""Text: a sequence of tokens that is read, or written."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from windlass.core.marks import BUCKETS, EOS
from windlass.core.records import Hypothesis, Padded, Places, TextAnswer
from windlass.data.encoded import Arrays
from windlass.data.examples import Value, as_text
from windlass.data.padding import pad
from windlass.data.sides.base import Answered, Json, Side, SourceSide, TargetSide, TokenizedSource, ids, text_cell
from windlass.data.sparse import hashed_features
from windlass.data.tokenizer import SPACE_MARK, Tokenizer
from windlass.data.tokens import TextOptions


@dataclass(frozen=True)
class _Text(Side):
    """What texts that are read and texts that are written share: all that is fitted is a tokenizer."""

    tokenizer: Tokenizer

    @property
    def options(self) -> TextOptions:
        return self.tokenizer.options

    @classmethod
    def fit(cls, options: TextOptions, values: Iterable[Value]) -> Self:
        return cls(Tokenizer.fit(options, map(as_text, values)))

    def unknown(self, value: Value) -> tuple[str, ...]:
        return self.tokenizer.unknown(as_text(value))

    def extend(self, values: Iterable[Value]) -> tuple[Self, tuple[str, ...]]:
        tokenizer, new = self.tokenizer.extend(map(as_text, values))
        return replace(self, tokenizer=tokenizer), new

    def to_json(self) -> Json:
        return self.tokenizer.to_json()

    @classmethod
    def from_json(cls, options: TextOptions, content: Json) -> Self:
        return cls(Tokenizer.from_json(content))


def hashed_ngrams(pieces: Sequence[str], order: int) -> list[int]:
    """The different n-grams of tokens up to an order, each as the number of its bucket.

    >>> len(hashed_ngrams(["a", "cat", "a", "cat"], 2))
    4
    """
    found = {" ".join(pieces[n : n + size]) for size in range(1, order + 1) for n in range(len(pieces) - size + 1)}
    return sorted({zlib.crc32(ngram.encode()) % BUCKETS for ngram in found})


@final
@dataclass(frozen=True)
class TextSource(_Text, TokenizedSource):
    """A text as the ids of its tokens and the end mark.

    >>> side = TextSource.fit(TextOptions(), ["abc"])
    >>> side.encode("ba")["source"].tolist(), side.places("ba").names
    ([5, 4, 3], ('b', 'a', '</s>'))
    """

    end_mark: bool = True  # not saved: the texts of a pair have no end mark

    @classmethod
    def read(cls, options: TextOptions, cell: object) -> Value:
        """A text; words that come as a tuple stay one."""
        return cell if isinstance(cell, tuple) else text_cell(cell, "source")

    @classmethod
    def split(cls, options: TextOptions, value: Value) -> tuple[str, ...]:
        """The words between spaces."""
        return tuple(as_text(value).split())

    def encode(self, value: Value) -> Arrays:
        found = self.tokenizer.encode(as_text(value))
        if self.end_mark:
            found.append(EOS)
        arrays = {"source": ids(found)}
        if order := self.options.ngrams:
            arrays["ngrams"] = ids(hashed_ngrams(self.tokenizer.pieces(as_text(value)), order))
        if kinds := self.options.sparse:
            arrays["sparse"] = ids(hashed_features(self._words(value), kinds))
        return arrays

    @cached_property
    def _cased(self) -> Tokenizer:
        """Cuts a text into tokens without lowercasing it."""
        return replace(self.tokenizer, options=self.options.model_copy(update={"lowercase": False}))

    def _words(self, value: Value, omit: int | None = None) -> list[str]:
        """The words of a text, or of all its tokens but one, as they are written."""
        pieces = [piece for n, piece in enumerate(self._cased.pieces(as_text(value))) if n != omit]
        return pieces if self.tokenizer.spaced else "".join(pieces).replace(SPACE_MARK, " ").split()

    def without(self, value: Value, place: int) -> Arrays:
        """The arrays of a text without one of its tokens."""
        arrays = self.encode(value)
        arrays["source"] = np.delete(arrays["source"], place)
        if order := self.options.ngrams:
            pieces = self.tokenizer.pieces(as_text(value))
            arrays["ngrams"] = ids(hashed_ngrams([*pieces[:place], *pieces[place + 1 :]], order))
        if kinds := self.options.sparse:
            arrays["sparse"] = ids(hashed_features(self._words(value, place), kinds))
        return arrays

    def collate(self, rows: Sequence[Arrays]) -> dict[str, Padded]:
        """Input `source`: (B, S); and `ngrams` and `sparse`, if there are: (B, N)."""
        return {name: pad([row[name] for row in rows]) for name in ("source", "ngrams", "sparse") if name in rows[0]}

    def length(self, arrays: Arrays) -> int:
        """How many tokens there are, without the end mark."""
        return len(arrays["source"]) - self.end_mark

    def places(self, value: Value) -> Places:
        names = self.tokenizer.pieces(as_text(value))
        return Places("tokens", (*names, self.tokenizer.token(EOS)) if self.end_mark else tuple(names))

    def lends(self, value: Value) -> list[list[str]]:
        return [self.tokenizer.pieces(as_text(value))]

    @classmethod
    def tiny(cls) -> tuple[TextSource, tuple[Value, ...]]:
        return cls.fit(TextOptions(ngrams=2, sparse=("ngrams", "shape")), ["abc"]), ("abc", "ca", "b z")


@dataclass(frozen=True)
class WrittenTarget(_Text, TargetSide):
    """A target that a decoder writes token by token, with the end mark after the last."""

    written = True
    no_answer = TextAnswer()

    @classmethod
    def read(cls, options: TextOptions, cell: object) -> Value:
        return text_cell(cell, "target")

    def __len__(self) -> int:
        return len(self.tokenizer)

    def encode(self, value: Value) -> NDArray[Any]:
        return ids(self.tokenizer.encode(value))

    def collate(self, rows: Sequence[NDArray[Any]]) -> Padded:
        """The ids, each row with the end mark: (B, T)."""
        return pad(rows, EOS)

    def cost(self, array: NDArray[Any]) -> int:
        """How many tokens there are, with the end mark."""
        return len(array) + 1

    def answer(self, hypothesis: Hypothesis, source: SourceSide, value: Value, copied: Sequence[str] = ()) -> Answered:
        tokens = tuple(self.tokenizer.token(n, copied) for n in hypothesis.ids)
        probabilities = tuple(math.exp(logprob) for logprob in hypothesis.logprobs)
        text = self._text(self.tokenizer.decode(hypothesis.ids, copied), source, value)
        return text, TextAnswer(tokens, probabilities)

    def _text(self, decoded: str, source: SourceSide, value: Value) -> str:
        """What a user reads of decoded tokens."""
        return decoded


@final
@dataclass(frozen=True)
class TextTarget(WrittenTarget):
    """A text.

    >>> side = TextTarget.fit(TextOptions(tokens="words"), ["k a t"])
    >>> side.encode("t a").tolist(), side.collate([side.encode("t a")]).values.tolist()
    ([6, 4], [[6, 4, 3]])
    >>> side.answer(Hypothesis((6, 4), -0.5, (-0.25, -0.25, 0.0)), TextSource.tiny()[0], "ta")[0]
    't a'
    """

    baselines = ("copy", "most frequent", "last part", "first words", "letter by letter")

    @classmethod
    def tiny(cls) -> tuple[TextTarget, tuple[Value, ...]]:
        return cls.fit(TextOptions(), ["abc"]), ("cba", "a", "bb z")
