"""Text: a sequence of tokens that is read, or written."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, final

from numpy.typing import NDArray

from windlass.core.marks import EOS
from windlass.core.records import Answer, Hypothesis, Padded, Places, TextAnswer
from windlass.data.encoded import Arrays
from windlass.data.examples import Value, as_text
from windlass.data.padding import pad
from windlass.data.sides.base import Json, SourceSide, TargetSide, TokenizedSource, ids, text_cell
from windlass.data.tokenizer import Tokenizer
from windlass.data.tokens import TextOptions


@final
@dataclass(frozen=True)
class TextSource(TokenizedSource):
    """A text as the ids of its tokens and the end mark.

    >>> side = TextSource.fit(TextOptions(), ["abc"])
    >>> side.encode("ba")["source"].tolist(), side.places("ba").names
    ([5, 4, 3], ('b', 'a', '</s>'))
    """

    end: bool = True  # not saved: the texts of a pair have no end mark

    @property
    def options(self) -> TextOptions:
        """How a text becomes tokens."""
        return self.tokenizer.options

    @classmethod
    def fit(cls, options: TextOptions, values: Iterable[Value]) -> TextSource:
        """Choose the tokens from the training data."""
        return cls(Tokenizer.fit(options, map(as_text, values)))

    @classmethod
    def read(cls, options: TextOptions, cell: object) -> Value:
        """A text; words that come as a tuple stay one."""
        return cell if isinstance(cell, tuple) else text_cell(cell, "source")

    @classmethod
    def split(cls, options: TextOptions, value: Value) -> tuple[str, ...]:
        """The words between spaces."""
        return tuple(as_text(value).split())

    @property
    def end_mark(self) -> bool:
        """A text ends with the mark, unless it is one of a pair."""
        return self.end

    def encode(self, value: Value) -> Arrays:
        """The ids of the tokens."""
        found = self.tokenizer.encode(as_text(value))
        if self.end:
            found.append(EOS)
        return {"source": ids(found)}

    def collate(self, rows: Sequence[Arrays]) -> dict[str, Padded]:
        """Input `source`: (B, S)."""
        return {"source": pad([row["source"] for row in rows])}

    def length(self, arrays: Arrays) -> int:
        """How many tokens there are, without the end mark."""
        return len(arrays["source"]) - self.end

    def places(self, value: Value) -> Places:
        """The tokens, and the end mark."""
        names = self.tokenizer.pieces(as_text(value))
        return Places("tokens", (*names, self.tokenizer.token(EOS)) if self.end else tuple(names))

    def lends(self, value: Value) -> list[list[str]]:
        """The tokens."""
        return [self.tokenizer.pieces(as_text(value))]

    def unknown(self, value: Value) -> tuple[str, ...]:
        """The tokens that training has not shown."""
        return self.tokenizer.unknown(as_text(value))

    def extend(self, values: Iterable[Value]) -> tuple[TextSource, tuple[str, ...]]:
        """Add new tokens."""
        tokenizer, new = self.tokenizer.extend(map(as_text, values))
        return replace(self, tokenizer=tokenizer), new

    def to_json(self) -> Json:
        """The tokenizer."""
        return self.tokenizer.to_json()

    @classmethod
    def from_json(cls, content: Json) -> TextSource:
        """The side of a saved tokenizer."""
        return cls(Tokenizer.from_json(content))

    @classmethod
    def tiny(cls) -> tuple[TextSource, tuple[Value, ...]]:
        """A side of letters."""
        return cls.fit(TextOptions(), ["abc"]), ("abc", "ca", "b z")


@dataclass(frozen=True)
class WrittenTarget(TargetSide):
    """A target that a decoder writes token by token, with the end mark after the last."""

    written = True

    tokenizer: Tokenizer

    @property
    def options(self) -> TextOptions:
        """How a text becomes tokens."""
        return self.tokenizer.options

    @classmethod
    def fit(cls, options: TextOptions, values: Iterable[Value]) -> Self:
        """Choose the tokens from the training data."""
        return cls(Tokenizer.fit(options, values))

    @classmethod
    def read(cls, options: TextOptions, cell: object) -> Value:
        """A text."""
        return text_cell(cell, "target")

    def __len__(self) -> int:
        return len(self.tokenizer)

    def encode(self, value: Value) -> NDArray[Any]:
        """The ids of the tokens."""
        return ids(self.tokenizer.encode(value))

    def collate(self, rows: Sequence[NDArray[Any]]) -> Padded:
        """The ids, each row with the end mark: (B, T)."""
        return pad(rows, EOS)

    def cost(self, array: NDArray[Any]) -> int:
        """How many tokens there are, with the end mark."""
        return len(array) + 1

    @classmethod
    def no_answer(cls) -> Answer:
        """Nothing."""
        return TextAnswer()

    def answer(
        self, hypothesis: Hypothesis, source: SourceSide, value: Value, copied: tuple[str, ...] = ()
    ) -> tuple[str, Answer]:
        """The text, and its tokens with their probabilities."""
        tokens = tuple(self.tokenizer.token(n, copied) for n in hypothesis.ids)
        probabilities = tuple(math.exp(logprob) for logprob in hypothesis.logprobs)
        text = self._text(self.tokenizer.decode(hypothesis.ids, copied), source, value)
        return text, TextAnswer(tokens, probabilities)

    @abstractmethod
    def _text(self, decoded: str, source: SourceSide, value: Value) -> str:
        """What a user reads of decoded tokens."""

    def unknown(self, value: Value) -> tuple[str, ...]:
        """The tokens that training has not shown."""
        return self.tokenizer.unknown(value)

    def extend(self, values: Iterable[Value]) -> tuple[Self, tuple[str, ...]]:
        """Add new tokens."""
        tokenizer, new = self.tokenizer.extend(values)
        return replace(self, tokenizer=tokenizer), new

    def to_json(self) -> Json:
        """The tokenizer."""
        return self.tokenizer.to_json()

    @classmethod
    def from_json(cls, content: Json) -> Self:
        """The side of a saved tokenizer."""
        return cls(Tokenizer.from_json(content))


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

    def _text(self, decoded: str, source: SourceSide, value: Value) -> str:
        return decoded

    @classmethod
    def tiny(cls) -> tuple[TextTarget, tuple[Value, ...]]:
        """A side of letters."""
        return cls.fit(TextOptions(), ["abc"]), ("cba", "a", "bb z")
