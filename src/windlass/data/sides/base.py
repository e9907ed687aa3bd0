"""What a side of an example is: one kind of thing that goes in, or that comes out.

A side reads a cell of a file into a value, is fitted on the values of the training data, encodes values as arrays,
collates arrays into the inputs of a batch, and is saved with the model as JSON. Nothing outside a side asks which kind
it is.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from torch import nn

from windlass.core.errors import DataError, RecipeError
from windlass.core.records import Answer, Hypothesis, Padded, Places
from windlass.data.encoded import Arrays
from windlass.data.examples import Example, Value, as_text
from windlass.data.tokenizer import Tokenizer

Json = dict[str, Any]
Transitions = tuple[list[bool], list[list[bool]], list[bool]]
"""Which output may come first, which after which, and which last."""
Answered = tuple[str, Answer]
"""The text of an output, and the same as a typed answer."""
Brackets = tuple[tuple[str, ...], list[int]]
"""What keeps trees well-formed: the symbols of the outputs, and how many words each source has."""
Track = Callable[[range, int, str], Iterable[int]]
"""Passes on the numbers of a range and shows how many of so many are done, and of what."""


class CellError(DataError):
    """A cell that a side cannot read, and the kind of finding it makes.

    >>> CellError("not text", "the source is not text but dict").kind
    'not text'
    """

    def __init__(self, kind: str, what: str) -> None:
        super().__init__(what)
        self.kind = kind


def text_cell(cell: object, name: str) -> str:
    """A cell as text: numbers are written out, whole ones without decimals, and dates; nothing is blank.

    >>> text_cell(7, "source"), text_cell(7.0, "source"), text_cell(None, "source")
    ('7', '7', '')
    """
    if isinstance(cell, str):
        return cell
    if cell is None:
        return ""
    if isinstance(cell, int | float) and not isinstance(cell, bool):
        return as_text(cell)
    if isinstance(cell, date):
        return str(cell)
    raise CellError("not text", f"the {name} is not text but {type(cell).__name__}")


NOT_OF_TEXT: Mapping[str, str | None] = {
    **dict.fromkeys(("copy", "last part", "first words", "hidden Markov model"), None),
    "bag of words": "nearest",
    "letter by letter": "nearest",
    "most frequent tag of a word": "most frequent tag",
}
"""Baselines of sources that are no text, in the place of those that look at words."""


def ids(numbers: Sequence[int]) -> NDArray[np.int32]:
    """Ids as an array.

    >>> ids([5, 6]).dtype.name
    'int32'
    """
    return np.array(numbers, dtype=np.int32)


class Side(ABC):
    """What sources and targets share."""

    multiline: ClassVar[bool] = False
    """Whether line breaks inside a cell mean something; elsewhere they become spaces."""
    textual: ClassVar[bool] = True
    """Whether a value is made of text, whose characters and length are checked and counted."""

    if TYPE_CHECKING:  # a field of some sides and a property of others

        @property
        def options(self) -> Any:
            """How the side was fitted."""

    @classmethod
    @abstractmethod
    def fit(cls, options: Any, values: Iterable[Value]) -> Self:
        """Learn from the values of the training data, one at a time, as they may come from a file."""

    @classmethod
    @abstractmethod
    def read(cls, options: Any, cell: object) -> Value:
        """The value of a cell of a file, a JSON value, or an input that a user gives.

        A value is hashable and can be written as JSON (a tuple as a list); to read a value again changes nothing.
        """

    @classmethod
    def blank(cls, value: Value) -> bool:
        """Whether there is nothing in a value to learn from or to predict for."""
        if isinstance(value, str):
            return not value.strip()
        return isinstance(value, tuple) and all(map(cls.blank, value))

    @classmethod
    def digest(cls, value: Value) -> bytes:
        """What resume and caches compare values by."""
        return json.dumps(value, ensure_ascii=False).encode()

    def unknown(self, value: Value) -> tuple[str, ...]:
        """The symbols of a value that training has not shown, in order."""
        return ()

    def extend(self, values: Iterable[Value]) -> tuple[Self, tuple[str, ...]]:
        """Add the symbols of new values, with every old id unchanged. Returns the side and the new symbols."""
        return self, ()

    def to_json(self) -> Json:
        """The options, and what else `from_json` needs, as plain JSON values."""
        return {"options": self.options.model_dump(mode="json")}

    @classmethod
    @abstractmethod
    def from_json(cls, options: Any, content: Json) -> Self:
        """The side that `to_json` described, with its options read already."""

    @classmethod
    @abstractmethod
    def tiny(cls) -> tuple[Self, tuple[Value, ...]]:
        """A small fitted side with some values, for tests and examples."""


class SourceSide(Side):
    """What goes in."""

    texts: ClassVar[int] = 1
    """How many columns of a file it is read from."""
    word_by_word: ClassVar[bool] = False
    """Whether a value may be the words of a sentence, as columns of words (CoNLL) hold them."""
    unit: ClassVar[str] = "words"
    """What `split` gives, and how a file separates it."""
    separated: ClassVar[str] = "both are separated by spaces"
    instead: ClassVar[Mapping[str, str | None]] = {}
    """Baselines that this source has in the place of those that a target names; None: no such baseline."""
    beside: ClassVar[tuple[str, ...]] = ()
    """Baselines that this source has beside those of the target."""
    end_mark: bool = False
    """Whether the last place is the end mark."""
    extensions: ClassVar[frozenset[str]] = frozenset()
    """Endings of the files that hold a value each, in lower case; none if values are not read from files."""
    what: ClassVar[str] = "text"
    """What a user calls one value."""

    least: ClassVar[Mapping[str, float]] = {}
    """Sizes, as `measure` has them, below which a value is too small to show much."""
    fixed: ClassVar[str | None] = None
    """A size, as `measure` has it, that all values must share."""

    @classmethod
    def holds(cls, path: Path) -> bool:
        """Whether a file, by its name, holds a value."""
        return path.suffix.lower() in cls.extensions

    @classmethod
    def measure(cls, options: Any, value: Value) -> dict[str, float]:
        """The sizes of a value that is no text, for a report; a `DataError` if it cannot be read."""
        return {}

    @classmethod
    def content(cls, value: Value) -> str:
        """What is equal for values that hold the same."""
        return as_text(value)

    @classmethod
    def from_line(cls, options: Any, line: str) -> Value:
        """The value of a line of text, as commands read them."""
        return cls.read(options, line)

    @classmethod
    def inputs(cls, data: Any) -> list[Any] | None:
        """The inputs in what a user gives to predict from, if it is neither texts nor a table."""
        return None

    @classmethod
    def locate(cls, options: Any, value: Value, folder: Path) -> Value:
        """The value with its files found, whose names are relative to `folder`; a `CellError` if one is missing."""
        return value

    @classmethod
    def held_out_by(cls, value: Value) -> str:
        """What must not be in both training and dev data: the source itself, or what several sources share."""
        return as_text(value)

    @classmethod
    def columns(cls, value: Value) -> tuple[str, ...]:
        """A value as the columns of a line."""
        return (value if isinstance(value, str) else " ".join(value),)

    @classmethod
    def split(cls, options: Any, value: Value) -> tuple[str, ...]:
        """The parts that tags or trees of training data are for: the words of a sentence."""
        raise RecipeError(f"{cls.__name__} has no parts that could be tagged")

    @classmethod
    def with_parts(cls, value: Value, parts: tuple[str, ...]) -> Value:
        """A value that is known to have these parts."""
        return parts

    def words(self, value: Value) -> tuple[str, ...]:
        """The words that the leaves of a tree stand for."""
        return self.split(self.options, value)

    @property
    @abstractmethod
    def sizes(self) -> dict[str, int]:
        """How many ids each input has or, of features, how many numbers a place has."""

    def front(self) -> nn.Module | None:
        """Trained layers between the inputs and the encoder, such as the last blocks of a CNN."""
        return None

    def prepare(
        self, values: Iterable[Value], note: Callable[[str], None], track: Track, new: bool = True
    ) -> tuple[Self, dict[Value, str]]:
        """Compute what encoding needs, once, for all values. Returns the side, and why some values cannot be read.

        Unless `new`, a store that the options name is used only if it is there.
        """
        return self, {}

    def portion(self, values: Sequence[Value]) -> int:
        """How many of some values fit into memory at once, encoded."""
        return max(1, len(values))

    def loaded(self, values: Iterable[Value]) -> tuple[Self, dict[Value, str]]:
        """The side with the features of some values at hand, and why some values cannot be read."""
        return self, {}

    def encode_all(self, values: Sequence[Value]) -> list[Arrays]:
        """The arrays of several values, at once if that is quicker."""
        return [self.encode(value) for value in values]

    def without(self, value: Value, place: int) -> Arrays | None:
        """The arrays of a value without one of its tokens; None if tokens cannot be left out."""
        return None

    @property
    def vocabulary(self) -> Tokenizer | None:
        """The tokenizer whose tokens have vectors, if there is one."""
        return None

    def with_words(self, words: Iterable[str], most: int) -> Self:
        """The same with ids for the first `most` words that it can meet and has none for yet."""
        return self

    @abstractmethod
    def encode(self, value: Value) -> Arrays:
        """The arrays of a value."""

    @abstractmethod
    def collate(self, rows: Sequence[Arrays]) -> dict[str, Padded]:
        """The inputs of a batch by name."""

    @abstractmethod
    def cost(self, arrays: Arrays) -> int:
        """How many places a row takes in a batch."""

    def length(self, arrays: Arrays) -> int:
        """How many places there are for gold alignments to link."""
        return self.cost(arrays)

    @abstractmethod
    def places(self, value: Value) -> Places:
        """What the places of the memory stand for."""

    def shown(self, value: Value) -> NDArray[Any] | None:
        """What attention is drawn on: pixels (H, W, 3), frames (F, H, W, 3), numbers of places (S, N); None: names."""
        return None

    def lends(self, value: Value) -> list[list[str]]:
        """What a decoder that copies can copy, sentence by sentence, as a target would write it."""
        raise RecipeError(f"nothing can be copied from source: {self.options.kind}: use source: text")

    def note(self, values: Iterable[Value]) -> str | None:
        """What a user should know of the training data, such as how much of it is not read."""
        return None

    def random_values(self, count: int) -> list[Value]:
        """Made-up values, always the same ones, to measure speed with."""
        return [] if self.vocabulary is None else [*self.vocabulary.random_texts(count)]


@dataclass(frozen=True)
class TokenizedSource(SourceSide):
    """A source of tokens that have vectors."""

    tokenizer: Tokenizer

    @classmethod
    def read(cls, options: Any, cell: object) -> Value:
        """A text, or a list of its parts."""
        if not isinstance(cell, list | tuple):
            return text_cell(cell, "source")
        if not all(isinstance(part, str) for part in cell):
            raise CellError("not text", "the source is a list, but not all in it is text")
        return tuple(cell)

    @property
    def sizes(self) -> dict[str, int]:
        return {"source": len(self.tokenizer)}

    @property
    def vocabulary(self) -> Tokenizer:
        return self.tokenizer

    def with_words(self, words: Iterable[str], most: int) -> Self:
        return replace(self, tokenizer=self.tokenizer.with_words(words, most))

    def cost(self, arrays: Arrays) -> int:
        """How many tokens there are; letters take no places of their own."""
        return len(arrays["source"])


class TargetSide(Side):
    """What comes out."""

    per_place: ClassVar[bool] = False
    """Whether every place of the source has an output of its own, as columns of tags (CoNLL) hold them."""
    trees: ClassVar[bool] = False
    """Whether a value is a tree over the words of the source."""
    written: ClassVar[bool] = False
    """Whether a decoder writes it token by token."""
    baselines: ClassVar[tuple[str, ...]] = ()
    """Cheap baselines that suit it, the simplest first; see `windlass.baseline`."""
    no_answer: ClassVar[Answer]
    """What there is to say of a blank input: nothing."""

    @classmethod
    def answers(cls, cell: object) -> list[object]:
        """The cells of the right answers; a list in a file holds several of them."""
        return list(cell) if isinstance(cell, list) and cell else [cell]

    @classmethod
    def match(cls, example: Example, source: type[SourceSide], options: Any) -> Example:
        """The example with its two sides brought into line, or a `CellError` where they do not fit together."""
        return example

    @classmethod
    def symbols_in(cls, value: Value) -> Sequence[str]:
        """The labels or tags of a value, which a report counts; none of a text or a number."""
        return ()

    @property
    def choices(self) -> Sequence[str]:
        """All labels or tags that an output can have; none if it is a text or a number."""
        return ()

    def can_learn(self, value: Value) -> bool:
        """Whether training can use a value; one of a label that is not kept is left out."""
        return True

    def respell(self, value: Value) -> Value:
        """A value as the training data spells it: 1.0 is 1 there, or the other way round."""
        return value

    @classmethod
    def mark_spans(cls, values: Iterable[Value]) -> bool:
        """Whether targets mark spans of the source, so that whole spans are scored."""
        return False

    @property
    def marks_spans(self) -> bool:
        """Whether the model's outputs mark spans."""
        return False

    @property
    def outside(self) -> int | None:
        """The output of a place that is in no span, if outputs mark spans."""
        return None

    @property
    def transitions(self) -> Transitions | None:
        """Which outputs may follow each other, if there are rules."""
        return None

    def brackets(self, source: SourceSide, values: Sequence[Value]) -> Brackets | None:
        """What keeps the outputs for some sources well-formed, if there are rules."""
        return None

    @abstractmethod
    def __len__(self) -> int:
        """How many different outputs there are."""

    @abstractmethod
    def encode(self, value: Value) -> NDArray[Any]:
        """The array of a value, without marks."""

    @abstractmethod
    def collate(self, rows: Sequence[NDArray[Any]]) -> Padded:
        """The target of a batch; its mask is that of the loss."""

    def cost(self, array: NDArray[Any]) -> int:
        """How many places a row takes in a batch."""
        return 1

    @abstractmethod
    def answer(self, hypothesis: Hypothesis, source: SourceSide, value: Value, copied: Sequence[str] = ()) -> Answered:
        """The text of an output for a source value, and the same as a typed answer.

        `copied` are the symbols beyond the vocabulary that a decoder may have copied from the source.
        """
