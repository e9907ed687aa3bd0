"""The command line, called as a user calls it but inside this process: its exit code, stdout and stderr."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from windlass.cli import main

SIZES = (
    "model.tie=none",
    "model.encoder.size=32",
    "model.decoder.size=32",
    "model.encoder.embedding.size=16",
    "model.decoder.embedding.size=16",
    "model.decoder.context.score.size=16",
    "model.decoder.readout.size=16",
    "model.encoder.dropout=0",
    "model.decoder.dropout=0",
    "model.encoder.embedding.dropout=0",
    "model.decoder.embedding.dropout=0",
    "model.decoder.readout.dropout=0",
    "train.schedule.warmup=5",
    "train.optimiser.lr=0.01",
    "train.batch_tokens=150",
    "train.evaluate_steps=null",
    "train.threads=1",
)
TINY = [argument for part in SIZES for argument in ("--set", part)]
"""What makes any recipe small and quick."""


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
