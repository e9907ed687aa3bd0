"""Lines of a text file: gzip, encodings, byte-order marks, line ends and damage are dealt with here for all formats."""

from __future__ import annotations

import codecs
import gzip
import io
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cache
from itertools import count
from pathlib import Path
from typing import IO, Any, BinaryIO

from windlass.core.errors import DataError, short
from windlass.core.wording import counted
from windlass.data.findings import Finding, Findings

STDIN = "-"
"""The name that stands for the standard input."""
NAME_ENCODING = "name its encoding, as in --encoding cp1252"
"""What to do about a line that is not UTF-8."""
BOM = b"\xef\xbb\xbf"
_MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_GZIP = b"\x1f\x8b"
_LEGACY = "cp1252 cp1251 cp1253 cp1254 cp1255 cp1256 koi8_r gb18030 big5 shift_jis euc_kr".split()
"""Encodings that old files are in."""
_HEAD = 2**18
"""Bytes that an encoding is told by."""
UNDECODED = re.compile("[\ud800-\udfff]")  # what is not UTF-8 is read as half characters, told apart from any text
_FOREIGN = {
    b"PK\x03\x04": "a zip archive (or an Excel file); unpack it, or save it as csv",
    b"PAR1": "a parquet file; give it a name that ends in .parquet, or set the format to parquet",
    b"%PDF": "a PDF document; data must be text",
}


def suffix(name: str) -> str:
    """The ending of a file's name, without that of gzip.

    >>> suffix("pairs.TSV.gz")
    '.tsv'
    """
    found = [s.lower() for s in Path(name).suffixes if s.lower() != ".gz"]
    return found[-1] if found else ""


def existing(path: str | Path) -> Path:
    """Return the path of a file that is there, or say which file of the folder has the nearest name.

    >>> existing("no-such-file.tsv")
    Traceback (most recent call last):
    windlass.core.errors.DataError: no-such-file.tsv: no such file; ...
    """
    found = Path(path)
    try:
        if found.is_file() or str(found) == os.devnull:
            return found
        if found.is_dir():
            raise DataError(f"{path}: this is a folder; name a file in it")
        if found.exists():
            raise DataError(f"{path}: a pipe can be read only once; read it as stdin: name - and use < or |")
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
    with _undamaged(path):
        if str(path) == STDIN:
            yield io.BytesIO(_whole(sys.stdin.buffer))  # it is read more than once: first to see what it holds
            return
        found = existing(path)
        with found.open("rb") as raw:
            packed = raw.read(2) == _GZIP
            raw.seek(0)
            if found.suffix == ".gz" and not packed and raw.read(1):
                raise DataError(f"{path}: named .gz but not gzip; copy it again, or take .gz off its name")
            raw.seek(0)
            if packed:
                with gzip.open(raw) as unpacked:
                    yield unpacked  # type: ignore[misc]
            else:
                yield raw


@contextmanager
def _undamaged(path: str | Path) -> Iterator[None]:
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: damaged gzip ({error}); copy or download it again") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error})") from error


@cache
def _whole(stream: BinaryIO) -> bytes:
    data = stream.read()
    return gzip.decompress(data) if data.startswith(_GZIP) else data


class _Coming(io.RawIOBase):
    """The bytes of a stream as they come, of which the first have been looked at."""

    def __init__(self, first: bytes, stream: Any):
        self.first, self.stream = first, stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        got = self.first[: len(buffer)] or self.stream.read1(len(buffer))
        self.first = self.first[len(got) :]
        buffer[: len(got)] = got
        return len(got)


def _looked_at(stream: Any) -> tuple[bytes, _Coming]:
    """The bytes that tell gzip and UTF-16, and the stream from its beginning; no more is waited for than it takes."""
    first: bytes = stream.read(1)
    if first and any(mark.startswith(first) for mark in (_GZIP, *_MARKS)):
        first += stream.read(1)
    return first, _Coming(first, stream)


