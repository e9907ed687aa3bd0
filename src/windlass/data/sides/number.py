"""A real number."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
import torch
from numpy.typing import NDArray

from windlass.core.errors import BundleError
from windlass.core.options import Options
from windlass.core.records import Answer, Hypothesis, Padded
from windlass.data.examples import Value
from windlass.data.sides.base import Answered, CellError, Json, SourceSide, TargetSide
from windlass.data.sniff import is_number, two_readings


class NumberOptions(Options):
    """A real number, with a point or a comma before its decimals.

    >>> NumberOptions().kind
    'number'
    """

    kind: Literal["number"] = "number"


@final
@dataclass(frozen=True)
class NumberAnswer(Answer):
    """A number.

    >>> NumberAnswer(("3.5",), value=3.5).value
    3.5
    """

    value: float | None = None  # none for a blank input
    kind: str = "number"


@final
@dataclass(frozen=True)
class NumberTarget(TargetSide):
    """A number, standardised for the model: (y - mean) / deviation of the training data.

    A model that is trained further keeps its units. A decimal comma is read as a point.

    >>> side = NumberTarget.fit(NumberOptions(), ["1", "3"])
    >>> side.mean, side.deviation, side.encode("3").tolist()
    (2.0, 1.0, [1.0])
    >>> NumberTarget.read(NumberOptions(), "0,07")
    '0.07'
    """

    baselines = ("mean",)
    no_answer = NumberAnswer()

    options: NumberOptions
    mean: float
    deviation: float

    @classmethod
    def fit(cls, options: NumberOptions, values: Iterable[Value]) -> NumberTarget:
        numbers = np.array([float(value) for value in values])
        if not len(numbers):
            return cls(options, 0.0, 1.0)
        return cls(options, float(numbers.mean()), float(numbers.std()) or 1.0)

    @classmethod
    def read(cls, options: NumberOptions, cell: object) -> Value:
        """The number, as the text that it is written as."""
        text = "" if cell is None else str(cell).strip()
        if told := two_readings(text):
            raise CellError("not a number", f"the target may be {told}: write {text!r} with a point or without a comma")
        number = text.removesuffix("%").replace(",", ".") if is_number(text) else text
        value: float | None
        try:
            value = 0.0 if not text else float(number)
        except ValueError:
            value = None
        if value is None or isinstance(cell, bool):
            raise CellError("not a number", f"the target is not a number: {text[:40]!r}; write it as 3.5")
        if not math.isfinite(value):
            raise CellError("not a number", f"the target must be finite, not {text[:40]!r}; write it as 3.5")
        return number

    def __len__(self) -> int:
        return 1

    def encode(self, value: Value) -> NDArray[Any]:
        return np.array([(float(value) - self.mean) / self.deviation], dtype=np.float32)

    def collate(self, rows: Sequence[NDArray[Any]]) -> Padded:
        """A number a row: (B, 1)."""
        values = torch.from_numpy(np.stack(rows))
        return Padded(values, torch.ones(values.shape, dtype=torch.bool))

    def answer(self, hypothesis: Hypothesis, source: SourceSide, value: Value, copied: Sequence[str] = ()) -> Answered:
        """The number in the units of the training data."""
        number = (hypothesis.value or 0.0) * self.deviation + self.mean
        text = f"{number:.6g}"
        return text, NumberAnswer((text,), value=number)

    def to_json(self) -> Json:
        return super().to_json() | {"mean": self.mean, "deviation": self.deviation}

    @classmethod
    def from_json(cls, options: NumberOptions, content: Json) -> NumberTarget:
        mean, deviation = float(content["mean"]), float(content["deviation"])
        if not (math.isfinite(mean) and math.isfinite(deviation) and deviation > 0):
            raise BundleError("damaged codec: mean and deviation must be numbers; take the file from a fresh copy")
        return cls(options, mean, deviation)

    @classmethod
    def tiny(cls) -> tuple[NumberTarget, tuple[Value, ...]]:
        values = ("1", "3", "2.5")
        return cls.fit(NumberOptions(), values), values
