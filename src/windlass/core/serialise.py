"""Records as bytes, for messages between the processes of a run: JSON and safetensors, no pickle. And JSON of files."""

from __future__ import annotations

import json
import math
from typing import Any

from safetensors.torch import load, save
from torch import Tensor

from windlass.core.records import Record

DEEPEST = 100
"""How deep JSON may be nested: what walks through it can then recurse."""


def read_json(content: bytes | str, finite: bool = True) -> Any:
    """Read the JSON of a file that may be damaged: a ValueError if it is no JSON, nested too deep, or not finite.

    >>> read_json('{"a": [1, 2.5]}')
    {'a': [1, 2.5]}
    >>> read_json('{"a": NaN}')
    Traceback (most recent call last):
    ValueError: NaN is not a finite number
    """
    try:
        value = json.loads(content, parse_constant=_finite, parse_float=_finite) if finite else json.loads(content)
    except RecursionError:
        raise ValueError(f"nested more than {DEEPEST} deep") from None
    opening = (b"[", b"{") if isinstance(content, bytes) else ("[", "{")
    if sum(map(content.count, opening)) > DEEPEST and _depth(value) > DEEPEST:  # type: ignore[arg-type]
        raise ValueError(f"nested more than {DEEPEST} deep")
    return value


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level := [part for part in level if isinstance(part, list | dict)]:
        depth += 1
        level = [part for whole in level for part in (whole.values() if isinstance(whole, dict) else whole)]
    return depth


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text} is not a finite number")
    return value


def serialise(record: Record) -> bytes:
    """Return a record and everything nested in it as bytes.

    >>> from windlass.core.records import Padded
    >>> deserialise(serialise(Padded.of([[4, 5], [6]]))).mask.tolist()
    [[True, True], [True, False]]
    """
    tensors: dict[str, Tensor] = {}
    structure = json.dumps(_flatten(record, tensors)).encode()
    return len(structure).to_bytes(8, "little") + structure + save(tensors)


def deserialise(content: bytes) -> Any:
    """Return the record that `serialise` wrote.

    >>> from windlass.core.records import Padded
    >>> deserialise(serialise(Padded.of([[4, 5]]))).values.tolist()
    [[4, 5]]
    """
    size = int.from_bytes(content[:8], "little")
    return _rebuild(json.loads(content[8 : 8 + size]), load(content[8 + size :]))


def _flatten(value: Any, tensors: dict[str, Tensor]) -> Any:
    """Return the structure of a value as JSON; its tensors go to `tensors` under their index."""
    if isinstance(value, Tensor):
        tensors[str(len(tensors))] = value.detach().contiguous().clone()
        return {"tensor": str(len(tensors) - 1)}
    if isinstance(value, Record):
        fields = {name: _flatten(getattr(value, name), tensors) for name in value.__dataclass_fields__}
        return {"record": type(value).__name__, "fields": fields}
    if isinstance(value, tuple):
        return {"tuple": [_flatten(part, tensors) for part in value]}
    if isinstance(value, dict):
        return {"dict": {name: _flatten(part, tensors) for name, part in value.items()}}
    return {"value": value}


def _rebuild(structure: dict[str, Any], tensors: dict[str, Tensor]) -> Any:
    if "tensor" in structure:
        return tensors[structure["tensor"]]
    if "record" in structure:
        fields = {name: _rebuild(part, tensors) for name, part in structure["fields"].items()}
        return _record_types(Record)[structure["record"]](**fields)
    if "tuple" in structure:
        return tuple(_rebuild(part, tensors) for part in structure["tuple"])
    if "dict" in structure:
        return {name: _rebuild(part, tensors) for name, part in structure["dict"].items()}
    return structure["value"]


def _record_types(base: type[Record]) -> dict[str, type[Record]]:
    within = [_record_types(record) for record in base.__subclasses__()]
    return {base.__name__: base} | {name: record for types in within for name, record in types.items()}
