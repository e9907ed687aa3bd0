"""The command `demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from windlass.commands.shared import app

SCRIPTS = """
devanagari arabic armenian bengali cyrillic ethiopic georgian greek gurmukhi hangul hebrew katakana thai
""".split()
"""The scripts of windlass.demo.names, for the help text."""


@app.command()
def demo(
    script: Annotated[str, typer.Option(metavar="NAME", help=", ".join(SCRIPTS))] = "devanagari",
    minutes: Annotated[float, typer.Option(metavar="X", min=0.1, help="training time")] = 3.5,
    out: Annotated[Path, typer.Option(metavar="DIR", help="output directory")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="random seed")] = 1,
) -> None:
    """Train a transliterator of place names.

    Trains on real names, evaluates on held-out ones, and draws which letter wrote which.
    """
    from windlass.demo.run import run_demo
    from windlass.training.progress import RichProgress

    if not run_demo(script, minutes, out, seed, RichProgress()):
        raise typer.Exit(130)
