"""The command line. Results go to stdout; progress, notes and errors to stderr."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from windlass import __version__
from windlass.commands import chat, compare, language, look, speed, train, use
from windlass.commands.shared import app, say
from windlass.core.errors import WindlassError

__all__ = ["app", "chat", "compare", "language", "look", "main", "speed", "train", "use"]

ORDER = (
    *("train", "evaluate", "predict", "score", "generate", "chat", "explain"),
    *("compare", "bench", "quantise", "doctor", "recipes", "demo"),
)
"""How help lists the commands: in the order a user needs them."""
app.registered_commands.sort(key=lambda command: ORDER.index(command.name or command.callback.__name__))  # type: ignore[union-attr]


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
    """Run the command line; an error a user can mend is one line, not a traceback.

    >>> callable(main)
    True
    """
    try:
        app()
    except WindlassError as error:
        say(f"windlass: {error}")
        sys.exit(1)
    except OSError as error:  # no space, no permission; typer itself ends quietly where a pipe is closed
        say(f"windlass: {error.filename or 'cannot go on'}: {error.strerror}")
        sys.exit(1)
    except KeyboardInterrupt:
        say("stopped")
        sys.exit(130)
