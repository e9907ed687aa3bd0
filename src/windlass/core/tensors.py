"""Tensors on disk: one safetensors file, written atomically, verified by a checksum when read."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from windlass.core.errors import BundleError
from windlass.core.options import reason


def atomic_write(path: Path, content: bytes) -> None:
    """Replace a file atomically: a crash leaves either the old file or the new one.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     atomic_write(Path(folder) / "a.txt", b"new")
    ...     (Path(folder) / "a.txt").read_text()
    'new'
    """
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    if os.name == "posix":  # the rename must reach the disk too; other systems cannot open a folder
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _digest(tensors: dict[str, Tensor], metadata: str) -> str:
    """Return the sha256 of tensors (names, types, shapes, bytes) and their metadata."""
    sha = hashlib.sha256(metadata.encode())
    for name in sorted(tensors):
        tensor = tensors[name].detach().contiguous().cpu()
        sha.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
        sha.update(tensor.reshape(-1).view(torch.uint8).numpy().data if tensor.numel() else b"")
    return sha.hexdigest()


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, Any]) -> None:
    """Write tensors and JSON metadata to one file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_tensors(Path(folder) / "w.safetensors", {"a": torch.ones(2)}, {"step": 3})
    ...     read_tensors(Path(folder) / "w.safetensors")
    ({'a': tensor([1., 1.])}, {'step': 3})
    """
    atomic_write(path, pack_tensors(tensors, metadata))


def pack_tensors(tensors: dict[str, Tensor], metadata: dict[str, Any]) -> bytes:
    """Return the content of the file that `write_tensors` writes.

    >>> pack_tensors({"a": torch.ones(2)}, {}) == pack_tensors({"a": torch.ones(2)}, {})
    True
    """
    text = json.dumps(metadata, sort_keys=True)
    copies = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    return _ordered(save(copies, {"note": text, "sha256": _digest(copies, text)}))


def _ordered(raw: bytes) -> bytes:
    """A safetensors file with its metadata sorted, so that equal contents are equal bytes."""
    start = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:start])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + raw[start:]


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and metadata that `write_tensors` wrote; raise BundleError for any other file.

    >>> read_tensors(Path("/nowhere/w.safetensors"))
    Traceback (most recent call last):
    windlass.core.errors.BundleError: /nowhere/w.safetensors: no such file
    """
    if not path.is_file():
        raise BundleError(f"{path}: no such file")
    try:
        with safe_open(str(path), framework="pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, RuntimeError) as error:
        raise BundleError(f"{path}: damaged or not a safetensors file ({reason(error)})") from None
    if "sha256" not in header or "note" not in header:
        raise BundleError(f"{path}: not written by Windlass: it has no checksum")
    if _digest(tensors, header["note"]) != header["sha256"]:
        raise BundleError(f"{path}: damaged: its checksum does not match; use another copy")
    try:
        note = json.loads(header["note"])
    except (ValueError, RecursionError):
        note = None
    if not isinstance(note, dict):
        raise BundleError(f"{path}: damaged: its metadata is not a JSON object; use another copy")
    return tensors, note
