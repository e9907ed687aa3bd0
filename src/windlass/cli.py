"""The command line. Results go to stdout; progress, notes and errors to stderr."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from windlass import __version__, cli_speed, flags
from windlass.bundle import Bundle, load_definition
from windlass.core.errors import WindlassError, nearest
from windlass.core.program import program
from windlass.core.records import Prediction
from windlass.data.doctor import examine
from windlass.data.readers import DataOptions, ReadResult, read
from windlass.demo import demonstrate
from windlass.demo_data import SCRIPTS
from windlass.evaluate import alignment_figures, evaluate, predict, score
from windlass.experiment import Outcome, baseline_metrics, check_folder, load_baseline, pick, read_data, run
from windlass.explain.attention import draw, explain
from windlass.metrics.text import signatures
from windlass.portions import portions
from windlass.recipe import Recipe, compose, default, merge, parse, setting
from windlass.searching import search_options
from windlass.tasks import TASKS
from windlass.training.observe import Observer, Silent
from windlass.training.progress import RichProgress, duration

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)

NOTES = 5
"""How many lines of a kind are spoken of one by one."""


def say(text: str) -> None:
    """Tell the user something that is not a result.

    >>> say("")
    """
    if text:
        print(text, file=sys.stderr)


def _columns(source: str | None, target: str | None, alignment: str | None, format: str | None) -> dict[str, Any]:
    given = {"source": source, "target": target, "alignment": alignment, "format": format}
    return {key: value for key, value in given.items() if value is not None}


def _reading(columns: dict[str, Any], base: Recipe | None = None) -> DataOptions:
    own = {} if base is None else base.data.model_dump(mode="json", include=set(DataOptions.model_fields))
    return parse({"data": own | columns}, "options").data


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
    base: Annotated[Path | None, typer.Option("--from", metavar="DIR", help="train this model further")] = None,
    source: flags.Source = None,
    target: flags.Target = None,
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
    data_over = _columns(source, target, alignment, format) | ({"strict": True} if strict else {})
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
            say(f"no dev file: {len(data.dev):,} of the examples are set aside to choose by")
        if not (task or recipe or base):
            composed = pick(composed, data, settings, say)
    started = perf_counter()
    outcome = run(composed, data, out, observer, resume, start, device)
    _tell_outcome(outcome, out, perf_counter() - started, data.dev[0].source)


def _tell_outcome(outcome: Outcome, out: Path, seconds: float, example: str) -> None:
    fitted = outcome.fitted
    if fitted.reason == "interrupted":
        say(f"stopped and saved; go on with: {program()} train --resume --out {shlex.quote(str(out))}")
        raise typer.Exit(130)
    assert outcome.dev is not None
    metrics = "  ".join(f"{name} {value:.2f}" for name, value in outcome.dev.metrics.items())
    cheap = "  ".join(f"{name} {value:.2f}" for name, value in outcome.baseline_metrics.items())
    say(f"done in {duration(seconds)} ({fitted.steps} steps, best at step {fitted.best_step})")
    say(f"dev  {metrics}   [baseline, {outcome.baseline.name}: {cheap}]")
    folder = shlex.quote(str(out))
    text = shlex.quote(example)
    say(f"model in {out}; next:")
    say(f"  echo {text} | {program()} predict {folder}")
    say(f"  {program()} explain {folder} {text} --out attention.png")
    say(f"  {program()} evaluate {folder} test.tsv")


def _bundles(folder: Path, also: list[Path] | None, device: str) -> list[Bundle]:
    return [Bundle.load(path, device) for path in (folder, *(also or []))]


def _read(bundle: Bundle, file: str, columns: dict[str, Any]) -> ReadResult:
    """Read data the way the model's own data was read, unless told otherwise, and say what is wrong with it."""
    result = read(file, _reading(columns, bundle.recipe))
    for finding in result.findings[:NOTES]:
        say(str(finding))
    if len(result.findings) > NOTES:
        say(f"and {len(result.findings) - NOTES} more; see: windlass doctor {file}")
    return result


