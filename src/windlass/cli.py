"""The command line. Results go to stdout; progress, notes and errors to stderr."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, BinaryIO

import typer

from windlass import __version__
from windlass.bundle import Bundle, load_definition
from windlass.core.errors import DataError, WindlassError, nearest
from windlass.core.records import Prediction
from windlass.data.doctor import examine
from windlass.data.readers import DataOptions, ReadResult, read
from windlass.demo import demonstrate
from windlass.demo_data import SCRIPTS
from windlass.evaluate import alignment_figures, evaluate, predict, score
from windlass.experiment import Outcome, baseline_metrics, load_baseline, pick, read_data, run
from windlass.explain.attention import draw, explain
from windlass.metrics.text import signatures
from windlass.recipe import compose, default, merge, parse, setting
from windlass.searching import search_options
from windlass.tasks import TASKS
from windlass.training.observe import Observer, Silent
from windlass.training.progress import RichProgress, duration

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="a model's folder", show_default=False)]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="override anything a recipe holds")
]
Source = Annotated[str | None, typer.Option("--source", help="column of the input, by number or name")]
Target = Annotated[str | None, typer.Option("--target", help="column of the output, by number or name")]
AlignmentColumn = Annotated[str | None, typer.Option("--alignment", help="column of gold links such as '0-0 1-2'")]
Format = Annotated[str | None, typer.Option("--format", help="tsv, csv, jsonl, parquet or parallel; else by name")]
Also = Annotated[list[Path] | None, typer.Option("--also", metavar="DIR", help="another model of an ensemble")]
BeamSize = Annotated[int | None, typer.Option("--beam", min=1, help="beam size")]
Kind = Annotated[str | None, typer.Option("--search", help="greedy, beam or sample; else as the recipe says")]
LengthPenalty = Annotated[float | None, typer.Option("--length-penalty", help="beam: rank by log p / length ** this")]
Temperature = Annotated[float | None, typer.Option("--temperature", help="sample: below 1 is safer")]
TopK = Annotated[int | None, typer.Option("--top-k", help="sample: from the k likeliest tokens")]
TopP = Annotated[float | None, typer.Option("--top-p", help="sample: from the tokens that hold this probability")]
SampleSeed = Annotated[int | None, typer.Option("--seed", help="sample: the same seed, the same draws")]
BlockNgrams = Annotated[int | None, typer.Option("--block-ngrams", help="never repeat a run of so many tokens")]
Device = Annotated[str, typer.Option("--device", help="cpu, cuda, mps ...")]
Json = Annotated[bool, typer.Option("--json", help="print JSON and nothing else")]


def say(text: str) -> None:
    """Tell the user something that is not a result.

    >>> say("")
    """
    if text:
        print(text, file=sys.stderr)


def _columns(source: str | None, target: str | None, alignment: str | None, format: str | None) -> dict[str, Any]:
    given = {"source": source, "target": target, "alignment": alignment, "format": format}
    return {key: value for key, value in given.items() if value is not None}


@app.command()
def train(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[FILE]...", help="training data", show_default=False)
    ] = None,
    task: Annotated[str | None, typer.Option(help=", ".join(TASKS) + "; none: picked from the data")] = None,
    recipe: Annotated[Path | None, typer.Option(help="a recipe file (YAML)")] = None,
    train_files: Annotated[
        list[str] | None, typer.Option("--train", help="training data; again for more files")
    ] = None,
    dev: Annotated[str | None, typer.Option(help="data to choose by; none: a part of the training data")] = None,
    out: Annotated[Path, typer.Option(help="the folder for the model")] = Path("model"),
    set_: Settings = None,
    resume: Annotated[bool, typer.Option("--resume", help="go on with the run in --out")] = False,
    base: Annotated[Path | None, typer.Option("--from", metavar="DIR", help="train this model further")] = None,
    source: Source = None,
    target: Target = None,
    alignment: AlignmentColumn = None,
    format: Format = None,
    strict: Annotated[bool, typer.Option("--strict", help="refuse data that has anything wrong with it")] = False,
    device: Device = "cpu",
    quiet: Annotated[bool, typer.Option("--quiet", help="show no progress")] = False,
) -> None:
    """Train a model: `windlass train pairs.tsv`, or --task and --train and --dev, or --recipe."""
    settings = [setting(text) for text in set_ or []]
    observer: Observer = Silent() if quiet else RichProgress()
    paths = [*(files or []), *(train_files or [])]
    data_over = _columns(source, target, alignment, format) | ({"strict": True} if strict else {})
    if paths:
        data_over["train"] = paths
    if dev is not None:
        data_over["dev"] = dev
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
        data = read_data(composed)
        if not quiet:
            say(data.report.render())
        if not (task or recipe or base):
            composed = pick(composed, data, [setting(text) for text in set_ or []], say)
    started = perf_counter()
    outcome = run(composed, data, out, observer, resume, Bundle.load(base, device) if base else None, device)
    _tell_outcome(outcome, out, perf_counter() - started)


def _tell_outcome(outcome: Outcome, out: Path, seconds: float) -> None:
    fitted = outcome.fitted
    if fitted.reason == "interrupted":
        say(f"stopped and saved; go on with: windlass train --resume --out {shlex.quote(str(out))}")
        raise typer.Exit(130)
    assert outcome.dev is not None
    metrics = "  ".join(f"{name} {value:.2f}" for name, value in outcome.dev.metrics.items())
    cheap = "  ".join(f"{name} {value:.2f}" for name, value in outcome.baseline_metrics.items())
    say(f"done in {duration(seconds)} ({fitted.steps} steps, best at step {fitted.best_step})")
    say(f"dev  {metrics}   [baseline, {outcome.baseline.name}: {cheap}]")
    folder = shlex.quote(str(out))
    example = outcome.dev.predictions[0]
    text = shlex.quote("".join(example.source_tokens[:-1]).replace("▁", " ").strip() or "text")
    say(f"model in {out}; next:")
    say(f"  echo {text} | windlass predict {folder}")
    say(f"  windlass explain {folder} {text} --out attention.png")
    say(f"  windlass evaluate {folder} test.tsv")


def _bundles(folder: Path, also: list[Path] | None, device: str) -> list[Bundle]:
    return [Bundle.load(path, device) for path in (folder, *(also or []))]


def _read(bundle: Bundle, file: str, columns: dict[str, Any]) -> ReadResult:
    """Read data the way the model's own data was read, unless told otherwise, and say what is wrong with it."""
    reading = bundle.recipe.data.model_dump(mode="json", include=set(DataOptions.model_fields))
    result = read(file, DataOptions.model_validate(reading | columns))
    for finding in result.findings[:5]:
        say(str(finding))
    if len(result.findings) > 5:
        say(f"and {len(result.findings) - 5} more; see: windlass doctor {file}")
    return result


