"""What `fit`, `load` and `compare` are given in Python; some of it is checked before any work begins."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from windlass.core.errors import RecipeError
from windlass.data.frames import Frame

Rows = Any
"""Data in memory: a pandas or polars data frame, an Arrow table, a dict of columns, a list of dicts, pairs, an array of
two columns, an iterator such as `zip(texts, labels)`; for a language model, texts. See docs/python.md."""
Column = int | str | Sequence[int | str] | None
"""A column by name or by number from 1, or a list of several that are read as one; None: see
`windlass.data.frames.pick_columns`."""

_PARTS = ("source", "target", "second")
_OF_FILES = {"train": "give it as the first argument", "dev": "give it as dev="}
_OF_FILES |= dict.fromkeys(("format", "header", "separator", "encoding"), "leave it out")


def check_in_memory(settings: Sequence[dict[str, Any]]) -> None:
    """Refuse settings about files where the data is in memory.

    >>> check_in_memory([{"data": {"header": False}}])
    Traceback (most recent call last):
    windlass.core.errors.RecipeError: data.header is of files and has no use with data in memory: leave it out
    """
    for own in (part.get("data") for part in settings):
        for name in own if isinstance(own, dict) else ():
            if name in _OF_FILES:
                raise RecipeError(f"data.{name} is of files and has no use with data in memory: {_OF_FILES[name]}")


def by_names_of(frame: Frame, settings: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Settings that choose columns of data in memory as keywords do: an integer that is a name of a column is the name.

    >>> by_names_of(Frame(None, [], ("0", "1")), [{"data": {"source": 1}}, {"seed": 2}])
    [{'data': {'source': 2}}, {'seed': 2}]
    """
    found = []
    for own in settings:
        data = own.get("data")
        if isinstance(data, dict):
            chosen = {part: data[part] for part in _PARTS if isinstance(data.get(part), int | str)}
            own = own | {"data": data | {part: frame.choice(column) for part, column in chosen.items()}}
        found.append(own)
    return found


def as_path(value: object, name: str, instead: str) -> Path:
    """The path that an argument names, which says what to give `instead` of anything else.

    >>> as_path({"task": "lm"}, "recipe", "the name of a YAML file, and options as settings=")
    Traceback (most recent call last):
    TypeError: recipe is of type dict: give the name of a YAML file, and options as settings=
    """
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"{name} is of type {type(value).__name__}: give {instead}")
    return Path(value)
