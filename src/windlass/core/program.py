"""The name of the command line program."""

from __future__ import annotations

import os
import shlex
import shutil
import sys


def program() -> str:
    """Return the command to print in hints: `windlass` if it is on PATH, otherwise as it was typed.

    `make demo`, for example, runs `.venv/bin/windlass` from an environment that is not activated.

    >>> program()  # outside of the CLI
    'windlass'
    """
    path = sys.argv[0]
    folder, name = os.path.split(path)
    if shutil.which("windlass") or not os.path.isfile(path):
        return "windlass"
    if name == "__main__.py" and os.path.basename(folder) == "windlass":
        return "python -m windlass"
    return shlex.quote(path) if "windlass" in name else "windlass"
