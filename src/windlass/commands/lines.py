"""Lines of text for `predict`, in portions, so that output begins before input ends."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from windlass.core.errors import DataError

SIZE = 1000
"""Lines at once; from a keyboard, one."""


def portions(file: str, longest: int, note: Callable[[str], None], as_is: bool = False) -> Iterator[list[str]]:
    """The lines of a file, or of stdin for "-"; what had to be mended is noted.

    Spaces around a line are cut off, unless it is wanted `as_is`, where places in it are spoken of.
    A line of more than `longest` characters is cut: the model has seen none such, and reading it could take hours.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "words.txt"
    >>> _ = path.write_bytes("\\ufeffcat\\r\\n\\ndogs\\n".encode())
    >>> list(portions(str(path), 3, lambda text: print(text.split("words.txt")[1])))
    :3: 4 characters, of which the model reads the first 3
    [['cat', '', 'dog']]
    """
    if file == "-":
        yield from _read(sys.stdin.buffer, "stdin", 1 if sys.stdin.isatty() else SIZE, longest, note, as_is)
        return
    with _opened(file) as stream:
        yield from _read(stream, file, SIZE, longest, note, as_is)


def _opened(file: str) -> BinaryIO:
    try:
        return Path(file).open("rb")
    except OSError as error:
        raise DataError(f"{file}: cannot read: {error.strerror}") from None


def _read(
    stream: BinaryIO, name: str, size: int, longest: int, note: Callable[[str], None], as_is: bool
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
                note(f"{name}:{number}: not valid UTF-8: what cannot be read is taken as unknown")
            text = text.rstrip("\r\n") if as_is else text.strip()
            if len(text) > longest:
                note(f"{name}:{number}: {len(text):,} characters, of which the model reads the first {longest:,}")
                text = text[:longest]
            lines.append(text)
        yield lines
