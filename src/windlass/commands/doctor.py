"""The command `doctor`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Annotated

import typer

from windlass.commands import flags
from windlass.commands.shared import app, columns, data_options
from windlass.core.errors import visible
from windlass.data.corpus import examine
from windlass.experiment.data import sides_of
from windlass.recipe import default, parse
from windlass.tasks import TASKS


@app.command()
def doctor(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="data files", show_default=False)],
    dev: Annotated[str | None, typer.Option(metavar="FILE", help="validation data, to find overlap with")] = None,
    source: flags.Source = None,
    target: flags.Target = None,
    second: flags.Second = None,
    alignment: flags.AlignmentColumn = None,
    format: flags.Format = None,
    header: flags.Header = None,
    separator: flags.Separator = None,
    encoding: flags.Encoding = None,
    task: Annotated[
        str, typer.Option(metavar="NAME", help="task of the data: classify, tag ...; default: text to text")
    ] = "text",
    strict: Annotated[bool, typer.Option("--strict", help="exit with 1 on any finding")] = False,
    limit: Annotated[int, typer.Option(metavar="N", min=0, help="findings of a kind to print")] = 5,
    json_: flags.Json = False,
) -> None:
    """Check data for problems before training."""
    recipe = parse(default(task))
    options = data_options(columns(source, target, alignment, format, second, header, separator, encoding), recipe)
    report = examine(files, options, dev, sides_of(recipe), TASKS[task].reader)
    if json_:
        content = {
            "train": report.train,
            "dev": report.dev,
            "counts": report.counts,
            "findings": [asdict(f) for f in report.findings],
        }
        print(json.dumps(content, ensure_ascii=False))
    else:
        print(visible(report.render(limit), sys.stdout))
    if report.refused or (strict and report.findings):
        raise typer.Exit(1)
