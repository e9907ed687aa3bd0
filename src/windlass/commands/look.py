"""Commands that need no model: doctor, recipes, demo."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from windlass.commands import flags
from windlass.commands.shared import app, columns, reading, say
from windlass.core.errors import WindlassError, nearest
from windlass.data.corpus import examine
from windlass.demo.names import SCRIPTS
from windlass.demo.run import run_demo
from windlass.experiment.data import sides_of
from windlass.recipe import default, parse
from windlass.tasks import TASKS
from windlass.training.progress import RichProgress


@app.command()
def doctor(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="data files", show_default=False)],
    dev: Annotated[str | None, typer.Option(metavar="FILE", help="a dev file, to look for what is in both")] = None,
    source: flags.Source = None,
    target: flags.Target = None,
    second: flags.Second = None,
    alignment: flags.AlignmentColumn = None,
    format: flags.Format = None,
    task: Annotated[
        str, typer.Option(metavar="NAME", help="what the data is for: classify, tag ...; else text to text")
    ] = "text",
    strict: Annotated[bool, typer.Option("--strict", help="fail if anything at all is wrong")] = False,
    limit: Annotated[int, typer.Option(metavar="N", min=0, help="how many findings of a kind to write out")] = 5,
    json_: flags.Json = False,
) -> None:
    """Look for what is wrong with data, before training does."""
    if task not in TASKS:
        raise WindlassError(f"no task {task!r}: {nearest(task, TASKS)}")
    own = parse(default(task))
    options = reading(columns(source, target, alignment, format, second), own)
    report = examine(files, options, dev, sides_of(own), TASKS[task].reader)
    if json_:
        content = {
            "train": report.train,
            "dev": report.dev,
            "counts": report.counts,
            "findings": [asdict(f) for f in report.findings],
        }
        print(json.dumps(content, ensure_ascii=False))
    else:
        print(report.render(limit))
    if report.refused or (strict and report.findings):
        raise typer.Exit(1)


@app.command()
def recipes(
    task: Annotated[
        str | None, typer.Argument(metavar="TASK", help="print this task's recipe, to be changed and used")
    ] = None,
) -> None:
    """List the tasks, or print the recipe of one."""
    if task is None:
        for name, known in TASKS.items():
            print(f"{name:15} {known.about}; {', '.join((*known.figures, *known.span_metrics))}")
        say("a task's recipe, to be saved, changed and used with --recipe: windlass recipes TASK")
        return
    if task not in TASKS:
        raise WindlassError(f"no task {task!r}: {nearest(task, TASKS)}")
    print(parse(default(task)).to_yaml(), end="")


@app.command()
def demo(
    script: Annotated[str, typer.Option(metavar="NAME", help=", ".join(SCRIPTS))] = "devanagari",
    minutes: Annotated[float, typer.Option(metavar="X", min=0.1, help="how long to train")] = 3.5,
    out: Annotated[Path, typer.Option(metavar="DIR", help="the folder for model and pictures")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="of the first weights and the order of the data")] = 1,
) -> None:
    """Learn to transliterate place names.

    Train on real names, score the model on held-out ones, and draw what it attends to.
    """
    if not run_demo(script, minutes, out, seed, RichProgress()):
        raise typer.Exit(130)
