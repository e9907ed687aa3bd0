"""Bytes and numbers one after the other: in memory, or in a file where there are more than that holds.

A file is read piece by piece and not mapped: a map counts every page that it has touched as memory of the process. It
has no name, so that nothing is left behind however a run ends.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from windlass.core.errors import DataError

BLOCK = 2**18
"""How many numbers of a file are in memory at once while all of them are read in order."""

Kind = TypeVar("Kind", bound=np.signedinteger)


def _cache_folder() -> Path:
    """Where large files go while a run lasts: `WINDLASS_CACHE`, or the user's folder for such things."""
    home = os.environ.get("WINDLASS_CACHE") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(home) / "windlass"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder}: cannot be made ({error.strerror}): set WINDLASS_CACHE to a folder") from None
    return folder


class Bytes:
    """Bytes one after the other: in memory, or in a file without a name.

    >>> text = Bytes(disk=False)
    >>> text.append(b"windlass")
    >>> bytes(text.read(4, 8))
    b'lass'
    """

    def __init__(self, disk: bool):
        # Closed, and with it gone, when nobody holds it any more.
        self.file: IO[bytes] | None = tempfile.TemporaryFile(dir=_cache_folder()) if disk else None  # noqa: SIM115
        self.held = bytearray()
        self.size = 0
        self.writing = True

    def append(self, content: bytes | memoryview) -> None:
        """Write at the end; what was read from memory must have been let go of."""
        self.size += len(content)
        if self.file is None:
            self.held += content
            return
        try:
            if not self.writing:
                self.file.seek(0, os.SEEK_END)
                self.writing = True
            self.file.write(content)
        except OSError as error:
            raise _full(error) from None

    def read(self, begin: int, end: int) -> bytes | memoryview:
        """Those from `begin` to `end`."""
        if self.file is None:
            return memoryview(self.held)[begin:end]
        if self.writing:
            try:
                self.file.flush()
            except OSError as error:
                raise _full(error) from None
            self.writing = False
        if hasattr(os, "pread"):
            return os.pread(self.file.fileno(), end - begin, begin)
        self.file.seek(begin)
        return self.file.read(end - begin)


def _full(error: OSError) -> DataError:
    return DataError(f"{_cache_folder()}: cannot hold the data ({error.strerror}): make room, or set WINDLASS_CACHE")


class GrowingArray(Generic[Kind]):
    """Whole numbers of one type, added at the end; a slice of them is an array.

    >>> numbers = GrowingArray(np.int32, disk=True)
    >>> numbers.append(7)
    >>> numbers.extend(np.array([8, 9], dtype=np.int32))
    >>> len(numbers), numbers[1:].tolist()
    (3, [8, 9])
    """

    def __init__(self, kind: type[Kind], disk: bool):
        self.kind: np.dtype[Kind] = np.dtype(kind)
        self.disk = disk
        self._bytes = Bytes(disk)

    def append(self, number: int) -> None:
        """Add one at the end."""
        self._bytes.append(number.to_bytes(self.kind.itemsize, sys.byteorder, signed=True))

    def extend(self, numbers: NDArray[Kind]) -> None:
        """Add some at the end."""
        self._bytes.append(np.ascontiguousarray(numbers, dtype=self.kind).tobytes())

    def __len__(self) -> int:
        return self._bytes.size // self.kind.itemsize

    def __getitem__(self, key: slice) -> NDArray[Kind]:
        begin, end, step = key.indices(len(self))
        assert step == 1
        raw = self._bytes.read(begin * self.kind.itemsize, max(begin, end) * self.kind.itemsize)
        return np.frombuffer(raw, dtype=self.kind)

    def blocks(self) -> Iterator[NDArray[Kind]]:
        """All of them, some at a time."""
        for begin in range(0, len(self), BLOCK):
            yield self[begin : begin + BLOCK]