@app.command("evaluate")
def evaluate_command(
    folder: Folder,
    file: Annotated[str, typer.Argument(metavar="FILE", help="data with the right answers")],
    json_: Json = False,
    also: Also = None,
    beam: BeamSize = None,
    search: Kind = None,
    length_penalty: LengthPenalty = None,
    block_ngrams: BlockNgrams = None,
    source: Source = None,
    target: Target = None,
    alignment: AlignmentColumn = None,
    format: Format = None,
    device: Device = "cpu",
) -> None:
    """Compare a model's outputs with the right answers, beside a cheap baseline."""
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
    folder: Folder,
    file: Annotated[str, typer.Argument(metavar="[FILE|-]", help="a text file, an input a line; -: stdin")] = "-",
    nbest: Annotated[int, typer.Option(min=1, help="how many outputs for an input, separated by tabs")] = 1,
    json_: Annotated[bool, typer.Option("--json", help="a JSON object a line, with scores and attention")] = False,
    also: Also = None,
    beam: BeamSize = None,
    search: Kind = None,
    length_penalty: LengthPenalty = None,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    seed: SampleSeed = None,
    block_ngrams: BlockNgrams = None,
    device: Device = "cpu",
) -> None:
    """Predict: a line in, a line out, in order; a blank line for a blank line."""
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
    done = 0
    for lines in _chunks(file):
        for prediction in predict(bundles, lines, options, nbest, first_key=done):
            done += 1
            if prediction.unknown and not json_:
                shown = ", ".join(map(repr, prediction.unknown[:5]))
                say(f"line {done}: the model has never seen {shown}")
            print(_line(prediction, json_), flush=sys.stdout.isatty())
    sys.stdout.flush()


