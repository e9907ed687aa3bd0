"""The command `compare`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from windlass.commands import flags
from windlass.commands.shared import TASK_NAMES, app, choose_device, columns, say
from windlass.core.errors import WindlassError

if TYPE_CHECKING:
    from windlass.comparing.table import Comparison


@app.command("compare")
def compare_command(
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="recipes (.yaml), or training data as for train", show_default=False),
    ] = None,
    task: Annotated[
        str | None, typer.Option(metavar="NAME", help=f"{', '.join(TASK_NAMES)}; default: by the data")
    ] = None,
    train: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="training data, instead of the recipes'")
    ] = None,
    dev: Annotated[str | None, typer.Option(metavar="FILE", help="validation data")] = None,
    test: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="test data: one file, or one per recipe")
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=A,B", help="vary an option over values; several give a grid, KEY+KEY vary together"),
    ] = None,
    set_: flags.Settings = None,
    seeds: Annotated[str, typer.Option(metavar="N", help="number of seeds, or a list: 4,5,6")] = "3",
    out: Annotated[Path, typer.Option(metavar="DIR", help="output directory")] = Path("comparison"),
    jobs: Annotated[int, typer.Option(metavar="N", min=1, help="runs in parallel, a process each")] = 1,
    by: Annotated[str | None, typer.Option(metavar="length", help="also score by the length of the source")] = None,
    source: flags.Source = None,
    target: flags.Target = None,
    second: flags.Second = None,
    format: flags.Format = None,
    header: flags.Header = None,
    separator: flags.Separator = None,
    encoding: flags.Encoding = None,
    json_: flags.Json = False,
    device: flags.Device = "auto",
    quiet: flags.Quiet = False,
) -> None:
    """Compare recipes: size, training time and metrics.

    Trains every recipe with every seed on the same data; `windlass compare pairs.tsv --vary
    model.encoder.cell=gru,lstm` varies what `windlass train pairs.tsv` would train. Finished runs are kept: repeat the
    command to resume. Writes comparison.md, comparison.json, comparison.png and curves.png; with --by length also
    lengths.png.
    """
    from windlass.comparing.candidates import candidates, parse_vary, recipes_and_data
    from windlass.comparing.compare import run_all
    from windlass.comparing.plot import draw_curves
    from windlass.recipe import setting

    note: Callable[[str], None] = (lambda text: None) if quiet else say
    if by not in (None, "length"):
        raise WindlassError(f"--by {by}: unknown; the only choice is length")
    over: dict[str, Any] = columns(source, target, None, format, second, header, separator, encoding)
    recipes, data = recipes_and_data(files or [])
    if data := [*data, *(train or [])]:
        over["train"] = data
    if dev is not None:
        over["dev"] = dev
    settings = [*([{"data": over}] if over else []), *map(setting, set_ or [])]
    compared = candidates(recipes, task, settings, [parse_vary(text) for text in vary or []], test or (), note)
    if len(compared) == 1:
        note("a single candidate: to compare it with others, add --vary KEY=A,B or another recipe")
    try:
        comparison = run_all(
            compared,
            _seeds(seeds),
            out,
            jobs,
            quiet,
            choose_device(device, note),
            by="length" if by else None,
            note=note,
        )
    except KeyboardInterrupt:
        say("interrupted; finished runs are kept: repeat the command to resume")
        raise typer.Exit(130) from None
    _print(comparison, out, json_, note)
    draw_curves(comparison, {(c.group, c.name): out / "runs" / c.folder for c in compared}, out / "curves.png")
    if comparison.failed:
        raise WindlassError(
            f"{len(comparison.failed)} of {len(compared) * len(_seeds(seeds))} runs failed: {_first_error(comparison)}"
        )


def _seeds(text: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or any(n < 0 for n in numbers) or numbers == [0] or len(set(numbers)) < len(numbers):
        raise WindlassError(f"--seeds {text}: give a number, such as 3, or a list, such as 4,5,6")
    return list(range(1, numbers[0] + 1)) if len(numbers) == 1 else numbers


def _first_error(comparison: Comparison) -> str:
    first = comparison.failed[0]
    return f"{first.name}, seed {first.seed}: {first.error}"


def _print(comparison: Comparison, out: Path, json_: bool, note: Callable[[str], None]) -> None:
    """Print a comparison, and write it to its directory."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from windlass.core.tensors import atomic_write

    content = json.dumps(comparison.to_json(), ensure_ascii=False)
    if not comparison.trials:
        if json_:
            print(content)
        return
    atomic_write(out / "comparison.json", (content + "\n").encode())
    atomic_write(out / "comparison.md", comparison.markdown().encode())
    picture = comparison.draw(out / "comparison.png")
    if comparison.lengths:
        comparison.draw_lengths(out / "lengths.png")
    if json_:
        print(content)
        return
    for group in comparison.groups:
        headings, rows = comparison.cells(group)
        table = Table(box=SIMPLE_HEAD, pad_edge=False, title=group or None, title_justify="left", title_style="bold")
        for number, heading in enumerate(headings):
            table.add_column(heading, justify="right" if number else "left", no_wrap=number > 0)
        for number, cells in enumerate(rows):
            table.add_row(
                *cells, style="bold" if cells[0] == comparison.best(group) and number < len(rows) - 1 else None
            )
        Console(width=140, highlight=False).print(table)
    for lengths in comparison.lengths:
        group = f"{lengths.group}: " if lengths.group else ""
        print(f"{group}{lengths.part} {lengths.metric} by the length of the source, in tokens (examples)")
        print(lengths.markdown())
    spread = "mean ± standard deviation over seeds; " if comparison.repeated else ""
    note(f"{spread}all metrics in {out / 'comparison.md'}, drawn in {picture}")
    for sentence in comparison.below_baseline():
        note(sentence)
    note(f"models in {shlex.quote(str(out / 'runs'))}")
