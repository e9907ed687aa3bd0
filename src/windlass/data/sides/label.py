"""One label of those that the training data has."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, final

from numpy.typing import NDArray

from windlass.core.errors import DataError, nearest
from windlass.core.options import Options
from windlass.core.records import Answer, Hypothesis, LabelAnswer, Padded
from windlass.data.examples import Value
from windlass.data.padding import pad
from windlass.data.sides.base import Json, SourceSide, TargetSide, checked_symbols, ids, text_cell


class LabelOptions(Options):
    """One label of those that the training data has.

    >>> LabelOptions().kind
    'label'
    """

    kind: Literal["label"] = "label"


@final
@dataclass(frozen=True)
class LabelTarget(TargetSide):
    """A label. There are no marks: the first label is 0.

    >>> side = LabelTarget.fit(LabelOptions(), ["spam", "ham", "ham"])
    >>> side.encode("spam").tolist(), side.symbols, len(side)
    ([1], ('ham', 'spam'), 2)
    """

    baselines = ("most frequent", "bag of words")

    options: LabelOptions
    symbols: tuple[str, ...]

    @classmethod
    def fit(cls, options: LabelOptions, values: Iterable[Value]) -> LabelTarget:
        """Take the labels of the training data, the most frequent first."""
        return cls(options, by_count(values))

    @classmethod
    def read(cls, options: LabelOptions, cell: object) -> Value:
        """A label."""
        return text_cell(cell, "target")

    @cached_property
    def _index(self) -> dict[str, int]:
        return {symbol: n for n, symbol in enumerate(self.symbols)}

    def __len__(self) -> int:
        return len(self.symbols)

    def encode(self, value: Value) -> NDArray[Any]:
        """The id of the label."""
        return ids([id_of(self._index, value, "label")])

    def collate(self, rows: Sequence[NDArray[Any]]) -> Padded:
        """A label a row: (B, 1)."""
        return pad(rows)

    def cost(self, array: NDArray[Any]) -> int:
        """One place."""
        return 1

    @classmethod
    def no_answer(cls) -> Answer:
        """Nothing."""
        return LabelAnswer()

    def answer(
        self, hypothesis: Hypothesis, source: SourceSide, value: Value, copied: tuple[str, ...] = ()
    ) -> tuple[str, Answer]:
        """The label, and the probability of each."""
        chances: list[float] = [] if hypothesis.distribution is None else hypothesis.distribution.tolist()
        order = sorted(range(len(chances)), key=lambda n: -chances[n])
        label = self.symbols[hypothesis.ids[0]]
        probability = math.exp(hypothesis.logprobs[0])
        return label, LabelAnswer((label,), (probability,), {self.symbols[n]: chances[n] for n in order})

    def unknown(self, value: Value) -> tuple[str, ...]:
        """The label, where training has not shown it."""
        return () if value in self._index else (value,)

    def extend(self, values: Iterable[Value]) -> tuple[LabelTarget, tuple[str, ...]]:
        """Add new labels."""
        new = tuple(symbol for symbol in by_count(values) if symbol not in self._index)
        return LabelTarget(self.options, self.symbols + new), new

    def to_json(self) -> Json:
        """Options and labels."""
        return {"options": self.options.model_dump(mode="json"), "symbols": list(self.symbols)}

    @classmethod
    def from_json(cls, content: Json) -> LabelTarget:
        """The side of saved labels."""
        return cls(LabelOptions.model_validate(content["options"]), checked_symbols(content))

    @classmethod
    def tiny(cls) -> tuple[LabelTarget, tuple[Value, ...]]:
        """A side of two labels."""
        values = ("ham", "spam", "ham")
        return cls.fit(LabelOptions(), values), values


def by_count(symbols: Iterable[str]) -> tuple[str, ...]:
    """The different symbols, the most frequent first.

    >>> by_count(["b", "a", "c", "b"])
    ('b', 'a', 'c')
    """
    counts = Counter(symbols)
    return tuple(sorted(counts, key=lambda symbol: (-counts[symbol], symbol)))


def id_of(index: dict[str, int], symbol: str, what: str) -> int:
    """The id of a symbol that training has shown.

    >>> id_of({"ham": 0, "spam": 1}, "spma", "label")
    Traceback (most recent call last):
    windlass.core.errors.DataError: no label 'spma' in the training data: did you mean 'spam'?
    """
    if symbol not in index:
        raise DataError(f"no {what} {symbol!r} in the training data: {nearest(symbol, index)}")
    return index[symbol]