@app.command("evaluate")
def evaluate_command(
    folder: flags.Folder,
    file: Annotated[str, typer.Argument(metavar="FILE", help="data with the right answers")],
    json_: flags.Json = False,
    also: flags.Also = None,
    beam: flags.BeamSize = None,
    search: flags.Kind = None,
    length_penalty: flags.LengthPenalty = None,
    block_ngrams: flags.BlockNgrams = None,
    source: flags.Source = None,
    target: flags.Target = None,
    alignment: flags.AlignmentColumn = None,
    format: flags.Format = None,
    device: flags.Device = "cpu",
) -> None:
    """Score a model on data with right answers.

    Figures are given as papers print them, beside those of a cheap baseline.
    """
    started = perf_counter()
    bundles = _bundles(folder, also, device)
    first = bundles[0]
    options = search_options(
        first.recipe.search, kind=search, size=beam, length_penalty=length_penalty, block_ngrams=block_ngrams
    )
    result = _read(first, file, _columns(source, target, alignment, format))
    found = evaluate(bundles, result.examples, options)
    metrics = dict(found.metrics)
    cheap = load_baseline(folder)
    baseline = {} if cheap is None else baseline_metrics(cheap, first.recipe.task, result.examples)
    if any(e.alignment for e in result.examples):
        aligned, diagonal = alignment_figures(first, result.examples)
        metrics |= aligned
        baseline |= diagonal
    content: dict[str, Any] = {
        "metrics": {name: round(value, 4) for name, value in metrics.items()},
        "baseline": {name: round(value, 4) for name, value in baseline.items()},
        "baseline_name": cheap.name if cheap else None,
        "examples": found.examples,
        "unknown": sum(bool(p.unknown) for p in found.predictions),
        "seconds": round(perf_counter() - started, 2),
        "search": options.model_dump(mode="json"),
        "models": [str(path) for path in (folder, *(also or []))],
    }
    if "bleu" in found.metrics:
        references = [e.targets for e in result.examples]
        content["signatures"] = signatures([p.text for p in found.predictions], references)
    if json_:
        print(json.dumps(content, ensure_ascii=False))
        return
    for name, value in metrics.items():
        beside = f"   (baseline {baseline[name]:.2f})" if name in baseline else ""
        print(f"{name:10} {value:7.2f}{beside}")
    said = f"{found.examples} examples, {content['seconds']} s"
    if cheap is not None:
        said += f"; baseline: {cheap.name}"
    if content["unknown"]:
        said += f"; {content['unknown']} with symbols the model has never seen"
    print(said)
    for name, text in content.get("signatures", {}).items():
        print(f"{name}: {text}")


@app.command("predict")
def predict_command(
    folder: flags.Folder,
    file: Annotated[str, typer.Argument(metavar="FILE", help="a text file, an input a line; -: stdin")] = "-",
    nbest: Annotated[
        int, typer.Option(metavar="N", min=1, help="how many outputs for an input, separated by tabs")
    ] = 1,
    json_: Annotated[bool, typer.Option("--json", help="a JSON object a line, with scores and attention")] = False,
    also: flags.Also = None,
    beam: flags.BeamSize = None,
    search: flags.Kind = None,
    length_penalty: flags.LengthPenalty = None,
    temperature: flags.Temperature = None,
    top_k: flags.TopK = None,
    top_p: flags.TopP = None,
    seed: flags.SampleSeed = None,
    block_ngrams: flags.BlockNgrams = None,
    device: flags.Device = "cpu",
) -> None:
    """Write an output for every line of input.

    A line in, a line out, in order; a blank line for a blank line.
    """
    bundles = _bundles(folder, also, device)
    options = search_options(
        bundles[0].recipe.search,
        kind=search,
        size=beam,
        length_penalty=length_penalty,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=seed,
        block_ngrams=block_ngrams,
    )
    if options.kind == "greedy" and nbest > 1:
        raise WindlassError("greedy search finds one output: use --beam or --search sample for --nbest")
    if options.kind == "beam" and nbest > options.size:
        raise WindlassError(f"--nbest {nbest} needs a beam at least as wide: add --beam {nbest}")
    done = unknown = cut = 0
    for lines in portions(file, bundles[0].recipe.data.max_length, say):
        for prediction in predict(bundles, lines, options, nbest, first_key=done):
            done += 1
            cut += not prediction.finished
            unknown += bool(prediction.unknown)
            if prediction.unknown and unknown <= NOTES and not json_:
                say(f"line {done}: {_never_seen(prediction)}")
            print(_line(prediction, json_), flush=sys.stdout.isatty())
    sys.stdout.flush()
    if unknown > NOTES and not json_:
        say(f"and {unknown - NOTES} more lines with symbols that the model has never seen")
    if cut and not json_:
        say(f"{cut} of {done} outputs were cut off at the length limit")


