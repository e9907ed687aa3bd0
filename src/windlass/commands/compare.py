"""The command that compares recipes."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from windlass.commands import flags
from windlass.commands.shared import app, columns, say
from windlass.comparing.candidates import candidates, parse_vary
from windlass.comparing.compare import run_all
from windlass.comparing.table import Comparison
from windlass.core.errors import WindlassError
from windlass.core.tensors import atomic_write
from windlass.recipe import setting
from windlass.tasks import TASKS


@app.command("compare")
def compare_command(
    recipes: Annotated[
        list[Path] | None, typer.Argument(metavar="RECIPE", help="recipe files (YAML)", show_default=False)
    ] = None,
    task: Annotated[str | None, typer.Option(metavar="NAME", help=", ".join(TASKS))] = None,
    train: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="training data, instead of the recipes' own")
    ] = None,
    dev: Annotated[str | None, typer.Option(metavar="FILE", help="data to choose by")] = None,
    test: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="score on this too: one file, or again for each recipe")
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=A,B", help="what varies: every value, with every one of others; KEY+KEY: together"),
    ] = None,
    set_: flags.Settings = None,
    seeds: Annotated[str, typer.Option(metavar="N", help="how many seeds, or which: 4,5,6")] = "3",
    out: Annotated[Path, typer.Option(metavar="DIR", help="the folder for models, table and picture")] = Path(
        "comparison"
    ),
    jobs: Annotated[int, typer.Option(metavar="N", min=1, help="runs side by side, a process each")] = 1,
    source: flags.Source = None,
    target: flags.Target = None,
    format: flags.Format = None,
    json_: flags.Json = False,
    device: flags.Device = "cpu",
    quiet: Annotated[bool, typer.Option("--quiet", help="show no progress")] = False,
) -> None:
    """Compare recipes: size, time and score.

    Every recipe is trained with every seed on the same data. What is done is not done again: the same command goes on
    where it was stopped. Writes comparison.md, comparison.json and comparison.png.
    """
    over: dict[str, Any] = columns(source, target, None, format)
    if train:
        over["train"] = train
    if dev is not None:
        over["dev"] = dev
    settings = [*([{"data": over}] if over else []), *map(setting, set_ or [])]
    named = candidates(recipes or (), task, settings, [parse_vary(text) for text in vary or []], test or ())
    try:
        found = run_all(named, _seeds(seeds), out, jobs, quiet, device)
    except KeyboardInterrupt:
        say("stopped; what is done is kept: the same command goes on from there")
        raise typer.Exit(130) from None
    tell(found, out, json_)
    if found.failed:
        raise WindlassError(f"{len(found.failed)} of {len(named) * len(_seeds(seeds))} runs failed: {_why(found)}")


def _seeds(text: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or any(n < 0 for n in numbers) or numbers == [0] or len(set(numbers)) < len(numbers):
        raise WindlassError(f"--seeds {text}: give how many, such as 3, or which, such as 4,5,6")
    return list(range(1, numbers[0] + 1)) if len(numbers) == 1 else numbers


def _why(found: Comparison) -> str:
    first = found.failed[0]
    return f"{first.name}, seed {first.seed}: {first.error}"


def tell(found: Comparison, out: Path, json_: bool) -> None:
    """Print a comparison, and write it to its folder.

    >>> callable(tell)
    True
    """
    content = json.dumps(found.to_json(), ensure_ascii=False)
    if not found.trials:
        if json_:
            print(content)
        return
    atomic_write(out / "comparison.json", (content + "\n").encode())
    atomic_write(out / "comparison.md", found.markdown().encode())
    picture = found.draw(out / "comparison.png")
    if json_:
        print(content)
        return
    for group in found.groups:
        headings, rows = found.cells(group)
        table = Table(box=SIMPLE_HEAD, pad_edge=False, title=group or None, title_justify="left", title_style="bold")
        for number, heading in enumerate(headings):
            table.add_column(heading, justify="right" if number else "left", no_wrap=number > 0)
        for number, cells in enumerate(rows):
            table.add_row(*cells, style="bold" if cells[0] == found.best(group) and number < len(rows) - 1 else None)
        Console(width=140, highlight=False).print(table)
    say(f"mean ± standard deviation over seeds; all figures in {out / 'comparison.md'}, drawn in {picture}")
    say(f"the models are in {shlex.quote(str(out / 'runs'))}")
