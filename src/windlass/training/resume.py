"""Whether a run can resume from a checkpoint with the current options and data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from windlass.core.errors import TrainingError

FIXED = ("options.optimiser.kind", "options.average.", "options.batch_tokens", "seed", "metric", "batches")
"""What must not change: the saved state, the order of the data or the meaning of "best" would no longer match."""


def changes(path: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return what has changed since a checkpoint was written; raise TrainingError if the run cannot resume.

    >>> changes(Path("checkpoint"), {"seed": 1, "threads": 2}, {"seed": 1, "threads": 1})
    ['threads: 2 is now 1']
    >>> changes(Path("checkpoint"), {"seed": 1}, {"seed": 2})
    Traceback (most recent call last):
    ...
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
        if key.startswith(FIXED):
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
