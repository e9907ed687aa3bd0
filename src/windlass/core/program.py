"""The name of the command line program."""

from __future__ import annotations

import os
import shlex
import shutil
import sys


def program() -> str:
    """Return the command to print in hints: `windlass`, or its path if it is not on PATH.

    `make demo`, for example, runs `windlass` from an environment that is not activated.

    >>> program()  # outside of the CLI
    'windlass'
    """
    path = sys.argv[0]
    if shutil.which("windlass") or not os.path.isfile(path) or "windlass" not in os.path.basename(path):
        return "windlass"
    return shlex.quote(os.path.relpath(path))
