"""Read input lines in portions, so that output begins before input ends."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from windlass.core.errors import DataError

PORTION = 1000
"""Lines per portion; one from a terminal."""


def portions(file: str, longest: int, note: Callable[[str], None], strip: bool = True) -> Iterator[list[str]]:
    """Yield the lines of a file, or of stdin for "-"; whatever had to be repaired is noted.

    Lines are stripped of surrounding spaces unless `strip` is false, for outputs that refer to character offsets.
    A line of more than `longest` characters is truncated: the model has seen none such, and it could take hours.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "words.txt"
    >>> _ = path.write_bytes("\\ufeffcat\\r\\n\\ndogs\\n".encode())
    >>> list(portions(str(path), 3, lambda text: print(text.split("words.txt")[1])))
    :3: 4 characters, truncated to 3
    [['cat', '', 'dog']]
    """
    if file == "-":
        yield from _read(sys.stdin.buffer, "stdin", 1 if sys.stdin.isatty() else PORTION, longest, note, strip)
        return
    with _open(file) as stream:
        yield from _read(stream, file, PORTION, longest, note, strip)


def _open(file: str) -> BinaryIO:
    try:
        return Path(file).open("rb")
    except OSError as error:
        raise DataError(f"{file}: cannot read: {error.strerror}") from None


def _read(
    stream: BinaryIO, name: str, size: int, longest: int, note: Callable[[str], None], strip: bool
) -> Iterator[list[str]]:
    number = 0
    while raw := list(islice(stream, size)):
        lines = []
        for line in raw:
            number += 1
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8", errors="replace")
                note(f"{name}:{number}: not valid UTF-8: invalid bytes are read as unknown")
            text = text.strip() if strip else text.rstrip("\r\n")
            if len(text) > longest:
                note(f"{name}:{number}: {len(text):,} characters, truncated to {longest:,}")
                text = text[:longest]
            lines.append(text)
        yield lines
