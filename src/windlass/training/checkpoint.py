"""Checkpoints: one file each, written so that a kill at any moment leaves a good one, and never unpickled.

A file is plain safetensors. Its metadata has one entry, `windlass`: JSON with the format version, the
caller's own data and a SHA-256 over that data and every tensor's name, type, shape and bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from windlass.core.errors import TrainingError

VERSION = 1
KEEP = 2  # so that there is one to fall back on
NAME = re.compile(r"checkpoint-(\d+)\.safetensors")


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint holds, and which newer ones were too damaged to use.

    >>> Checkpoint(Path("checkpoint-000000007.safetensors"), {}, {"step": 7}, ()).data["step"]
    7
    """

    path: Path
    tensors: dict[str, Tensor]
    data: dict[str, Any]
    damaged: tuple[Path, ...]

    def under(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose names begin with `prefix/`, without it."""
        return {n.removeprefix(f"{prefix}/"): t for n, t in self.tensors.items() if n.startswith(f"{prefix}/")}


def digest(tensors: Mapping[str, Tensor], data: str) -> str:
    """SHA-256 over text and tensors on the CPU.

    >>> digest({"a": torch.zeros(2)}, "{}") == digest({"a": torch.zeros(2, dtype=torch.int32)}, "{}")
    False
    """
    total = hashlib.sha256(data.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        total.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        total.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoints in a folder, newest first.

    >>> checkpoints(Path("no/such/folder"))
    []
    """
    found = {p: int(m[1]) for p in folder.glob("*") if (m := NAME.fullmatch(p.name))}
    return sorted(found, key=lambda p: found[p], reverse=True)


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Write a file beside its place and move it there when all of it is on the disk.

    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "note.txt"
    >>> write_atomically(path, lambda part: part.write_text("done") and None)
    >>> path.read_text()
    'done'
    """
    part = path.with_name(path.name + ".part")
    write(part)
    with part.open("rb+") as file:
        os.fsync(file.fileno())
    os.replace(part, path)
    if os.name == "posix":  # elsewhere a folder cannot be opened
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def save(folder: Path, step: int, tensors: Mapping[str, Tensor], data: Mapping[str, Any]) -> Path:
    """Write the checkpoint of a step, then remove all but the newest two.

    >>> from tempfile import mkdtemp
    >>> save(Path(mkdtemp()), 7, {"a": torch.ones(2)}, {"epoch": 1}).name
    'checkpoint-000000007.safetensors'
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"checkpoint-{step:09d}.safetensors"
    plain: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        here = tensor.detach().cpu().contiguous()
        # safetensors refuses tensors that share memory, such as two views of one
        plain[name] = here.clone() if here.untyped_storage().data_ptr() in seen else here
        seen.add(here.untyped_storage().data_ptr())
    text = json.dumps(dict(data))
    header = json.dumps({"version": VERSION, "sha256": digest(plain, text), "data": text})
    try:
        write_atomically(path, lambda part: save_file(plain, part, metadata={"windlass": header}))
    except (OSError, SafetensorError) as error:
        path.with_name(path.name + ".part").unlink(missing_ok=True)
        raise TrainingError(
            f"{path}: cannot write the checkpoint ({error}); make room or choose another folder, then resume"
        ) from error
    for old in checkpoints(folder)[KEEP:]:
        old.unlink()
    return path


def load(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read a checkpoint and check its hash; return its tensors and data.

    >>> from tempfile import mkdtemp
    >>> tensors, data = load(save(Path(mkdtemp()), 7, {"a": torch.ones(2)}, {"epoch": 1}))
    >>> tensors["a"].tolist(), data
    ([1.0, 1.0], {'epoch': 1})
    """
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {})["windlass"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        version, text, expected = header["version"], header["data"], header["sha256"]
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise TrainingError(f"{path}: not a whole checkpoint ({error})") from error
    if version != VERSION:
        raise TrainingError(f"{path}: checkpoint format {version}, but this version of Windlass reads {VERSION}")
    if digest(tensors, text) != expected:
        raise TrainingError(f"{path}: damaged: its content does not match its hash")
    return tensors, json.loads(text)


def load_newest(folder: Path, warn: Callable[[str], None]) -> Checkpoint | None:
    """Read the newest good checkpoint of a folder; warn of a damaged one and take the one before it.

    >>> load_newest(Path("no/such/folder"), print) is None
    True
    """
    found = checkpoints(folder)
    damaged: list[Path] = []
    for path in found:
        try:
            tensors, data = load(path)
        except TrainingError as error:
            warn(f"{error}; trying the checkpoint before it")
            damaged.append(path)
        else:
            return Checkpoint(path, tensors, data, tuple(damaged))
    if found:
        raise TrainingError(f"{folder}: none of its {len(found)} checkpoints can be read; train anew in another folder")
    return None


def set_aside(paths: tuple[Path, ...]) -> None:
    """Rename damaged checkpoints, so that they do not count among the newest.

    >>> set_aside(())
    """
    for path in paths:
        os.replace(path, path.with_name(path.name + ".damaged"))
