"""The command that trains."""

from __future__ import annotations

import shlex
from pathlib import Path
from textwrap import shorten
from time import perf_counter
from typing import Annotated

import typer

from windlass.bundle import Bundle, load_definition
from windlass.commands import flags
from windlass.commands.shared import app, columns, say
from windlass.core.errors import WindlassError
from windlass.core.program import program
from windlass.data.examples import Value, as_text
from windlass.experiment.run import Outcome, check_folder, pick, read_data, run
from windlass.metrics.likelihood import format_metric
from windlass.recipe import compose, merge, parse, setting
from windlass.tasks import TASKS
from windlass.training.observe import Observer, Silent
from windlass.training.progress import RichProgress, format_duration


@app.command()
def train(
    files: Annotated[list[str] | None, typer.Argument(metavar="FILE", help="training data", show_default=False)] = None,
    task: Annotated[
        str | None, typer.Option(metavar="NAME", help=", ".join(TASKS) + "; none: picked from the data")
    ] = None,
    recipe: Annotated[Path | None, typer.Option(metavar="FILE", help="a recipe file (YAML)")] = None,
    train_files: Annotated[
        list[str] | None, typer.Option("--train", metavar="FILE", help="training data; again for more files")
    ] = None,
    dev: Annotated[
        str | None, typer.Option(metavar="FILE", help="data to choose by; none: a part of the training data")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="the folder for the model")] = Path("model"),
    set_: flags.Settings = None,
    resume: Annotated[bool, typer.Option("--resume", help="go on with the run in --out")] = False,
    base: Annotated[Path | None, typer.Option("--from", metavar="DIR", help="finetune this model")] = None,
    source: flags.Source = None,
    target: flags.Target = None,
    second: flags.Second = None,
    alignment: flags.AlignmentColumn = None,
    format: flags.Format = None,
    strict: Annotated[bool, typer.Option("--strict", help="refuse data that has anything wrong with it")] = False,
    device: flags.Device = "cpu",
    quiet: Annotated[bool, typer.Option("--quiet", help="show no progress")] = False,
) -> None:
    """Train a model.

    `windlass train pairs.tsv` is enough: tokens and sizes are picked from the data. Or say more: `windlass train
    --task pronounce --train t.tsv --dev d.tsv`, or a recipe (see `windlass recipes`) with --recipe and --set.
    """
    settings = [setting(text) for text in set_ or []]
    observer: Observer = Silent() if quiet else RichProgress()
    paths = [*(files or []), *(train_files or [])]
    data_over = columns(source, target, alignment, format, second) | ({"strict": True} if strict else {})
    if paths:
        data_over["train"] = paths
    if dev is not None:
        data_over["dev"] = dev
    start: Bundle | None = None
    if resume:
        if data_over or task or recipe or base:
            raise WindlassError(
                "--resume goes on with the run's own recipe and data: give only --out and --set with it"
            )
        content = load_definition(out)[0].model_dump(mode="json")
        for part in settings:
            content = merge(content, part)
        composed = parse(content)
        data = read_data(composed)
    else:
        start = Bundle.load(base, device) if base else None
        if start is not None and (task or recipe):
            raise WindlassError("--from takes the model's own recipe: give --set instead of --task or --recipe")
        over = [{"data": data_over}, *settings]
        if start is not None:
            kept = start.recipe.model_dump(mode="json") | {"data": {}}
            composed = compose(start.recipe.task, None, [kept, *over])
        else:
            composed = compose(task, recipe, over)
        check_folder(out, resume=False)  # before a long report
        data = read_data(composed)
        if not quiet:
            say(data.report.render())
        if not quiet and composed.data.dev is None:
            say(f"no dev file: {TASKS[composed.task].reader.amount(data.dev)} set aside to choose by")
        if not (task or recipe or base):
            composed = pick(composed, data, settings, say)
    started = perf_counter()
    outcome = run(composed, data, out, observer, resume, start, device)
    _tell_outcome(outcome, out, perf_counter() - started, data.dev[0].source)


def _tell_outcome(outcome: Outcome, out: Path, seconds: float, example: Value) -> None:
    result = outcome.fit
    if result.reason == "interrupted":
        say(f"stopped and saved; go on with: {program()} train --resume --out {shlex.quote(str(out))}")
        raise typer.Exit(130)
    assert outcome.dev is not None
    metrics, cheap = (
        "  ".join(f"{name} {format_metric(name, value)}" for name, value in figures.items())
        for figures in (outcome.dev.metrics, outcome.baseline_metrics)
    )
    say(f"done in {format_duration(seconds)} ({result.steps} steps, best at step {result.best_step})")
    say(f"dev  {metrics}   [baseline, {outcome.baseline.name}: {cheap}]")
    folder = shlex.quote(str(out))
    whole = as_text(example)
    text = shlex.quote(whole if len(whole) <= 120 else shorten(whole, 80, placeholder=" ..."))
    say(f"model in {out}; next:")
    if outcome.bundle.task.language_model:
        say(f"  {program()} generate {folder} --length 500")
        say(f"  {program()} evaluate {folder} test.txt")
        return
    columns = [shlex.quote(column) for column in outcome.bundle.sides.source.columns(example)]
    if len(columns) == 2:
        first, second = columns
        say(f"  printf '%s\\t%s\\n' {first} {second} | {program()} predict {folder}")
        say(f"  {program()} explain {folder} {first} --second {second} --out words.png")
        say(f"  {program()} evaluate {folder} test.tsv")
        return
    say(f"  echo {text} | {program()} predict {folder}")
    say(f"  {program()} explain {folder} {text} --out attention.png")
    say(f"  {program()} evaluate {folder} test.tsv")
