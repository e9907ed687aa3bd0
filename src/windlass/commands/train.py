"""The command `train`."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from windlass.commands import flags
from windlass.commands.shared import TASK_NAMES, app, choose_device, columns, say
from windlass.core.errors import WindlassError

if TYPE_CHECKING:
    from windlass.bundle import Bundle
    from windlass.training.observe import Observer


@app.command()
def train(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="training data: a table, a text, or a folder of pictures, clips or sounds whose folders are labels",
            show_default=False,
        ),
    ] = None,
    task: Annotated[
        str | None, typer.Option(metavar="NAME", help=f"{', '.join(TASK_NAMES)}; default: by the data")
    ] = None,
    recipe: Annotated[Path | None, typer.Option(metavar="FILE", help="recipe file (YAML)")] = None,
    train_files: Annotated[
        list[str] | None, typer.Option("--train", metavar="FILE", help="training data; repeatable")
    ] = None,
    dev: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="validation data; default: held out from the training data"),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="output directory")] = Path("model"),
    epochs: Annotated[int | None, typer.Option(metavar="N", min=1, help="passes over the training data")] = None,
    minutes: Annotated[float | None, typer.Option(metavar="X", help="time limit")] = None,
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
    device: flags.Device = "auto",
    quiet: flags.Quiet = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="print the whole recipe and every finding in the data")
    ] = False,
) -> None:
    """Train a model.

    `windlass train pairs.tsv` recognises the task and the columns and says so, and picks tokens and sizes from the
    data. For more control, name a task (`windlass train --task pronounce --train t.tsv --dev d.tsv`) or a recipe (see
    `windlass recipes`), and override it with --set.
    """
    from windlass.baseline.verdict import advise, minutes_for
    from windlass.bundle import Bundle, load_definition
    from windlass.commands.outcome import example_for_hints, outcome_lines, verdict_of
    from windlass.core.program import program
    from windlass.experiment.adapt import adapt
    from windlass.experiment.data import describe_split, read_data, read_to_finetune
    from windlass.experiment.folder import check_folder
    from windlass.experiment.recognise import compose_for, recompose_for
    from windlass.experiment.run import apply_suggestions, run
    from windlass.experiment.vectors import with_vectors
    from windlass.recipe import merge, override, parse, setting
    from windlass.tasks import TASKS
    from windlass.training.observe import Silent
    from windlass.training.progress import RichProgress, format_duration

    if quiet and verbose:
        raise WindlassError("--quiet and --verbose: choose one")
    note: Callable[[str], None] = (lambda text: None) if quiet else say
    device = choose_device(device, note)
    settings = [setting(text) for text in set_ or []]
    named = {"train.epochs": epochs, "train.minutes": minutes, "train.optimiser.lr": lr}
    named |= {"train.batch_tokens": batch_tokens, "seed": seed}
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
            allowed = "--out, --epochs, --minutes and --set"
            raise WindlassError(f"--resume uses the recipe and data of the run: give only {allowed} with it")
        content = load_definition(out)[0].model_dump(mode="json")
        for part in settings:
            content = merge(content, part)
        composed = parse(content)
        check_folder(out, resume=True)  # before data is read
        data = read_data(composed)
    else:
        start = Bundle.load(base, device) if base else None
        if start is not None and (task or recipe):
            raise WindlassError("--from uses the recipe of the model: use --set instead of --task or --recipe")
        over = [{"data": data_over}, *settings]
        if start is not None:
            composed = recompose_for(start.recipe, over, note)
        else:
            composed = compose_for(task, recipe, over, note)
        if vectors is not None:
            composed = with_vectors(composed, vectors)
        if not overwrite:
            check_folder(out, resume=False)  # before a long report
        data = read_data(composed) if start is None else read_to_finetune(composed)
        note(data.report.render(limit=sys.maxsize if verbose else 5))
        if composed.data.dev is None:
            note(f"no dev file: {TASKS[composed.task].reader.amount(data.dev)} held out for validation")
            if large := describe_split(data, composed):
                note(large)
        if not (task or recipe or base) and composed.task == "text":
            composed = apply_suggestions(composed, data, settings, note)
        elif not (recipe or base):
            composed = adapt(composed, data.train, settings, note)
    if verbose:
        note(composed.to_yaml())
    if overwrite:
        delete_model(out, note)
    started = perf_counter()
    outcome = run(composed, data, out, observer, resume, start, device)
    if outcome.fit.reason == "interrupted":
        say(f"interrupted and saved; resume with: {program()} train --resume --out {shlex.quote(str(out))}")
        raise typer.Exit(130)
    if quiet and (verdict := verdict_of(outcome)) is not None and verdict.standing == "worse":
        say(verdict.sentence(advise(out, outcome.bundle)))
    for line in outcome_lines(outcome, out, perf_counter() - started, example_for_hints(data.dev)):
        note(line)
    if outcome.fit.reason == "minutes" and (limit := composed.train.minutes) is not None:
        needed = minutes_for(out, composed.train)
        more = f"{program()} train --resume --minutes {needed} --out {shlex.quote(str(out))}"
        note(f"the time limit of {format_duration(60 * limit)} ended the run; to go on: {more}")


def delete_model(folder: Path, note: Callable[[str], None]) -> None:
    """Delete a model that is to be trained anew; nothing but a model or a run is deleted.

    >>> import tempfile
    >>> delete_model(Path(tempfile.mkdtemp()) / "model", print)
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    from windlass.experiment.folder import alone

    if not (folder / "recipe.yaml").is_file():
        raise WindlassError(f"{folder}: no model is in it: --overwrite deletes nothing else; choose another --out")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    note(f"{folder}: deleting the model that is there ({size / 1e6:.1f} MB)")
    with alone(folder):
        shutil.rmtree(folder)
