"""What every benchmark on real data shares: where the data is, how busy the machine was, where results go."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch

from windlass.training.environment import environment

RESULTS = Path(__file__).parent / "results"


def data(part: str) -> Path:
    """A folder of the development data, or a clear word and the end."""
    root = os.environ.get("WINDLASS_DATA")
    path = Path(root) / part if root else None
    if path is None or not path.is_dir():
        sys.exit(f"this benchmark needs {part} under the folder that WINDLASS_DATA names; it is not there")
    return path


def load() -> list[float]:
    """How busy the machine is: processes that want a core, over 1, 5 and 15 minutes."""
    return [round(x, 2) for x in os.getloadavg()]


def report(name: str, content: dict[str, Any]) -> None:
    """Write a result, with the command and the machine it came from."""
    RESULTS.mkdir(exist_ok=True)
    whole = {
        "command": shlex.join(["python", *sys.argv]),
        **content,
        "environment": environment(),
        "threads": torch.get_num_threads(),
    }
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"written to {path}")


def kept_rows(name: str, rows: list[dict[str, Any]], by: Sequence[str], table: str = "rows") -> list[dict[str, Any]]:
    """The rows that a result has already, without those that were measured again: alike in the columns `by`."""
    path = RESULTS / f"{name}.json"
    before = json.loads(path.read_text(encoding="utf-8"))[table] if path.exists() else []
    again = [[row.get(column) for column in by] for row in rows]
    return [row for row in before if [row.get(column) for column in by] not in again]


def once(out: Path, train: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The row of a run, trained now, or as it was written beside its folder when it was."""
    kept = out.with_name(f"{out.name}.row.json")
    if not kept.exists():
        before, started = load(), time.time()
        row = train()
        row |= {"minutes": round((time.time() - started) / 60, 2), "load": before}
        print(row, flush=True)
        kept.write_text(json.dumps(row) + "\n", encoding="utf-8")
    return dict(json.loads(kept.read_text(encoding="utf-8")))


def spread(rows: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Mean and deviation over seeds of every figure."""
    return {
        name: {"mean": fmean(r[name] for r in rows), "deviation": stdev(r[name] for r in rows) if len(rows) > 1 else 0}
        for name in rows[0]
    }
