"""Checkpoints: one file each, written atomically, without pickle; and whether a run can resume from one.

A file is what `core/tensors.py` writes: safetensors with JSON metadata and a checksum over both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from windlass.core.errors import BundleError, TrainingError
from windlass.core.tensors import read_tensors, write_tensors

VERSION = 1
KEEP = 2  # one to fall back on
NAME = re.compile(r"checkpoint-(\d+)\.safetensors")
_FIXED = ("options.optimiser.kind", "options.average.", "options.batch_tokens", "seed", "metric", "batches")
"""What must not change: the saved state, the order of the data or the meaning of "best" would no longer match."""


@dataclass(frozen=True)
class Checkpoint:
    """The content of a checkpoint, and the newer ones that are damaged.

    >>> Checkpoint(Path("checkpoint-000000007.safetensors"), {}, {"step": 7}, ()).data["step"]
    7
    """

    path: Path
    tensors: dict[str, Tensor]
    data: dict[str, Any]
    damaged: tuple[Path, ...]

    def under(self, prefix: str) -> dict[str, Tensor]:
        """Return the tensors named `prefix/...`, without the prefix."""
        return {n.removeprefix(f"{prefix}/"): t for n, t in self.tensors.items() if n.startswith(f"{prefix}/")}


def checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints of a folder, newest first.

    >>> checkpoints(Path("no/such/folder"))
    []
    """
    steps = {p: int(m[1]) for p in folder.glob("*") if (m := NAME.fullmatch(p.name))}
    return sorted(steps, key=lambda p: steps[p], reverse=True)


def save(folder: Path, step: int, tensors: Mapping[str, Tensor], data: Mapping[str, Any]) -> Path:
    """Write a checkpoint, then remove all but the newest two.

    >>> import torch
    >>> from tempfile import mkdtemp
    >>> save(Path(mkdtemp()), 7, {"a": torch.ones(2)}, {"epoch": 1}).name
    'checkpoint-000000007.safetensors'
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"checkpoint-{step:09d}.safetensors"
    try:
        write_tensors(path, dict(tensors), {"version": VERSION, "data": dict(data)})
    except OSError as error:
        raise TrainingError(
            f"{path}: cannot write the checkpoint ({error}); free some space or choose another folder, then resume"
        ) from error
    for old in checkpoints(folder)[KEEP:]:
        old.unlink()
    return path


def load(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read a checkpoint, verify its checksum, and return its tensors and data.

    >>> import torch
    >>> from tempfile import mkdtemp
    >>> tensors, data = load(save(Path(mkdtemp()), 7, {"a": torch.ones(2)}, {"epoch": 1}))
    >>> tensors["a"].tolist(), data
    ([1.0, 1.0], {'epoch': 1})
    """
    try:
        tensors, metadata = read_tensors(path)
    except BundleError as error:
        raise TrainingError(str(error)) from None
    if metadata.get("version") != VERSION:
        raise TrainingError(
            f"{path}: checkpoint format {metadata.get('version')}, but this version of Windlass reads {VERSION}"
        )
    return tensors, metadata["data"]


def load_newest(folder: Path, warn: Callable[[str], None]) -> Checkpoint | None:
    """Read the newest valid checkpoint of a folder; warn about damaged ones and fall back to the one before.

    >>> load_newest(Path("no/such/folder"), print) is None
    True
    """
    paths = checkpoints(folder)
    damaged: list[Path] = []
    for path in paths:
        try:
            tensors, data = load(path)
        except TrainingError as error:
            warn(f"{error}; trying the checkpoint before it")
            damaged.append(path)
        else:
            return Checkpoint(path, tensors, data, tuple(damaged))
    if paths:
        raise TrainingError(f"{folder}: none of its {len(paths)} checkpoints can be read; restart in another folder")
    return None


def changes(path: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return what has changed since a checkpoint was written; raise TrainingError if the run cannot resume.

    >>> changes(Path("checkpoint"), {"seed": 1, "threads": 2}, {"seed": 1, "threads": 1})
    ['threads: 2 is now 1']
    >>> changes(Path("checkpoint"), {"seed": 1}, {"seed": 2})
    Traceback (most recent call last):
    windlass.core.errors.TrainingError: checkpoint: cannot resume: seed: 1 is now 2; set it back ...
    """
    old, new = flatten(before), flatten(now)
    changed: list[str] = []
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) == new.get(key):
            continue
        change = f"{key.replace('options.', 'train.')}: {old.get(key)} is now {new.get(key)}"
        if key == "batches":
            change = f"the data has changed: {old.get(key)} batches are now {new.get(key)}"
        if key.startswith(_FIXED):
            raise TrainingError(f"{path}: cannot resume: {change}; set it back or train in another folder")
        changed.append(change)
    return changed


def flatten(options: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested options by their dotted names.

    >>> flatten({"train": {"epochs": 5}, "seed": 1})
    {'train.epochs': 5, 'seed': 1}
    """
    flat: dict[str, Any] = {}
    for key, value in options.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return flat