def _line(prediction: Prediction, as_json: bool) -> str:
    if as_json:
        return json.dumps(asdict(prediction), ensure_ascii=False)
    texts = [p.text for p in (prediction, *prediction.alternatives)]
    return "\t".join(" ".join(text.split("\n")) for text in texts)


def _chunks(file: str) -> Iterator[list[str]]:
    """The lines of a file in chunks, so that output begins before input ends; one by one from a keyboard."""
    if file == "-":
        yield from _read_chunks(sys.stdin.buffer, "stdin", 1 if sys.stdin.isatty() else 1000)
        return
    with _opened(file) as stream:
        yield from _read_chunks(stream, file, 1000)


def _opened(file: str) -> BinaryIO:
    try:
        return Path(file).open("rb")
    except OSError as error:
        raise DataError(f"{file}: cannot read: {error.strerror}") from None


def _read_chunks(stream: BinaryIO, name: str, size: int) -> Iterator[list[str]]:
    number = 0
    while raw := list(islice(stream, size)):
        lines = []
        for line in raw:
            number += 1
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError:
                text = line.decode("utf-8", errors="replace")
                say(f"{name}:{number}: not valid UTF-8: what cannot be read is taken as unknown")
            lines.append(text.strip())
        yield lines


@app.command("score")
def score_command(
    folder: Folder,
    file: Annotated[str, typer.Argument(metavar="FILE", help="data with inputs and the outputs to score")],
    json_: Annotated[bool, typer.Option("--json", help="a JSON object a line, with attention")] = False,
    source: Source = None,
    target: Target = None,
    format: Format = None,
    device: Device = "cpu",
) -> None:
    """Say how likely given outputs are: a line an example, its log probability and the output."""
    bundle = Bundle.load(folder, device)
    result = _read(bundle, file, _columns(source, target, None, format))
    for prediction in score(bundle, [(e.source, e.target) for e in result.examples]):
        print(_line(prediction, True) if json_ else f"{prediction.score:.4f}\t{prediction.text}")


@app.command("explain")
def explain_command(
    folder: Folder,
    text: Annotated[str, typer.Argument(help="an input")],
    out: Annotated[Path, typer.Option(help="where to: a .png, .html or .json file")],
    target: Annotated[str | None, typer.Option(help="look at this output instead of the model's own")] = None,
    beam: BeamSize = None,
    search: Kind = None,
    device: Device = "cpu",
) -> None:
    """Draw what a model looks at while it writes."""
    bundle = Bundle.load(folder, device)
    found = explain(bundle, text, target, search_options(bundle.recipe.search, kind=search, size=beam))
    draw([found], out)
    say(f"{text} -> {found.text}   (probability {found.confidence:.2f}); written to {out}")


@app.command()
def doctor(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="data files", show_default=False)],
    dev: Annotated[str | None, typer.Option(help="a dev file, to look for what is in both")] = None,
    source: Source = None,
    target: Target = None,
    alignment: AlignmentColumn = None,
    format: Format = None,
    strict: Annotated[bool, typer.Option("--strict", help="fail if anything at all is wrong")] = False,
    limit: Annotated[int, typer.Option(min=0, help="how many findings of a kind to write out")] = 5,
    json_: Json = False,
) -> None:
    """Look for what is wrong with data, before training does."""
    options = DataOptions.model_validate(_columns(source, target, alignment, format))
    report = examine(files, options, dev)
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
    task: Annotated[str | None, typer.Argument(help="print this task's recipe, to be changed and used")] = None,
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
    script: Annotated[str, typer.Option(help=", ".join(SCRIPTS))] = "devanagari",
    minutes: Annotated[float, typer.Option(min=0.1, help="how long to train")] = 3.5,
    out: Annotated[Path, typer.Option(help="the folder for model and pictures")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(min=0)] = 1,
) -> None:
    """Train a place-name transliterator on real names, score it, and draw what it attends to."""
    demonstrate(script, minutes, out, seed, RichProgress())


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
    except KeyboardInterrupt:
        say("stopped")
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output has gone, as in `windlass predict ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
