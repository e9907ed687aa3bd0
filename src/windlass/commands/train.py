"""The command `train`."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable
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
from windlass.experiment.data import read_data
from windlass.experiment.recognise import compose_for
from windlass.experiment.run import Outcome, apply_suggestions, check_folder, run
from windlass.experiment.vectors import with_vectors
from windlass.metrics.likelihood import format_metric
from windlass.recipe import compose, merge, override, parse, setting
from windlass.tasks import TASKS
from windlass.training.observe import Observer, Silent
from windlass.training.progress import RichProgress, format_duration


@app.command()
def train(
    files: Annotated[list[str] | None, typer.Argument(metavar="FILE", help="training data", show_default=False)] = None,
    task: Annotated[str | None, typer.Option(metavar="NAME", help=", ".join(TASKS) + "; default: by the data")] = None,
    recipe: Annotated[Path | None, typer.Option(metavar="FILE", help="recipe file (YAML)")] = None,
    train_files: Annotated[
        list[str] | None, typer.Option("--train", metavar="FILE", help="training data; repeatable")
    ] = None,
    dev: Annotated[
        str | None, typer.Option(metavar="FILE", help="validation data; default: held out from the training data")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="output directory")] = Path("model"),
    epochs: Annotated[int | None, typer.Option(metavar="N", min=1, help="passes over the training data")] = None,
    lr: Annotated[float | None, typer.Option(metavar="X", help="peak learning rate")] = None,
    batch_tokens: Annotated[int | None, typer.Option(metavar="N", min=1, help="batch size in tokens")] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", min=0, help="random seed")] = None,
    vectors: Annotated[
        str | None, typer.Option(metavar="FILE", help="pretrained word vectors, a word and its numbers a line")
    ] = None,
    set_: flags.Settings = None,
    resume: Annotated[bool, typer.Option("--resume", help="resume the run in --out")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="delete the model in --out first")] = False,
    base: Annotated[Path | None, typer.Option("--from", metavar="DIR", help="finetune this model")] = None,
    source: flags.Source = None,
    target: flags.Target = None,
    second: flags.Second = None,
    alignment: flags.AlignmentColumn = None,
    format: flags.Format = None,
    header: flags.Header = None,
    separator: flags.Separator = None,
    encoding: flags.Encoding = None,
    strict: Annotated[bool, typer.Option("--strict", help="refuse data with any finding")] = False,
    device: flags.Device = "cpu",
    quiet: flags.Quiet = False,
) -> None:
    """Train a model.

    `windlass train pairs.tsv` recognises the task and the columns and says so, and picks tokens and sizes from the
    data. For more control, name a task (`windlass train --task pronounce --train t.tsv --dev d.tsv`) or a recipe (see
    `windlass recipes`), and override it with --set.
    """
    settings = [setting(text) for text in set_ or []]
    named = {"train.epochs": epochs, "train.optimiser.lr": lr, "train.batch_tokens": batch_tokens, "seed": seed}
    settings += [override(key, value) for key, value in named.items() if value is not None]
    observer: Observer = Silent() if quiet else RichProgress()
    paths = [*(files or []), *(train_files or [])]
    data_over = columns(source, target, alignment, format, second, header, separator, encoding) | (
        {"strict": True} if strict else {}
    )
    if paths:
        data_over["train"] = paths
    if dev is not None:
        data_over["dev"] = dev
    start: Bundle | None = None
    if resume:
        if data_over or task or recipe or base or overwrite or vectors:
            raise WindlassError("--resume uses the recipe and data of the run: give only --out and --set with it")
        content = load_definition(out)[0].model_dump(mode="json")
        for part in settings:
            content = merge(content, part)
        composed = parse(content)
        data = read_data(composed)
    else:
        start = Bundle.load(base, device) if base else None
        if start is not None and (task or recipe):
            raise WindlassError("--from uses the recipe of the model: use --set instead of --task or --recipe")
        over = [{"data": data_over}, *settings]
        if start is not None:
            kept = start.recipe.model_dump(mode="json") | {"data": {}}
            composed = compose(start.recipe.task, None, [kept, *over])
        else:
            composed = compose_for(task, recipe, over, (lambda text: None) if quiet else say)
        if vectors is not None:
            composed = with_vectors(composed, vectors)
        if not overwrite:
            check_folder(out, resume=False)  # before a long report
        data = read_data(composed)
        if not quiet:
            say(data.report.render())
        if not quiet and composed.data.dev is None:
            say(f"no dev file: {TASKS[composed.task].reader.amount(data.dev)} held out for validation")
        if not (task or recipe or base) and composed.task == "text":
            composed = apply_suggestions(composed, data, settings, say)
    if overwrite:
        delete_model(out, say)
    started = perf_counter()
    outcome = run(composed, data, out, observer, resume, start, device)
    _print_outcome(outcome, out, perf_counter() - started, data.dev[0].source)


def delete_model(folder: Path, note: Callable[[str], None]) -> None:
    """Delete a model that is to be trained anew; nothing but a model or a run is deleted.

    >>> import tempfile
    >>> delete_model(Path(tempfile.mkdtemp()) / "model", print)
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not (folder / "recipe.yaml").is_file():
        raise WindlassError(f"{folder}: no model is in it: --overwrite deletes nothing else; choose another --out")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    note(f"{folder}: deleting the model that is there ({size / 1e6:.1f} MB)")
    shutil.rmtree(folder)


def _print_outcome(outcome: Outcome, out: Path, seconds: float, example: Value) -> None:
    result = outcome.fit
    if result.reason == "interrupted":
        say(f"interrupted and saved; resume with: {program()} train --resume --out {shlex.quote(str(out))}")
        raise typer.Exit(130)
    assert outcome.dev is not None
    metrics, baseline = (
        "  ".join(f"{name} {format_metric(name, value)}" for name, value in scores.items())
        for scores in (outcome.dev.metrics, outcome.baseline_metrics)
    )
    say(f"done in {format_duration(seconds)} ({result.steps} steps, best at step {result.best_step})")
    say(f"dev  {metrics}   [baseline, {outcome.baseline.name}: {baseline}]")
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
