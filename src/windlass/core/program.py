"""How a user can call Windlass again."""

from __future__ import annotations

import os
import shlex
import shutil
import sys


def program() -> str:
    """The command to print in hints: `windlass`, or its path where the shell would not find it.

    `make demo`, for one, runs the command of an environment that the user has not entered.

    >>> program().endswith(("windlass", "pytest", ".py"))
    True
    """
    called = sys.argv[0]
    if shutil.which("windlass") or not os.path.isfile(called) or "windlass" not in os.path.basename(called):
        return "windlass"
    return shlex.quote(os.path.relpath(called))