def _never_seen(prediction: Prediction) -> str:
    more = " ..." if len(prediction.unknown) > 5 else ""
    return f"the model has never seen {', '.join(map(repr, prediction.unknown[:5]))}{more}"


def _line(prediction: Prediction, as_json: bool) -> str:
    if as_json:
        return json.dumps(asdict(prediction), ensure_ascii=False)
    texts = [p.text for p in (prediction, *prediction.alternatives)]
    return "\t".join(" ".join(text.split("\n")) for text in texts)


@app.command("score")
def score_command(
    folder: flags.Folder,
    file: Annotated[str, typer.Argument(metavar="FILE", help="data with inputs and the outputs to score")],
    json_: Annotated[bool, typer.Option("--json", help="a JSON object a line, with attention")] = False,
    source: flags.Source = None,
    target: flags.Target = None,
    format: flags.Format = None,
    device: flags.Device = "cpu",
) -> None:
    """Say how likely given outputs are.

    A line an example: its log probability and the output.
    """
    bundle = Bundle.load(folder, device)
    result = _read(bundle, file, _columns(source, target, None, format))
    for prediction in score(bundle, [(e.source, e.target) for e in result.examples]):
        print(_line(prediction, True) if json_ else f"{prediction.score:.4f}\t{prediction.text}")


@app.command("explain")
def explain_command(
    folder: flags.Folder,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="an input")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="where to: a .png, .html or .json file")],
    target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="look at this output instead of the model's own")
    ] = None,
    beam: flags.BeamSize = None,
    search: flags.Kind = None,
    device: flags.Device = "cpu",
) -> None:
    """Draw what a model looks at while it writes."""
    bundle = Bundle.load(folder, device)
    told = search is not None or beam is not None
    options = search_options(bundle.recipe.search, kind=search, size=beam) if told else None
    found = explain(bundle, text, target, options)
    if found.unknown:
        say(_never_seen(found))
    if target is not None and (new := bundle.codecs.target.unknown(target)):
        say(f"the model never writes {', '.join(map(repr, new[:5]))}: taken as unknown")
    draw([found], out)
    say(f"{text} -> {found.text}   (probability {found.confidence:.2f}); written to {out}")


@app.command()
def doctor(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="data files", show_default=False)],
    dev: Annotated[str | None, typer.Option(metavar="FILE", help="a dev file, to look for what is in both")] = None,
    source: flags.Source = None,
    target: flags.Target = None,
    alignment: flags.AlignmentColumn = None,
    format: flags.Format = None,
    strict: Annotated[bool, typer.Option("--strict", help="fail if anything at all is wrong")] = False,
    limit: Annotated[int, typer.Option(metavar="N", min=0, help="how many findings of a kind to write out")] = 5,
    json_: flags.Json = False,
) -> None:
    """Look for what is wrong with data, before training does."""
    report = examine(files, _reading(_columns(source, target, alignment, format)), dev)
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
            print(f"{name:15} {known.about}; {', '.join(known.metrics)}")
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
    demonstrate(script, minutes, out, seed, RichProgress())


cli_speed.register(app)


def _version(show: bool) -> None:
    if show:
        print(f"windlass {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """Train, look inside and ship small sequence models on the machine you have."""


def main() -> None:
    """Run the command line; an error a user can mend is one line, not a traceback.

    >>> callable(main)
    True
    """
    try:
        app()
    except WindlassError as error:
        say(f"windlass: {error}")
        sys.exit(1)
    except OSError as error:  # no space, no permission; typer itself ends quietly where a pipe is closed
        say(f"windlass: {error.filename or 'cannot go on'}: {error.strerror}")
        sys.exit(1)
    except KeyboardInterrupt:
        say("stopped")
        sys.exit(130)
