"""The command `doctor`."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from windlass.commands import flags
from windlass.commands.shared import app, columns, say
from windlass.core.errors import DataError, visible

if TYPE_CHECKING:
    from windlass.data.column_facts import Survey


@app.command()
def doctor(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE", help="data files, or a folder of labels", show_default=False)
    ],
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
        str | None, typer.Option(metavar="NAME", help="task of the data: classify, tag ...; default: by the data")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="exit with 1 on any finding")] = False,
    limit: Annotated[int, typer.Option(metavar="N", min=0, help="findings of a kind to print")] = 5,
    json_: flags.Json = False,
) -> None:
    """Check data for problems before training.

    Pictures, clips and sounds are read whole: their sizes or lengths are told, and files that are missing, cannot be
    read, are tiny, or are there twice by their content, also in train and dev.
    """
    from windlass.data.column_facts import survey_columns
    from windlass.data.corpus import examine
    from windlass.data.folders import is_folder
    from windlass.data.recognise_file import OtherFormError
    from windlass.experiment.adapt import adapt_target
    from windlass.experiment.data import sides_of
    from windlass.experiment.recognise import compose_for
    from windlass.recipe import compose
    from windlass.tasks import TASKS
    from windlass.training.observe import Silent
    from windlass.training.progress import RichProgress

    over = columns(source, target, alignment, format, second, header, separator, encoding)
    note = (lambda text: None) if json_ else say
    try:
        recipe = compose_for(task, None, [{"data": over | {"train": files}}], note)
    except DataError as error:
        if task is not None or is_folder(files[0]) or isinstance(error, OtherFormError):
            raise
        recipe = compose("text", None, [{"data": over}])
        unclear = survey_columns(files[0], recipe.data, error)
        if unclear is not None:
            _print_columns(unclear, limit, json_)
            raise typer.Exit(1) from None
    track = (Silent() if json_ else RichProgress()).track
    reader = TASKS[recipe.task].reader
    look = partial(adapt_target, recipe, settings=[], note=note)
    report = examine(files, recipe.data, dev, sides_of(recipe), reader, track, look)
    if json_:
        content = {
            "task": recipe.task,
            "train": report.train,
            "dev": report.dev,
            "counts": report.counts,
            "symbols": report.symbols,
            "sizes": report.sizes,
            "findings": [asdict(f) for f in report.findings],
        }
        print(json.dumps(content, ensure_ascii=False))
    else:
        print(visible(report.render(limit), sys.stdout))
    if report.refused or (strict and report.findings):
        raise typer.Exit(1)


def _print_columns(survey: Survey, limit: int, json_: bool) -> None:
    """Print what the columns of a table hold, and how to choose among them."""
    report, columns, pair = survey
    if json_:
        findings = [asdict(f) for f in report.findings]
        content = {"task": None, "columns": [asdict(c) for c in columns], "counts": report.counts, "findings": findings}
        print(json.dumps(content, ensure_ascii=False))
        return
    print(visible(report.render(limit), sys.stdout))
    if pair is None:
        print("the columns are chosen: name the task with --task")
        return
    source, target = pair
    chosen = shlex.join(["--source", str(source), "--target", str(target)])
    print(visible(f"choose the columns, for example {chosen}", sys.stdout))
