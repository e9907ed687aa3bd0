"""Any number of labels of those that the training data has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, final

import numpy as np
import torch
from numpy.typing import NDArray

from windlass.core.options import Options
from windlass.core.records import Answer, Hypothesis, Padded
from windlass.data.examples import Value
from windlass.data.sides.base import CellError, Json, SourceSide, TargetSide, checked_symbols, text_cell
from windlass.data.sides.label import by_count, id_of

SEPARATOR = ","


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
        """The probability of every label."""
        return self.labels


@final
@dataclass(frozen=True)
class LabelsTarget(TargetSide):
    """A set of labels: 1 for each that is assigned, 0 for the others.

    >>> side = LabelsTarget.fit(LabelsOptions(), ["a,b", "b", ""])
    >>> side.symbols, side.encode("a").tolist()
    (('b', 'a'), [0.0, 1.0])
    """

    baselines = ("most frequent",)

    options: LabelsOptions
    symbols: tuple[str, ...]

    @classmethod
    def fit(cls, options: LabelsOptions, values: Iterable[Value]) -> LabelsTarget:
        """Take the labels of the training data, the most frequent first."""
        return cls(options, by_count(label for value in values for label in _labels(value)))

    @classmethod
    def answers(cls, cell: object) -> list[object]:
        """One answer: a list holds its labels."""
        return [cell]

    @classmethod
    def read(cls, options: LabelsOptions, cell: object) -> Value:
        """Labels without repeats, separated by commas.

        >>> LabelsTarget.read(LabelsOptions(), ["b", "a"]), LabelsTarget.read(LabelsOptions(), "b, a, b")
        ('b,a', 'b,a')
        """
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

    @cached_property
    def _index(self) -> dict[str, int]:
        return {symbol: n for n, symbol in enumerate(self.symbols)}

    def __len__(self) -> int:
        return len(self.symbols)

    def encode(self, value: Value) -> NDArray[Any]:
        """1 for every label that is assigned: (V,)."""
        assigned = np.zeros(len(self.symbols), dtype=np.float32)
        assigned[[id_of(self._index, label, "label") for label in _labels(value)]] = 1
        return assigned

    def collate(self, rows: Sequence[NDArray[Any]]) -> Padded:
        """A row of labels for every example: (B, V)."""
        values = torch.from_numpy(np.stack(rows))
        return Padded(values, torch.ones(values.shape, dtype=torch.bool))

    def cost(self, array: NDArray[Any]) -> int:
        """One place."""
        return 1

    @classmethod
    def no_answer(cls) -> Answer:
        """Nothing."""
        return LabelsAnswer()

    def answer(
        self, hypothesis: Hypothesis, source: SourceSide, value: Value, copied: tuple[str, ...] = ()
    ) -> tuple[str, Answer]:
        """The labels, and the probability of each that there is."""
        chances: list[float] = [] if hypothesis.distribution is None else hypothesis.distribution.tolist()
        order = sorted(range(len(chances)), key=lambda n: -chances[n])
        labels = tuple(self.symbols[n] for n in hypothesis.ids)
        probabilities = tuple(chances[n] for n in hypothesis.ids)
        return SEPARATOR.join(labels), LabelsAnswer(labels, probabilities, {self.symbols[n]: chances[n] for n in order})

    def unknown(self, value: Value) -> tuple[str, ...]:
        """The labels that training has not shown."""
        return tuple(label for label in _labels(value) if label not in self._index)

    def extend(self, values: Iterable[Value]) -> tuple[LabelsTarget, tuple[str, ...]]:
        """Add new labels."""
        found = by_count(label for value in values for label in _labels(value))
        new = tuple(label for label in found if label not in self._index)
        return LabelsTarget(self.options, self.symbols + new), new

    def to_json(self) -> Json:
        """Options and labels."""
        return {"options": self.options.model_dump(mode="json"), "symbols": list(self.symbols)}

    @classmethod
    def from_json(cls, content: Json) -> LabelsTarget:
        """The side of saved labels."""
        return cls(LabelsOptions.model_validate(content["options"]), checked_symbols(content))

    @classmethod
    def tiny(cls) -> tuple[LabelsTarget, tuple[Value, ...]]:
        """A side of two labels."""
        values = ("news,sport", "news", "")
        return cls.fit(LabelsOptions(), values), values


def _labels(value: Value) -> list[str]:
    return [label for label in str(value).split(SEPARATOR) if label]
