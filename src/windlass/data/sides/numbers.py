"""Numbers: a vector, a sequence of vectors, or a grid of vectors."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from windlass.core.errors import BundleError, DataError
from windlass.core.fitting import Gives, Term
from windlass.core.options import Options
from windlass.core.records import Padded, Places
from windlass.data.encoded import Arrays
from windlass.data.examples import Value, frozen
from windlass.data.padding import pad_features
from windlass.data.sides.base import NOT_OF_TEXT, CellError, Json, SourceSide
from windlass.data.sniff import is_number, two_readings
from windlass.media.store import file_key

ENDINGS = (".npy", ".npz", ".csv", ".tsv", ".txt")
"""Files that numbers are read from."""
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?")


class NumbersOptions(Options):
    """Numbers, standardised by the training data: (x - mean) / deviation of each of a place.

    >>> NumbersOptions().standardise
    True
    """

    kind: Literal["numbers"] = "numbers"
    standardise: bool = Field(True, description="give every number mean 0 and deviation 1 in the training data")

    def _terms(self, at: str) -> Iterator[Term]:
        yield Gives(f"{at} sequence")
        yield Gives(f"{at} features")


@final
@dataclass(frozen=True)
class NumbersSource(SourceSide):
    """Vectors as places: one of a vector, one a step of a sequence, one a cell of a grid.

    >>> side = NumbersSource.fit(NumbersOptions(), [((1, 4), (3, 4))])
    >>> side.encode(((1, 4),))["source"].tolist(), side.sizes
    ([[-1.0, 0.0]], {'source': 2})
    """

    textual = False
    instead = NOT_OF_TEXT
    unit = "steps"
    separated = "give one tag a step"
    extensions = frozenset(ENDINGS) - {".txt"}
    what = "array"
    fixed = "numbers a step"

    options: NumbersOptions
    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    @classmethod
    def fit(cls, options: NumbersOptions, values: Iterable[Value]) -> NumbersSource:
        count, total, squares = 0, np.zeros(1), np.zeros(1)
        for value in values:
            rows = _places(value).astype(np.float64)
            if count and rows.shape[1] != len(total):
                raise DataError(_misfit(value, rows.shape[1], len(total)))
            count, total, squares = count + len(rows), total + rows.sum(0), squares + (rows**2).sum(0)
        mean = total / max(1, count)
        deviation = np.sqrt(np.maximum(squares / max(1, count) - mean**2, 0.0))
        deviation[deviation < 1e-8 * (1 + abs(mean))] = 1.0  # a number that never changes
        if not options.standardise:
            mean, deviation = np.zeros_like(mean), np.ones_like(mean)
        return cls(options, tuple(mean.tolist()), tuple(deviation.tolist()))

    @classmethod
    def read(cls, options: NumbersOptions, cell: object) -> Value:
        """Lists of numbers, the same as JSON, numbers between spaces or commas, or the name of a file."""
        if isinstance(cell, str):
            text = cell.strip()
            if not text or text.lower().rpartition("#")[0].endswith(".npz") or text.lower().endswith(ENDINGS):
                return text
            cell = _parsed(text)
        value = frozen(cell)
        if isinstance(value, int | float):
            value = (value,)
        _array(value)
        return value

    @classmethod
    def inputs(cls, data: Any) -> list[Any] | None:
        """One vector, or one file. The first axis of everything else counts inputs."""
        if isinstance(data, np.ndarray) and data.ndim == 1:
            data = data.tolist()
        flat = isinstance(data, list | tuple) and data and all(isinstance(n, int | float | np.number) for n in data)
        return [data] if flat or isinstance(data, str) else None

    @classmethod
    def locate(cls, options: NumbersOptions, value: Value, folder: Path) -> Value:
        if not isinstance(value, str) or not value.strip():
            return value
        name, mark, key = value.partition(".npz#")
        path = str(Path(folder) / (name + ".npz" if mark else value))
        located = f"{path}#{key}" if mark else path
        _array(located)
        return located

    @classmethod
    def columns(cls, value: Value) -> tuple[str, ...]:
        return (value if isinstance(value, str) else json.dumps(value),)

    @classmethod
    def measure(cls, options: NumbersOptions, value: Value) -> dict[str, float]:
        places = _places(value)
        return {"steps": len(places), "numbers a step": places.shape[1]}

    @classmethod
    def content(cls, value: Value) -> str:
        return file_key(value.partition("#")[0]) + value.partition("#")[2] if isinstance(value, str) else str(value)

    @classmethod
    def split(cls, options: NumbersOptions, value: Value) -> tuple[str, ...]:
        """The numbers of the steps."""
        return tuple(map(str, range(1, len(_places(value)) + 1)))

    @classmethod
    def with_parts(cls, value: Value, parts: tuple[str, ...]) -> Value:
        return value

    @property
    def sizes(self) -> dict[str, int]:
        return {"source": len(self.mean)}

    def loaded(self, values: Iterable[Value]) -> tuple[NumbersSource, dict[Value, str]]:
        sizes = {value: _size(value) for value in values}
        return self, {v: _misfit(v, size, len(self.mean)) for v, size in sizes.items() if size != len(self.mean)}

    def encode(self, value: Value) -> Arrays:
        rows = _places(value)
        if rows.shape[1] != len(self.mean):
            raise DataError(_misfit(value, rows.shape[1], len(self.mean)))
        standard = (rows - np.array(self.mean)) / np.array(self.deviation)
        return {"source": standard.astype(np.float32)}

    def collate(self, rows: Sequence[Arrays]) -> dict[str, Padded]:
        """Input `source`: (B, S, N)."""
        return {"source": pad_features([row["source"] for row in rows])}

    def cost(self, arrays: Arrays) -> int:
        return len(arrays["source"])

    def vector(self, value: Value) -> NDArray[np.float32]:
        """The mean over its places, by which baselines compare it with others."""
        mean: NDArray[np.float32] = self.encode(value)["source"].mean(0)
        return mean

    def places(self, value: Value) -> Places:
        shape = _array(value).shape
        if len(shape) < 3:
            return Places("steps", tuple(map(str, range(1, (shape[0] if len(shape) == 2 else 1) + 1))))
        return Places("grid", tuple(f"{r},{c}" for r in range(1, shape[0] + 1) for c in range(1, shape[1] + 1)))

    def shown(self, value: Value) -> NDArray[np.float32] | None:
        """The readings, standardised, if they are a sequence."""
        return self.encode(value)["source"] if _array(value).ndim == 2 else None

    def random_values(self, count: int) -> list[Value]:
        drawn = np.random.default_rng(0).normal(self.mean, self.deviation, (count, 16, len(self.mean)))
        return [frozen(value) for value in drawn.tolist()]

    def to_json(self) -> Json:
        return super().to_json() | {"mean": list(self.mean), "deviation": list(self.deviation)}

    @classmethod
    def from_json(cls, options: NumbersOptions, content: Json) -> NumbersSource:
        mean, deviation = ([float(n) for n in content[name]] for name in ("mean", "deviation"))
        finite = all(map(math.isfinite, mean)) and all(math.isfinite(n) and n > 0 for n in deviation)
        if not finite or not mean or len(mean) != len(deviation):
            raise BundleError("damaged codec: mean and deviation must be numbers; take the file from a fresh copy")
        return cls(options, tuple(mean), tuple(deviation))

    @classmethod
    def tiny(cls) -> tuple[NumbersSource, tuple[Value, ...]]:
        long = tuple((0.5 * n, 1.0 - n % 3) for n in range(8))
        values = (long, ((1.5, 0.0),), ((0.25, 0.5), (1.0, 1.0)))
        return cls.fit(NumbersOptions(), values), values


def _parsed(text: str) -> object:
    """The numbers of a cell of text."""
    try:
        if text.startswith("["):
            return json.loads(text)
        words = text.split()
        if len(words) > 1:
            _refuse_unclear(words)
        return [float(word) for word in text.replace(",", " ").split()]
    except (ValueError, RecursionError):
        known = ", ".join(ENDINGS)
        raise CellError(
            "not numbers", f"neither numbers, as in [[1, 2], [3, 4]] or 1 2 3, nor a file ({known}): {text[:60]!r}"
        ) from None


def _refuse_unclear(words: Sequence[str]) -> None:
    """Refuse a comma between spaces that may mark thousands or decimals, or separate two numbers."""
    commas = any(word.endswith(",") for word in words)  # these separate
    plain = [word.strip(",") for word in words]
    if word := next((word for word in plain if _THOUSANDS.fullmatch(word)), None):
        told = two_readings(word) or f"{word.replace(',', '')} or several numbers"
        raise CellError("not numbers", f"{word!r} may be {told}: write it with a point or without a comma")
    if word := next((word for word in plain if "," in word and is_number(word) and not commas), None):
        told = f"{word.replace(',', '.')} or {word.replace(',', ' and ')}"
        raise CellError("not numbers", f"{word!r} may be {told}: write it with a point, or with a space")


def _misfit(value: Value, found: int, wanted: int) -> str:
    where = f"{value}: " if isinstance(value, str) else ""
    return f"{where}{found} numbers a place, where the others have {wanted}: give all of them the same numbers"


def _size(value: Value) -> int:
    """How many numbers a place has."""
    if isinstance(value, str):
        return int(_array(value).shape[-1])
    while isinstance(value[0], tuple):
        value = value[0]
    return len(value)


def _places(value: Value) -> NDArray[Any]:
    """The vectors of a value in one row: (places, numbers)."""
    array = _array(value)
    return array.reshape(-1, array.shape[-1])


def _array(value: Value) -> NDArray[Any]:
    """The numbers of a value: of one, two or three dimensions, all of them finite."""
    try:
        array = _file(value, Path(value.partition("#")[0]).stat().st_mtime_ns) if isinstance(value, str) else None
        array = np.array(value, dtype=np.float32) if array is None else array
    except (ValueError, TypeError, OverflowError) as error:
        if isinstance(error, CellError):
            raise
        raise CellError("not numbers", f"not lists of numbers of equal length: {str(value)[:60]!r}") from None
    except OSError as error:
        raise CellError("missing file", f"{value}: cannot be read: {error.strerror or error}") from None
    where = f"{value}: " if isinstance(value, str) else ""
    if not 1 <= array.ndim <= 3 or not array.size:
        what = f"an array of shape {array.shape}" if array.size else "no numbers"
        raise CellError("not numbers", f"{where}{what}: give a vector, a sequence of vectors or a grid of them")
    if not np.isfinite(array).all():
        raise CellError("not numbers", f"{where}NaN or infinity among the numbers: leave them out or fill them in")
    return array


@lru_cache(maxsize=64)
def _file(name: str, changed: int) -> NDArray[Any]:
    path, _, key = name.partition("#")
    if path.lower().endswith((".npy", ".npz")):
        try:
            held = np.load(path, allow_pickle=False)
        except (ValueError, EOFError, OSError) as error:
            if isinstance(error, FileNotFoundError):
                raise
            raise CellError("not numbers", f"{name}: not an array that numpy can read") from None
        if isinstance(held, np.ndarray):
            return held.astype(np.float32)
        with held:
            names = held.files
            if key not in names and (key or len(names) != 1):
                raise CellError("not numbers", f"{name}: choose one of its arrays by its name, {path}#{names[0]}")
            return held[key or names[0]].astype(np.float32)  # type: ignore[no-any-return]
    return _table(path)


def _table(path: str) -> NDArray[Any]:
    """The rows of a table of numbers; a first row of names is left out."""
    with Path(path).open(encoding="utf-8-sig", newline="") as file:
        sample = file.read(4096)
        file.seek(0)
        mark = max(",;\t ", key=sample.count)
        rows = [[cell for cell in row if cell.strip()] for row in csv.reader(file, delimiter=mark)]
    rows = [row for row in rows if row]
    for number, row in enumerate(rows, 1):
        try:
            rows[number - 1] = [float(cell) for cell in row]  # type: ignore[misc]
        except ValueError:
            if number > 1:
                raise CellError("not numbers", f"{path}:{number}: not all of it is numbers: {row[:4]}") from None
            rows[0] = []
    return np.array([row for row in rows if row], dtype=np.float32)
