"""A store of features: what a reader made of files, computed once, in a folder that grows.

about.json      what made them: the identity of the reader, the shape and type of a place
index.jsonl     a line for each item: the key of its content, its first row, its number of rows
files.jsonl     the keys of files by path, size and time of change, so that a file is hashed once
rows.bin        all rows, one after another, memory-mapped

Rows are written before their line, so that a run that is killed loses at most one item.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from windlass.core.errors import DataError
from windlass.core.tensors import atomic_write

Rows = tuple[int, int]
"""The first row of an item, and how many it has."""


def cache_folder(identity: str) -> Path:
    """The folder for features of one identity, if none is named: in the user's cache.

    >>> cache_folder("lite0") == cache_folder("lite0") != cache_folder("small")
    True
    """
    named = os.environ.get("WINDLASS_CACHE")
    base = Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "windlass"
    return base / "features" / hashlib.sha256(identity.encode()).hexdigest()[:16]


def file_key(path: str) -> str:
    """The key of the content of a file, or of the files of a folder.

    >>> len(file_key(__file__))
    32
    """
    if Path(path).is_dir():
        parts = "\n".join(
            f"{file.name} {file_key(str(file))}" for file in sorted(Path(path).iterdir()) if file.is_file()
        )
        return hashlib.blake2b(parts.encode(), digest_size=16).hexdigest()
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


class FeatureStore:
    """Items of rows of one shape, by key.

    >>> import tempfile
    >>> store = FeatureStore(Path(tempfile.mkdtemp()), "lite0", (2,), "float16")
    >>> store.add("a", np.ones((3, 2), np.float16))
    (0, 3)
    >>> FeatureStore(store.folder, "lite0", (2,), "float16").read(store.find("a")).sum()
    np.float16(6.0)
    """

    def __init__(self, folder: Path, identity: str, shape: tuple[int, ...], dtype: str):
        self.folder, self.shape, self.dtype = folder, shape, np.dtype(dtype)
        about = {"format": 1, "identity": identity, "shape": list(shape), "dtype": dtype}
        path = folder / "about.json"
        if path.exists():
            try:
                known = json.loads(path.read_text())
            except (OSError, ValueError):
                raise DataError(f"{path}: damaged: delete the folder, and the features are computed again") from None
            if known != about:
                raise DataError(
                    f"{folder}: holds features of {known.get('identity', 'something else')}, not of {identity}: name "
                    "another store, or delete it"
                )
        else:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                if any(folder.iterdir()):
                    raise DataError(f"{folder}: not empty, and no store of features: name another folder")
                atomic_write(path, json.dumps(about).encode())
            except OSError as error:
                raise DataError(f"{folder}: cannot keep features there: {error.strerror}") from None
        self.row_bytes = int(np.prod(shape, dtype=np.int64)) * self.dtype.itemsize  # of a row
        self._index: dict[str, Rows] = {}
        self._files: dict[str, tuple[int, int, str]] = {}
        self._map: NDArray[Any] = np.zeros((0, *shape), self.dtype)
        self.refresh()

    def refresh(self) -> None:
        """Read what the store holds now; another run may have added to it."""
        self.rows, self._lost = self._size() // self.row_bytes, False
        for line in _lines(self.folder / "index.jsonl"):
            key, first, count = line
            if first + count <= self.rows:
                self._index[key] = first, count
            else:
                self._lost = True
        for line in _lines(self.folder / "files.jsonl"):
            path, size, changed, key = line
            self._files[path] = size, changed, key

    def _size(self) -> int:
        with suppress(OSError):
            return (self.folder / "rows.bin").stat().st_size
        return 0

    def __len__(self) -> int:
        return len(self._index)

    def key(self, path: str) -> str:
        """The key of a file, which is read only if it is new or has changed."""
        state, name = Path(path).stat(), os.path.abspath(path)
        size, changed, key = self._files.get(name, (-1, 0, ""))
        if (size, changed) != (state.st_size, state.st_mtime_ns):
            key = file_key(path)
            self._files[name] = state.st_size, state.st_mtime_ns, key
            _append(self.folder / "files.jsonl", [name, state.st_size, state.st_mtime_ns, key])
        return key

    def find(self, key: str) -> Rows | None:
        """Where the rows of an item are; None if it is not there."""
        return self._index.get(key)

    def add(self, key: str, rows: NDArray[Any]) -> Rows:
        """Append an item."""
        if rows.shape[1:] != self.shape or rows.dtype != self.dtype:
            raise DataError(f"{self.folder}: rows of {rows.dtype}{rows.shape[1:]}, not of {self.dtype}{self.shape}")
        if self._lost:  # rows that are cut off: their lines must not come to point to those that follow
            lines = (json.dumps([name, *at]) + "\n" for name, at in self._index.items())
            atomic_write(self.folder / "index.jsonl", "".join(lines).encode())
            self._lost = False
        with (self.folder / "rows.bin").open("ab") as file:
            if spare := file.tell() % self.row_bytes:  # of an item that was not written to its end
                file.truncate(file.tell() - spare)
            first = file.tell() // self.row_bytes
            file.write(rows.tobytes())
        self.rows = first + len(rows)
        self._index[key] = first, len(rows)
        _append(self.folder / "index.jsonl", [key, first, len(rows)])
        return self._index[key]

    def read(self, at: Rows) -> NDArray[Any]:
        """Some rows, from the file."""
        first, count = at
        if first + count > len(self._map):
            self._map = np.memmap(self.folder / "rows.bin", self.dtype, "r", shape=(self.rows, *self.shape))
        return np.array(self._map[first : first + count])


def _lines(path: Path) -> list[Any]:
    """The complete lines of a file that is appended to."""
    found = []
    with suppress(OSError):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            with suppress(ValueError):  # the last one may be cut off
                found.append(json.loads(line))
    return found


def _append(path: Path, line: list[Any]) -> None:
    with path.open("ab+") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
        broken = file.read(1) not in (b"", b"\n")  # the last line was not written to its end
        file.write(b"\n" * broken + json.dumps(line).encode() + b"\n")
