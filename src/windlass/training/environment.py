"""The environment of a run, for its folder."""

from __future__ import annotations

import os
import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

import torch

PACKAGES = ("windlass", "torch", "numpy", "tokenizers", "safetensors", "pydantic", "sacrebleu")


def environment(device: str = "cpu") -> dict[str, str | int | dict[str, str]]:
    """Return the date, versions, machine and threads as JSON values.

    >>> sorted(environment())
    ['cores', 'date', 'device', 'machine', 'packages', 'platform', 'processor', 'python', 'threads']
    """
    name = torch.cuda.get_device_name(device) if torch.device(device).type == "cuda" else device
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "machine": platform.machine(),
        "processor": torch.backends.cpu.get_cpu_capability(),
        "cores": os.cpu_count() or 1,
        "threads": torch.get_num_threads(),
        "device": name,
        "packages": {package: _version(package) for package in PACKAGES},
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
