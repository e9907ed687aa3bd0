"""Records as bytes, to send them to another process of the same run: safetensors and JSON, nothing that runs code."""

from __future__ import annotations

import json
from typing import Any

from safetensors.torch import load, save
from torch import Tensor

from windlass.core.records import Record


def pack(record: Record) -> bytes:
    """Write a record, with all that is in it, as bytes.

    >>> from windlass.core.records import Padded
    >>> unpack(pack(Padded.of([[4, 5], [6]]))).mask.tolist()
    [[True, True], [True, False]]
    """
    tensors: dict[str, Tensor] = {}
    shape = json.dumps(_taken(record, tensors)).encode()
    return len(shape).to_bytes(8, "little") + shape + save(tensors)


def unpack(content: bytes) -> Any:
    """Read what `pack` wrote.

    >>> from windlass.core.records import Batch, Padded
    >>> import torch
    >>> batch = Batch({"source": Padded.of([[4, 5]])}, None, torch.tensor([7]))
    >>> unpack(pack(batch)).inputs["source"].values.tolist()
    [[4, 5]]
    """
    size = int.from_bytes(content[:8], "little")
    return _put(json.loads(content[8 : 8 + size]), load(content[8 + size :]))


def _taken(value: Any, tensors: dict[str, Tensor]) -> Any:
    """The structure of a value as JSON; its tensors are laid aside under their numbers."""
    if isinstance(value, Tensor):
        tensors[str(len(tensors))] = value.detach().contiguous().clone()
        return {"tensor": str(len(tensors) - 1)}
    if isinstance(value, Record):
        fields = {name: _taken(getattr(value, name), tensors) for name in value.__dataclass_fields__}
        return {"record": type(value).__name__, "fields": fields}
    if isinstance(value, tuple):
        return {"tuple": [_taken(part, tensors) for part in value]}
    if isinstance(value, dict):
        return {"dict": {name: _taken(part, tensors) for name, part in value.items()}}
    return {"value": value}


def _put(shape: dict[str, Any], tensors: dict[str, Tensor]) -> Any:
    if "tensor" in shape:
        return tensors[shape["tensor"]]
    if "record" in shape:
        return _kinds()[shape["record"]](**{name: _put(part, tensors) for name, part in shape["fields"].items()})
    if "tuple" in shape:
        return tuple(_put(part, tensors) for part in shape["tuple"])
    if "dict" in shape:
        return {name: _put(part, tensors) for name, part in shape["dict"].items()}
    return shape["value"]


def _kinds() -> dict[str, type[Record]]:
    found: dict[str, type[Record]] = {}
    waiting: list[type[Record]] = [Record]
    while waiting:
        kind = waiting.pop()
        found[kind.__name__] = kind
        waiting.extend(kind.__subclasses__())
    return found
