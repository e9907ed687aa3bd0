"""What sources that are read from files of pictures, clips and sounds share: features, computed once and kept."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from windlass.core.errors import BundleError
from windlass.core.fitting import Gives, Term
from windlass.core.options import Options
from windlass.core.records import Padded, Places
from windlass.core.wording import counted
from windlass.data.encoded import Arrays
from windlass.data.examples import Value
from windlass.data.padding import pad_features
from windlass.data.sides.base import NOT_OF_TEXT, CellError, Json, SourceSide, Track
from windlass.media.errors import MediaError
from windlass.media.store import FeatureStore, cache_folder, file_key

PORTION = 32
"""Files that are read at once."""
AT_HAND = 256
"""Files whose features are in memory at once, if there is no store of them."""


class MediaOptions(Options):
    """The options of every source that is read from files of its own.

    >>> MediaOptions(store="photos.features").store
    'photos.features'
    """

    store: str | None = Field(None, description="folder where features are kept; none: one in the user's cache")

    def _terms(self, at: str) -> Iterator[Term]:
        yield Gives(f"{at} sequence")
        yield Gives(f"{at} features")


class FeaturesInMemory:
    """Features of some files, as a `FeatureStore` has them.

    >>> features = FeaturesInMemory({"cat.jpg": np.ones((3, 2))})
    >>> features.read(features.find("cat.jpg")).shape
    (3, 2)
    """

    def __init__(self, rows: Mapping[str, NDArray[Any]]):
        self._rows, self._numbers = list(rows.values()), {key: n for n, key in enumerate(rows)}

    def key(self, path: str) -> str:
        """The path itself."""
        return path

    def find(self, key: str) -> tuple[int, int] | None:
        """Where the rows of a file are; None if they are not there."""
        number = self._numbers.get(key)
        return None if number is None else (number, len(self._rows[number]))

    def read(self, at: tuple[int, int]) -> NDArray[Any]:
        """The rows of a file."""
        return self._rows[at[0]]


class Reader:
    """Turns files into rows of numbers: (places, ...)."""

    identity: str
    """What the rows depend on: the network with its weights, and how files are prepared for it."""
    shape: tuple[int, ...]
    """Of a place."""
    dtype: str = "float16"

    def load(self, path: str) -> Any:
        """The content of a file, or a `MediaError`."""
        raise NotImplementedError

    def rows(self, loaded: Sequence[Any]) -> list[NDArray[Any]]:
        """The rows of several files."""
        raise NotImplementedError


@dataclass(frozen=True)
class MediaSource(SourceSide):
    """A source of features; a value is the name of a file.

    Features of training data are kept in a store, to which rows of encoded examples refer; without a store, as in
    prediction, they are computed each time.
    """

    textual = False
    instead = NOT_OF_TEXT
    separated = "give one tag each"
    what: ClassVar[str] = "file"

    options: Any
    shape: tuple[int, ...]  # of a place, as it is stored
    identity: str  # of the reader
    held: FeatureStore | FeaturesInMemory | None = field(default=None, compare=False)  # not saved

    @classmethod
    @abstractmethod
    def reader_of(cls, options: Any) -> Reader:
        """The reader that the options ask for."""

    @cached_property
    def reader(self) -> Reader:
        """The reader, which must be that of the training data."""
        reader = self.reader_of(self.options)
        if reader.identity != self.identity:
            raise BundleError(
                f"this model was trained on features of {self.identity}, but here they are of {reader.identity}: "
                "install the same version"
            )
        return reader

    @classmethod
    def fit(cls, options: Any, values: Iterable[Value]) -> Self:
        reader = cls.reader_of(options)
        return cls(options, reader.shape, reader.identity)

    @classmethod
    def read(cls, options: Any, cell: object) -> Value:
        """The name of a file."""
        if not isinstance(cell, str | os.PathLike):
            raise CellError("no file", f"the source is not the name of a {cls.what} but {type(cell).__name__}")
        return os.fspath(cell).strip()

    @classmethod
    def inputs(cls, data: Any) -> list[Any] | None:
        """The name of a file, or a list in which there are other things than texts."""
        if isinstance(data, str | os.PathLike):
            return [data]
        if isinstance(data, list | tuple) and any(isinstance(item, os.PathLike) for item in data):
            return list(data)
        return None

    @classmethod
    def locate(cls, options: Any, value: Value, folder: Path) -> Value:
        path = Path(folder) / value
        try:
            there = not value.strip() or path.exists()
        except (OSError, ValueError):  # a text that is no name of a file
            there = False
        if not there:
            raise CellError("missing file", f"no such file: {str(path)[:200]}")
        return str(path) if value.strip() else value

    @classmethod
    def content(cls, value: Value) -> str:
        return file_key(value)

    @classmethod
    def with_parts(cls, value: Value, parts: tuple[str, ...]) -> Value:
        return value

    @property
    def sizes(self) -> dict[str, int]:
        return {"source": self.shape[-1]}

    def prepare(
        self, values: Iterable[Value], note: Callable[[str], None], track: Track, new: bool = True
    ) -> tuple[Self, dict[Value, str]]:
        """Compute the features that the store lacks. Returns the side with its store, and files that are unreadable."""
        store = self.store(new)
        failed: dict[Value, str] = {}
        missing: dict[str, Value] = {}
        for value in dict.fromkeys(values):
            try:
                key = store.key(value)
            except OSError as error:
                failed[value] = f"{value}: {error.strerror}"
                continue
            if store.find(key) is None:
                missing.setdefault(key, value)
        if missing:
            note(f"features of {counted(len(missing), self.what)} are computed once and kept in {store.folder}")
        pairs = list(missing.items())
        for start in track(range(0, len(pairs), PORTION), -(-len(pairs) // PORTION), f"reading {self.what}s"):
            part = pairs[start : start + PORTION]
            for (key, value), rows in zip(part, self._rows([value for _, value in part]), strict=True):
                if isinstance(rows, MediaError):
                    failed[value] = str(rows)
                else:
                    store.add(key, rows)
        return replace(self, held=store), failed

    def store(self, new: bool = True) -> FeatureStore:
        """The store that the options name, or else the one in the user's cache."""
        reader, named = self.reader, self.options.store
        folder = Path(named) if named and (new or Path(named).is_dir()) else cache_folder(reader.identity)
        return FeatureStore(folder, reader.identity, reader.shape, reader.dtype)

    def portion(self, values: Sequence[Value]) -> int:
        return max(1, len(values)) if self._has(values) else AT_HAND

    def _has(self, values: Iterable[Value]) -> bool:
        """Whether the store has the features of all values."""
        held = self.held
        return held is not None and all(os.path.exists(v) and held.find(held.key(v)) is not None for v in values)

    def loaded(self, values: Iterable[Value]) -> tuple[Self, dict[Value, str]]:
        different = list(dict.fromkeys(values))
        if self._has(different):
            return self, {}
        rows: dict[str, NDArray[Any]] = {}
        failed: dict[Value, str] = {}
        for start in range(0, len(different), PORTION):
            part = different[start : start + PORTION]
            for value, found in zip(part, self._rows(part), strict=True):
                if isinstance(found, MediaError):
                    failed[value] = str(found)
                else:
                    rows[value] = found
        return replace(self, held=FeaturesInMemory(rows)), failed

    def _rows(self, paths: Sequence[str]) -> list[NDArray[Any] | MediaError]:
        """The rows of files, or why there are none."""
        reader = self.reader

        def load(path: str) -> Any:
            try:
                return reader.load(path)
            except MediaError as error:
                return error

        if len(paths) > 1:
            with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
                loaded = list(pool.map(load, paths))
        else:
            loaded = [*map(load, paths)]
        good = iter(reader.rows([content for content in loaded if not isinstance(content, MediaError)]))
        return [content if isinstance(content, MediaError) else next(good) for content in loaded]

    def encode(self, value: Value) -> Arrays:
        return self.encode_all([value])[0]

    def encode_all(self, values: Sequence[Value]) -> list[Arrays]:
        """References to the store, if it has all of them; otherwise the features themselves."""
        if self.held is not None:
            found = [self.held.find(self.held.key(value)) for value in values]
            if all(at is not None for at in found):
                return [{"rows": np.array(at, dtype=np.int64)} for at in found]
        arrays = []
        for start in range(0, len(values), PORTION):
            for rows in self._rows(values[start : start + PORTION]):
                if isinstance(rows, MediaError):
                    raise rows
                arrays.append({"source": rows})
        return arrays

    def features(self, arrays: Arrays) -> NDArray[Any]:
        """The rows of an encoded example: (places, ...)."""
        if "source" in arrays:
            return arrays["source"]
        assert self.held is not None
        first, count = arrays["rows"].tolist()
        return self.held.read((first, count))

    def collate(self, rows: Sequence[Arrays]) -> dict[str, Padded]:
        """Input `source`: (B, S, ...), in float32 unless it is pixels."""
        padded = pad_features([self.features(row) for row in rows])
        values = padded.values.float() if padded.values.is_floating_point() else padded.values
        return {"source": replace(padded, values=values)}

    def cost(self, arrays: Arrays) -> int:
        return int(arrays["rows"][1]) if "rows" in arrays else len(arrays["source"])

    def vector(self, value: Value) -> NDArray[np.float32]:
        """One vector for a value, by which baselines compare it with others: the mean over its places."""
        mean: NDArray[np.float32] = self.features(self.encode(value)).astype(np.float32).mean(0).ravel()
        return mean

    def places(self, value: Value) -> Places:
        return Places("places", tuple(map(str, range(1, self.cost(self.encode(value)) + 1))))

    def to_json(self) -> Json:
        return super().to_json() | {"shape": list(self.shape), "identity": self.identity}

    @classmethod
    def from_json(cls, options: Any, content: Json) -> Self:
        shape, identity = tuple(int(size) for size in content["shape"]), content["identity"]
        if not shape or min(shape) < 1 or not isinstance(identity, str):
            raise BundleError("damaged codec: shape and identity of features; take the file from a fresh copy")
        return cls(options, shape, identity)
