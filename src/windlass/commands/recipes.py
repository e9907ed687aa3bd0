"""The command `recipes`."""

from __future__ import annotations

from typing import Annotated

import typer

from windlass.commands.shared import app, say


@app.command()
def recipes(
    task: Annotated[str | None, typer.Argument(metavar="TASK", help="print the recipe of this task")] = None,
) -> None:
    """List the tasks, or print the recipe of one."""
    from windlass.recipe import default, parse
    from windlass.tasks import TASKS

    if task is None:
        for name, known in TASKS.items():
            print(f"{name:15} {known.about}; {', '.join((*known.reported_metrics, *known.span_metrics))}")
        say("print a recipe to edit and train with --recipe: windlass recipes TASK")
        return
    print(parse(default(task)).to_yaml(), end="")
