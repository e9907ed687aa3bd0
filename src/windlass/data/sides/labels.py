"""Labels of those that the training data has: one, or any number of them."""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Self, final

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from windlass.core.errors import BundleError, DataError, nearest
from windlass.core.options import Options
from windlass.core.records import Answer, Hypothesis, LabelAnswer, Padded
from windlass.data.examples import Value
from windlass.data.padding import pad
from windlass.data.sides.base import Answered, CellError, Json, SourceSide, TargetSide, ids, text_cell
from windlass.data.tokenizer import by_count

SEPARATOR = ","
_WHOLE = re.compile(r"([-+]?\d+)\.0+")  # an integer, as a data frame writes it where one is missing


@dataclass(frozen=True)
class SymbolsTarget(TargetSide):
    """A target of symbols that the training data has. There are no marks: the first symbol is 0."""

    options: Any
    symbols: tuple[str, ...]

    @classmethod
    def fit(cls, options: Any, values: Iterable[Value]) -> Self:
        return cls(options, ()).extend(values)[0]

    @abstractmethod
    def _split(self, value: Value) -> list[str]:
        """The symbols of a value."""

    def _symbols(self, values: Iterable[Value]) -> list[str]:
        """The different symbols of values, the most frequent first."""
        return by_count(Counter(symbol for value in values for symbol in self._split(value)))

    @cached_property
    def _index(self) -> dict[str, int]:
        return {symbol: n for n, symbol in enumerate(self.symbols)}

    def _ids(self, value: Value, what: str) -> list[int]:
        symbols = self._split(value)
        for symbol in symbols:
            if symbol not in self._index:
                raise DataError(f"no {what} {symbol!r} in the training data: {nearest(symbol, self._index)}")
        return [self._index[symbol] for symbol in symbols]

    def _by_label(self, hypothesis: Hypothesis) -> dict[str, float]:
        """The probability of every symbol, the most probable first."""
        chances: list[float] = [] if hypothesis.distribution is None else hypothesis.distribution.tolist()
        return dict(sorted(zip(self.symbols, chances, strict=False), key=lambda pair: -pair[1]))

    def __len__(self) -> int:
        return len(self.symbols)

    @property
    def choices(self) -> Sequence[str]:
        return sorted(self.symbols)

    def unknown(self, value: Value) -> tuple[str, ...]:
        return tuple(dict.fromkeys(symbol for symbol in self._split(value) if symbol not in self._index))

    def extend(self, values: Iterable[Value]) -> tuple[Self, tuple[str, ...]]:
        new = tuple(symbol for symbol in self._symbols(values) if symbol not in self._index)
        return replace(self, symbols=self.symbols + new), new

    def to_json(self) -> Json:
        return super().to_json() | {"symbols": list(self.symbols)}

    @classmethod
    def from_json(cls, options: Any, content: Json) -> Self:
        symbols = content["symbols"]
        if not isinstance(symbols, list) or not symbols or not all(isinstance(s, str) for s in symbols):
            raise BundleError("damaged codec: symbols must be a list of strings; take the file from a fresh copy")
        return cls(options, tuple(symbols))


class LabelOptions(Options):
    """One label of those that the training data has.

    >>> LabelOptions().kind
    'label'
    """

    kind: Literal["label"] = "label"
    most: int | None = Field(
        None,
        ge=2,
        description="keep the most frequent labels, this many of them; examples of others are left out of training",
    )


@final
@dataclass(frozen=True)
class LabelTarget(SymbolsTarget):
    """One label. Labels that are the same number, 1 and 1.0, are one.

    >>> side = LabelTarget.fit(LabelOptions(), ["spam", "ham", "ham"])
    >>> side.encode("spam").tolist(), side.symbols, len(side)
    ([1], ('ham', 'spam'), 2)
    >>> LabelTarget.fit(LabelOptions(), ["1.0", "1.0", "1", "0.0"]).encode("0").tolist()
    [1]
    >>> LabelTarget.fit(LabelOptions(most=2), ["2", "2", "chair", "chair", "sink"]).can_learn("sink")
    False
    """

    baselines = ("most frequent", "bag of words")
    no_answer = LabelAnswer()

    @classmethod
    def read(cls, options: LabelOptions, cell: object) -> Value:
        return text_cell(cell, "target")

    @classmethod
    def symbols_in(cls, value: Value) -> Sequence[str]:
        return [value]

    def _split(self, value: Value) -> list[str]:
        return [self.respell(value)]

    def _symbols(self, values: Iterable[Value]) -> list[str]:
        found: dict[str, str] = {}
        for symbol in super()._symbols(values):
            found.setdefault(_number(symbol), symbol)
        return [*found.values()]

    @cached_property
    def _numbers(self) -> dict[str, str]:
        return {_number(symbol): symbol for symbol in self.symbols}

    def respell(self, value: Value) -> Value:
        return value if value in self._index else self._numbers.get(_number(value), value)

    def extend(self, values: Iterable[Value]) -> tuple[Self, tuple[str, ...]]:
        """With `most`, new labels are added while there is room."""
        extended, new = super().extend(values)
        most = self.options.most
        if most is None or len(extended.symbols) <= most:
            return extended, new
        room = max(0, most - len(self.symbols))
        return replace(self, symbols=self.symbols + new[:room]), new[:room]

    def can_learn(self, value: Value) -> bool:
        """Whether the label is one of those that are kept."""
        return self.respell(value) in self._index

    def encode(self, value: Value) -> NDArray[Any]:
        return ids(self._ids(value, "label"))

    def collate(self, rows: Sequence[NDArray[Any]]) -> Padded:
        """A label a row: (B, 1)."""
        return pad(rows)

    def answer(self, hypothesis: Hypothesis, source: SourceSide, value: Value, copied: Sequence[str] = ()) -> Answered:
        label = self.symbols[hypothesis.ids[0]]
        return label, LabelAnswer((label,), (math.exp(hypothesis.logprobs[0]),), self._by_label(hypothesis))

    @classmethod
    def tiny(cls) -> tuple[LabelTarget, tuple[Value, ...]]:
        values = ("ham", "spam", "ham")
        return cls.fit(LabelOptions(), values), values


