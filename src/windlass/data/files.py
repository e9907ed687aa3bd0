"""Lines of a text file: gzip, byte-order marks, line ends and damage are dealt with here for all formats."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import IO

from windlass.core.errors import DataError
from windlass.data.findings import Finding, Findings

BOM = b"\xef\xbb\xbf"
UNDECODED = re.compile("[\ud800-\udfff]")  # what is not UTF-8 is read as half characters, told apart from any text
_FOREIGN = {
    b"PK\x03\x04": "a zip archive (or an Excel file); unpack it, or save it as csv",
    b"PAR1": "a parquet file; give it a name that ends in .parquet, or set the format to parquet",
    b"%PDF": "a PDF document; data must be text",
    b"\xff\xfe": "UTF-16 text; save it as UTF-8",
    b"\xfe\xff": "UTF-16 text; save it as UTF-8",
}


def existing(path: str | Path) -> Path:
    """Return the path of a file that is there, or say which file of the folder has the nearest name.

    >>> existing("no-such-file.tsv")
    Traceback (most recent call last):
    windlass.core.errors.DataError: no-such-file.tsv: no such file; ...
    """
    found = Path(path)
    try:
        if found.is_file():
            return found
        if found.is_dir():
            raise DataError(f"{path}: this is a folder; name a file in it")
        siblings = sorted(p.name for p in found.parent.iterdir()) if found.parent.is_dir() else None
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be opened ({error}); check the name and its permissions") from error
    if siblings is None:
        raise DataError(f"{path}: no such file; the folder {found.parent} does not exist either")
    close = get_close_matches(found.name, siblings, n=1, cutoff=0.5)
    hint = f"did you mean {found.parent / close[0]}?" if close else f"look in the folder {found.parent}"
    raise DataError(f"{path}: no such file; {hint}")


@contextmanager
def opened(path: str | Path) -> Iterator[IO[bytes]]:
    """Open a file, unpacked if it is gzip (told by its content), and turn any damage into a DataError.

    >>> with opened("no-such-file.tsv"):
    ...     pass
    Traceback (most recent call last):
    windlass.core.errors.DataError: no-such-file.tsv: no such file; ...
    """
    found = existing(path)
    try:
        with found.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            if found.suffix == ".gz" and not packed and raw.read(1):
                raise DataError(f"{path}: named .gz but not gzip; copy it again, or take .gz off its name")
            raw.seek(0)
            if packed:
                with gzip.open(raw) as unpacked:
                    yield unpacked  # type: ignore[misc]
            else:
                yield raw
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: damaged gzip ({error}); copy or download it again") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error})") from error


def _refuse_foreign(path: str | Path, head: bytes) -> None:
    if not head:
        raise DataError(f"{path}: the file is empty; give one with at least one line")
    for magic, what in _FOREIGN.items():
        if head.startswith(magic):
            raise DataError(f"{path}: this is {what}")
    if b"\0" in head:
        raise DataError(f"{path}: this is a binary file (a zero byte near its start); data must be UTF-8 text")


def lines(path: str | Path, found: Findings) -> Iterator[tuple[int, str]]:
    """Yield (number, line without its end).

    A byte that is not UTF-8 comes as a half character, which `undecoded` finds.

    >>> next(lines("no-such-file.tsv", Findings()))
    Traceback (most recent call last):
    windlass.core.errors.DataError: no-such-file.tsv: no such file; ...
    """
    name = str(path)
    with opened(path) as stream:
        _refuse_foreign(path, stream.read(4096))
        stream.seek(0)
        first_crlf = crlf = 0
        for number, raw in enumerate(stream, 1):
            if number == 1 and raw.startswith(BOM):
                found.add(Finding(name, 1, "byte-order mark", "byte-order mark before the text", "mended"))
                raw = raw.removeprefix(BOM)
            line = raw.removesuffix(b"\n")
            if line.endswith(b"\r"):
                line = line[:-1]
                if found.strict:
                    found.add(Finding(name, number, "line ends", "Windows line end (CRLF)", "mended"))
                first_crlf, crlf = first_crlf or number, crlf + 1
            yield number, line.decode("utf-8", "surrogateescape")
    if crlf:
        what = f"Windows line ends (CRLF) on {crlf} lines from here"
        found.add(Finding(name, first_crlf, "line ends", what, "mended"))


def undecoded(text: str) -> str | None:
    """Say what in a text is not UTF-8, if anything.

    >>> undecoded(bytes([99, 97, 102, 233]).decode("utf-8", "surrogateescape"))
    'invalid UTF-8: byte 0xE9 at character 4'
    """
    bad = UNDECODED.search(text)
    if bad is None:
        return None
    code = ord(bad.group())
    if 0xDC80 <= code <= 0xDCFF:
        return f"invalid UTF-8: byte 0x{code - 0xDC00:02X} at character {bad.start() + 1}"
    return f"invalid UTF-8: half a character (U+{code:04X}) at character {bad.start() + 1}"
