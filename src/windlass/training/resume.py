"""Whether a run can go on from a checkpoint with the options and data of now."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from windlass.core.errors import TrainingError

FIXED = ("options.optimiser.kind", "options.average.", "options.batch_tokens", "seed", "metric", "batches")
"""What must not change: the saved state, the order of the data or the meaning of best would no longer fit."""


def changes(path: Path, then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What has changed since a checkpoint was written; an error where the run cannot go on.

    >>> changes(Path("checkpoint"), {"seed": 1, "threads": 2}, {"seed": 1, "threads": 1})
    ['threads: 2 is now 1']
    >>> changes(Path("checkpoint"), {"seed": 1}, {"seed": 2})
    Traceback (most recent call last):
    ...
    windlass.core.errors.TrainingError: checkpoint: cannot resume: seed: 1 is now 2; set it back ...
    """
    before, after = _flat(then), _flat(now)
    found: list[str] = []
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) == after.get(key):
            continue
        change = f"{key.replace('options.', 'train.')}: {before.get(key)} is now {after.get(key)}"
        if key == "batches":
            change = f"the data has changed: {before.get(key)} batches are now {after.get(key)}"
        if key.startswith(FIXED):
            raise TrainingError(f"{path}: cannot resume: {change}; set it back or train in another folder")
        found.append(change)
    return found


def _flat(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in data.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return flat
