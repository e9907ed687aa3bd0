"""Importing this makes two peers importable that are older than this Python: nothing that is timed is touched."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

# OpenNMT-py imports these for transforms of text that are not used here; they are large or would have to be compiled.
for unused in ("ahocorasick", "fasttext", "spacy"):
    sys.modules[unused] = ModuleType(unused)


def _as_before_python_3_11(cls: type, name: str, *rest: Any, field: Callable[..., Any] = dataclasses._get_field) -> Any:
    """Let a dataclass be the default of a field, as fairseq 0.12.2 has it."""
    default = getattr(cls, name, None)
    default = default.default if isinstance(default, dataclasses.Field) else default
    if dataclasses.is_dataclass(default) and not isinstance(default, type):
        type(default).__hash__ = object.__hash__
    return field(cls, name, *rest)


dataclasses._get_field = _as_before_python_3_11
