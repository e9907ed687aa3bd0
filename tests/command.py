"""The command line, called as a user calls it but inside this process: its exit code, stdout and stderr."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from windlass.cli import main


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str


def windlass(*arguments: str | Path, stdin: bytes = b"") -> Ran:
    """Run a command."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    argv = ["windlass", *map(str, arguments)]
    given = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
    code: object = 0
    with patch.object(sys, "argv", argv), patch.object(sys, "stdin", given), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code
    assert isinstance(code, int)
    texts = [stream.buffer.getvalue().decode() for stream in (out, err)]  # type: ignore[attr-defined]
    return Ran(code, *texts)


def refused(*arguments: str | Path, stdin: bytes = b"") -> str:
    """Run a command that must fail with one clear line; return the line."""
    ran = windlass(*arguments, stdin=stdin)
    assert ran.code != 0, ran
    assert ran.out == ""
    assert "Traceback" not in ran.err
    *before, last = ran.err.splitlines()
    assert last.startswith("windlass: "), ran.err
    assert not any(line.startswith("windlass: ") for line in before)
    return last.removeprefix("windlass: ")