def _number(label: str) -> str:
    """A label without the decimals of a whole number."""
    found = _WHOLE.fullmatch(label)
    return label if found is None else found[1]


class LabelsOptions(Options):
    """Any number of labels; in a file, separated by commas, or a list in JSON. None at all is an answer too.

    >>> LabelsOptions().kind
    'labels'
    """

    kind: Literal["labels"] = "labels"


@final
@dataclass(frozen=True)
class LabelsAnswer(Answer):
    """The labels that were assigned, the most probable first.

    >>> LabelsAnswer(("a",), (0.9,), {"a": 0.9, "b": 0.2}).by_label()["b"]
    0.2
    """

    labels: dict[str, float] = field(default_factory=dict)  # every label, the most probable first
    kind: str = "labels"

    def by_label(self) -> Mapping[str, float]:
        return self.labels


@final
@dataclass(frozen=True)
class LabelsTarget(SymbolsTarget):
    """A set of labels: 1 for each that is assigned, 0 for the others.

    >>> side = LabelsTarget.fit(LabelsOptions(), ["a,b", "b", ""])
    >>> side.symbols, side.encode("a").tolist()
    (('b', 'a'), [0.0, 1.0])
    >>> LabelsTarget.read(LabelsOptions(), ["b", "a"]), LabelsTarget.read(LabelsOptions(), "b, a, b")
    ('b,a', 'b,a')
    """

    baselines = ("most frequent",)
    no_answer = LabelsAnswer()

    @classmethod
    def answers(cls, cell: object) -> list[object]:
        """One answer: a list holds its labels."""
        return [cell]

    @classmethod
    def read(cls, options: LabelsOptions, cell: object) -> Value:
        """Labels without repeats, separated by commas; there may be none, but a missing cell is no answer."""
        if cell is None:
            raise CellError("blank", "the target is missing: for no labels, write []")
        if isinstance(cell, list | tuple):
            labels = [text_cell(label, "label") for label in cell]
            if any(SEPARATOR in label for label in labels):
                raise CellError("comma in a label", f"a label has a comma in it: {labels}; write it without")
        else:
            labels = text_cell(cell, "target").split(SEPARATOR)
        return SEPARATOR.join(dict.fromkeys(filter(None, (label.strip() for label in labels))))

    @classmethod
    def blank(cls, value: Value) -> bool:
        """Never: no label at all is an answer too."""
        return False

    @classmethod
    def symbols_in(cls, value: Value) -> Sequence[str]:
        return [label for label in str(value).split(SEPARATOR) if label]

    def _split(self, value: Value) -> list[str]:
        return [*self.symbols_in(value)]

    def encode(self, value: Value) -> NDArray[Any]:
        """1 for every label that is assigned: (V,)."""
        assigned = np.zeros(len(self.symbols), dtype=np.float32)
        assigned[self._ids(value, "label")] = 1
        return assigned

    def collate(self, rows: Sequence[NDArray[Any]]) -> Padded:
        """A row of labels for every example: (B, V)."""
        values = torch.from_numpy(np.stack(rows))
        return Padded(values, torch.ones(values.shape, dtype=torch.bool))

    def answer(self, hypothesis: Hypothesis, source: SourceSide, value: Value, copied: Sequence[str] = ()) -> Answered:
        by_label, labels = self._by_label(hypothesis), tuple(self.symbols[n] for n in hypothesis.ids)
        return SEPARATOR.join(labels), LabelsAnswer(labels, tuple(by_label[label] for label in labels), by_label)

    @classmethod
    def tiny(cls) -> tuple[LabelsTarget, tuple[Value, ...]]:
        values = ("news,sport", "news", "")
        return cls.fit(LabelsOptions(), values), values
