"""The command line. Results go to stdout; progress, notes and errors to stderr."""

from __future__ import annotations

import codecs
import sys
from io import TextIOWrapper
from typing import Annotated

import typer

from windlass.commands import (
    bench,
    chat,
    compare,
    demo,
    distance,
    doctor,
    evaluate,
    explain,
    features,
    generate,
    gradients,
    info,
    predict,
    quantise,
    recipes,
    score,
    train,
    units,
)
from windlass.commands.shared import app, say
from windlass.core.errors import WindlassError
from windlass.core.version import __version__

__all__ = ["app", "main"]

COMMANDS = (
    *(train, evaluate, predict, score, generate, chat, explain, units, gradients),
    *(info, compare, distance, bench, quantise, doctor, features, recipes, demo),
)
"""In the order of `--help`: that in which a user needs them."""
_ORDER = [command.__name__ for command in COMMANDS]
app.registered_commands.sort(key=lambda command: _ORDER.index(command.callback.__module__))


def _version(show: bool) -> None:
    if show:
        print(f"windlass {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """Train, look inside and ship small sequence models on the machine you have."""


def main() -> None:
    """Run the command line; an error that a user can fix is one line, not a traceback.

    >>> from unittest.mock import patch
    >>> with patch("sys.argv", ["windlass", "recipes", "no-such-task"]):
    ...     main()
    Traceback (most recent call last):
    SystemExit: 1
    """
    for stream in (sys.stdout, sys.stderr):  # whatever the locale: results are UTF-8, as files are
        if isinstance(stream, TextIOWrapper) and codecs.lookup(stream.encoding).name != "utf-8":
            stream.reconfigure(encoding="utf-8", errors=stream.errors)
    try:
        app()
    except WindlassError as error:
        say(f"windlass: {error}")
        sys.exit(1)
    except OSError as error:  # no space, no permission; typer handles a closed pipe
        say(f"windlass: {error.filename or 'input or output failed'}: {error.strerror}")
        sys.exit(1)