def check_encoding(name: str) -> str:
    """Return the name of an encoding, if there is one of that name.

    >>> check_encoding("cp1252")
    'cp1252'
    """
    try:
        "".encode(name)  # an encoding of text, and not one such as hex
    except (LookupError, ValueError):
        raise ValueError(f"no encoding is called {short(name)}: try utf-8, utf-16, cp1252 or latin-1") from None
    return name


def _encoding(path: str | Path, head: bytes) -> str:
    """The encoding of a file that begins with `head`, unless it is no text."""
    if not head:
        raise DataError(f"{path}: the file is empty; give one with at least one line")
    for mark, encoding in _MARKS.items():
        if head.startswith(mark):
            return encoding
    for magic, what in _FOREIGN.items():
        if head.startswith(magic):
            raise DataError(f"{path}: this is {what}")
    if b"\0" in head[:4096]:
        raise DataError(
            f"{path}: this is a binary file (a zero byte near its start); data must be text. For UTF-16 without a "
            f"byte-order mark, set the encoding to utf-16-le"
        )
    return "utf-8"


def _refuse_other_encoding(path: str | Path, head: bytes) -> None:
    """Refuse a file of which most lines beyond ASCII are not UTF-8; a few bad lines are findings."""
    lines = head.split(b"\n")[: -1 if len(head) == _HEAD else None]
    beyond = [(number, line) for number, line in enumerate(lines, 1) if not line.isascii()]
    bad = [(number, line) for number, line in beyond if undecoded(line.decode("utf-8", "surrogateescape"))]
    if len(bad) < 3 or len(bad) <= len(beyond) / 2:
        return
    from charset_normalizer import from_bytes

    number, line = bad[0]
    likely = from_bytes(b"\n".join(line for _, line in beyond), cp_isolation=_LEGACY).best()
    name = _LEGACY[0] if likely is None else likely.encoding
    byte = undecoded(line.decode("utf-8", "surrogateescape"))
    raise DataError(
        f"{path}:{number}: {byte}, and so on {len(bad)} lines: the encoding is probably {name}; add --encoding {name}, "
        f"or save the file as UTF-8"
    )


def _wrong_encoding(head: bytes, encoding: str) -> str | None:
    """Say why a file is hardly in the encoding that was asked for, which is not UTF-8."""
    wide = codecs.lookup(encoding).name.startswith(("utf-16", "utf-32"))
    for mark, marked in ({BOM: "UTF-8"} | ({} if wide else _MARKS)).items():
        if head.startswith(mark):
            return f"read as {encoding}, but begins with the byte-order mark of {marked}; leave the encoding out"
    if b"\0" in head or (head.isascii() and not wide):
        return None
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return None
    word = next((word for word in text.split() if wide or not word.isascii()), "")
    becomes = word.encode().decode(encoding, "replace")
    return f"read as {encoding}, but valid UTF-8; {short(word)} becomes {short(becomes)}: leave the encoding out"


def is_empty(path: str | Path) -> bool:
    """Whether there is nothing in a file, unpacked if it is gzip.

    >>> import tempfile
    >>> is_empty(tempfile.NamedTemporaryFile().name + "-not-there")
    Traceback (most recent call last):
    windlass.core.errors.DataError: ...
    """
    with opened(path) as stream:
        return not stream.read(1)


def told_encoding(path: str | Path, other: str) -> str | None:
    """The encoding to read a file in that may be in `other`: this one, unless it is UTF-8 or has a byte-order mark.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "words.txt"
    >>> _ = file.write_bytes("León".encode("cp1252"))
    >>> told_encoding(file, "cp1252")
    'cp1252'
    >>> _ = file.write_bytes("León".encode())
    >>> told_encoding(file, "cp1252") is None
    True
    """
    wide = codecs.lookup(other).name.startswith(("utf-16", "utf-32"))
    decoder = codecs.getincrementaldecoder("utf-8")()
    with opened(path) as stream:
        block = stream.read(_HEAD)
        if block.startswith((*_MARKS, *_FOREIGN)) or (b"\0" in block[:4096] and not wide):
            return None
        try:
            while block:
                if b"\0" in block or b"\x1b" in block:  # UTF-16, or ISO 2022, which is ASCII with escapes
                    return other
                decoder.decode(block)
                block = stream.read(_HEAD)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return other
    return None


