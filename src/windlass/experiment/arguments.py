"""What `fit` and `load` are given in Python, checked before any work begins."""

from __future__ import annotations

import os
from pathlib import Path


def as_path(value: object, name: str, instead: str) -> Path:
    """The path that an argument names, which says what to give `instead` of anything else.

    >>> as_path({"task": "lm"}, "recipe", "the name of a YAML file, and options as settings=")
    Traceback (most recent call last):
    TypeError: recipe is of type dict: give the name of a YAML file, and options as settings=
    """
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"{name} is of type {type(value).__name__}: give {instead}")
    return Path(value)