def stdin_lines(encoding: str | None, other: str | None, note: Callable[[str], None]) -> Iterator[tuple[int, str]]:
    """Yield the lines of stdin as they come, unpacked if it is gzip; the encoding is told as that of a file.

    From the first line that is not UTF-8 on, they are read in `other`, if that is given.

    >>> from unittest.mock import patch
    >>> given = io.TextIOWrapper(io.BytesIO("León\\n".encode("cp1252")))
    >>> with patch("sys.stdin", given):
    ...     list(stdin_lines(None, "cp1252", print))
    stdin: not UTF-8: read as cp1252, as the training data was; else: --encoding
    [(1, 'León')]
    """
    told = False
    with _undamaged("stdin"):
        first, coming = _looked_at(sys.stdin.buffer)
        if first == _GZIP:
            first, coming = _looked_at(gzip.GzipFile(fileobj=coming))
        if not first:
            return
        known, stream = encoding or _MARKS.get(first, "utf-8"), io.BufferedReader(coming)
        plain = codecs.lookup(known).name == "utf-8"
        for number, raw in enumerate(stream if plain else _as_utf8("stdin", stream, known), 1):
            if number == 1 and encoding is None:
                _encoding("stdin", raw)  # or it is no text
            text = raw.decode("utf-8-sig" if number == 1 else "utf-8", "surrogateescape")
            if other is not None and plain and (told or undecoded(text)):
                if not told:
                    note(other_encoding("stdin", other))
                told, text = True, raw.decode(other, "replace")
            yield number, text.removesuffix("\n").removesuffix("\r")


def other_encoding(name: str, encoding: str) -> str:
    """Say that a file is read in the encoding of the training data.

    >>> other_encoding("words.txt", "cp1252")
    'words.txt: not UTF-8: read as cp1252, as the training data was; else: --encoding'
    """
    return f"{name}: not UTF-8: read as {encoding}, as the training data was; else: --encoding"


def lines(path: str | Path, found: Findings, encoding: str | None = None) -> Iterator[tuple[int, str]]:
    """Yield (number, line without its end); the encoding is UTF-8, or UTF-16 if a byte-order mark says so.

    A byte that is not UTF-8 comes as a half character, which `undecoded` finds.

    >>> next(lines("no-such-file.tsv", Findings()))
    Traceback (most recent call last):
    windlass.core.errors.DataError: no-such-file.tsv: no such file; ...
    """
    name = str(path)
    with opened(path) as stream:
        head = stream.read(_HEAD)
        stream.seek(0)
        encoding = encoding or _encoding(path, head)
        if plain := codecs.lookup(encoding).name == "utf-8":
            _refuse_other_encoding(path, head)
        elif wrong := _wrong_encoding(head, encoding):
            found.add(Finding(name, 0, "encoding", wrong, "kept"))
        first_crlf = crlf = 0
        for number, raw in enumerate(stream if plain else _as_utf8(name, stream, encoding), 1):
            if number == 1 and raw.startswith(BOM):
                if plain:
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
        what = f"Windows line ends (CRLF) on {counted(crlf, 'line')} from here"
        found.add(Finding(name, first_crlf, "line ends", what, "mended"))


def _as_utf8(name: str, stream: IO[bytes], encoding: str) -> Iterator[bytes]:
    """The lines of a file in another encoding."""
    texts = iter(io.TextIOWrapper(stream, encoding, newline="\n"))
    for number in count(1):
        try:
            yield next(texts).encode("utf-8", "surrogatepass")
        except StopIteration:
            return
        except UnicodeError as error:
            raise DataError(f"{name}:{number}: not {encoding} ({error.args[-1]}): set another encoding") from None


def repaired(text: str) -> str:
    """The text with U+FFFD in place of what is not UTF-8.

    >>> repaired(bytes([99, 97, 102, 233]).decode("utf-8", "surrogateescape"))
    'caf\ufffd'
    """
    return UNDECODED.sub("\ufffd", text)


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
