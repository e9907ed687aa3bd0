"""The command `evaluate`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from windlass.commands import flags
from windlass.commands.shared import app, columns, load_bundles, read_file, rounded, say, searches_from_flags
from windlass.core.errors import WindlassError

if TYPE_CHECKING:
    from windlass.baseline.verdict import Verdict
    from windlass.bundle import Bundle
    from windlass.data.examples import Example


@app.command("evaluate")
def evaluate_command(
    folder: flags.Folder,
    file: Annotated[str, typer.Argument(metavar="FILE", help="test data with references, file or folder; -: stdin")],
    json_: flags.Json = False,
    confusion: Annotated[
        Path | None, typer.Option(metavar="FILE", help="for labels and tags: draw the confusion matrix as .png")
    ] = None,
    mistakes: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="write the outputs that match no reference, the surest first: .tsv or .csv"),
    ] = None,
    also: flags.Also = None,
    beam: flags.BeamSize = None,
    search: flags.Search = None,
    length_penalty: flags.LengthPenalty = None,
    block_ngrams: flags.BlockNgrams = None,
    source: flags.Source = None,
    target: flags.Target = None,
    second: flags.Second = None,
    alignment: flags.AlignmentColumn = None,
    format: flags.Format = None,
    header: flags.Header = None,
    separator: flags.Separator = None,
    encoding: flags.Encoding = None,
    rows: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="language model: split the text into N rows, which is faster")
    ] = None,
    dynamic: Annotated[
        float | None,
        typer.Option(
            metavar="RATE",
            min=1e-9,
            max=1,
            help="language model: learn from the text that was scored, at this rate, such as 0.0003",
        ),
    ] = None,
    attention: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="compare attention with leave-one-out importance on N examples"),
    ] = None,
    device: flags.Device = "auto",
) -> None:
    """Evaluate a model on test data.

    Prints the metrics of its task, beside those of a baseline; for labels and tags, also those of every label.
    """
    from windlass.baseline import load_baseline
    from windlass.baseline.verdict import advise, judge
    from windlass.commands.tables import labels_table, metrics_table
    from windlass.core.wording import counted
    from windlass.experiment.baselines import baseline_metrics
    from windlass.experiment.data import prepare_sources, trained_on
    from windlass.explain.confusion import draw_confusion
    from windlass.inference.evaluate import alignment_metrics, evaluate
    from windlass.inference.importance import attention_report
    from windlass.inference.mistakes import MATCHES, write_mistakes
    from windlass.metrics.per_label import KINDS, label_scores
    from windlass.metrics.text import signatures

    started = perf_counter()
    bundles = load_bundles(folder, also, device)
    first = bundles[0]
    over = columns(source, target, alignment, format, second, header, separator, encoding)
    if first.task.language_model:
        if attention is not None:
            raise WindlassError("--attention is for models that read a source: a language model has none")
        if mistakes is not None:
            raise WindlassError("--mistakes is for models that predict: a language model is evaluated by likelihood")
        if confusion is not None or any(flag is not None for flag in (beam, search, length_penalty, block_ngrams)):
            raise WindlassError(
                "a language model is evaluated by likelihood, with no search and no confusion matrix: leave these "
                "options out"
            )
        if dynamic is not None and rows is not None:
            raise WindlassError("--dynamic reads the text in one row: leave out --rows")
        _evaluate_texts(folder, bundles, read_file(first, file, over).examples, rows or 1, dynamic, json_)
        return
    folders = [folder, *(also or [])]
    options = searches_from_flags(
        folders, bundles, search, size=beam, length_penalty=length_penalty, block_ngrams=block_ngrams
    )
    for name, flag in {"--rows": rows, "--dynamic": dynamic}.items():
        if flag is not None:
            raise WindlassError(f"{name} is for a language model: leave it out")
    if confusion is not None and first.task.target not in ("label", "tags"):
        kind = {"tree": "trees", "number": "numbers"}.get(first.task.target, first.task.target)
        raise WindlassError(f"--confusion is for labels and tags, and this model predicts {kind}")
    if mistakes is not None and MATCHES.get(first.task.target, ...) is None:
        raise WindlassError("--mistakes is for outputs that are right or wrong, and this model predicts numbers")
    examples = read_file(first, file, over).examples
    known = trained_on(folder, examples, first.recipe)
    bundles, examples = prepare_sources(bundles, examples, say)
    first = bundles[0]
    baseline = load_baseline(folder, first.sides.source)
    result = evaluate(bundles, examples, options)
    metrics = dict(result.metrics)
    beside = {} if baseline is None else baseline_metrics(baseline, first.recipe.task, examples)
    if any(e.alignment for e in examples):
        aligned, diagonal = alignment_metrics(first, examples)
        metrics |= aligned
        beside |= diagonal
    looked = None if attention is None else attention_report(first, examples, attention)
    name = baseline.name if baseline else ""
    verdict = judge(first, result, beside, name)
    outputs, references = [p.text for p in result.predictions], [e.targets for e in examples]
    content: dict[str, Any] = {
        "metrics": rounded(metrics),
        "baseline": rounded(beside),
        "baseline_name": baseline.name if baseline else None,
        **_standing(verdict),
        "examples": result.examples,
        "unknown": sum(bool(p.unknown) for p in result.predictions),
        "unknown_labels": None if result.unknown is None else asdict(result.unknown),
        "trained_on": known,
        "unread": sum(p.places.unread > 0 for p in result.predictions),
        "seconds": round(perf_counter() - started, 2),
        "search": None if options is None else options[0].model_dump(mode="json"),
        "searches": None if options is None else [own.model_dump(mode="json") for own in options],
        "models": [str(path) for path in folders],
    }
    labels = label_scores(first.task.target, outputs, references) if first.task.target in KINDS else {}
    if labels:
        content["labels"] = {label: rounded(asdict(scores)) for label, scores in labels.items()}
    if "bleu" in result.metrics:
        content["signatures"] = signatures(outputs, references)
    if looked is not None:
        content["attention"] = rounded(asdict(looked))
    if confusion is not None:
        draw_confusion(outputs, references, confusion)
        say(f"confusion matrix: {confusion}")
    if mistakes is not None:
        write_mistakes(result.mistakes, mistakes)
        say(f"{len(result.mistakes):,} of {result.examples:,} outputs match no reference: {mistakes}")
    if json_:
        print(json.dumps(content, ensure_ascii=False))
        return
    for line in metrics_table(metrics, beside):
        print(line)
    summary = f"{counted(result.examples, 'example')}, {content['seconds']} s"
    if baseline is not None:
        summary += f"; baseline: {baseline.name}"
    if content["unknown"]:
        summary += f"; {content['unknown']} with symbols the model has never seen"
    if content["unread"]:
        summary += f"; {content['unread']} longer than the model reads"
    print(summary)
    if known:
        print("the model was trained on these very examples: the scores do not tell how it does on new ones")
    if result.unknown is not None:
        print(result.unknown.sentence())
    if looked is not None:
        print(looked.sentence())
    if verdict is not None and verdict.standing != "better":
        strange = f"{content['unknown']} of {counted(result.examples, 'example')} have symbols it has never seen"
        other = f"inputs like those it was trained on, or another column (--source): {strange}"
        print(verdict.sentence([other] if content["unknown"] > result.examples / 2 else advise(folder, first)))
    for name, text in content.get("signatures", {}).items():
        print(f"{name}: {text}")
    for line in labels_table(labels):
        print(line)


def _standing(verdict: Verdict | None) -> dict[str, Any]:
    """How the model compares with its baseline, for JSON."""
    if verdict is None:
        return {"below_baseline": None, "standing": None}
    return {"below_baseline": verdict.standing == "worse", "standing": verdict.standing}


def _evaluate_texts(
    folder: Path, bundles: list[Bundle], examples: Sequence[Example], rows: int, dynamic: float | None, json_: bool
) -> None:
    """Print the likelihood of texts under a language model, beside its baselines."""
    from windlass.baseline.language import LanguageBaselines, language_metrics
    from windlass.baseline.verdict import advise, judge
    from windlass.commands.tables import table
    from windlass.core.marks import UNK
    from windlass.inference.evaluate import evaluate
    from windlass.inference.likelihood import encode_texts
    from windlass.metrics.likelihood import format_metric

    started = perf_counter()
    result = evaluate(bundles, examples, rows=rows, dynamic=dynamic)
    first, texts = bundles[0], [e.target for e in examples]
    baselines = LanguageBaselines.load(folder)
    beside = {} if baselines is None else language_metrics(baselines, first, texts)
    name = "" if baselines is None else baselines.name
    best = judge(first, result, beside.get(name, {}), name)
    ids = [n for own in encode_texts(first.sides, texts, first.recipe.train.chunk is not None) for n in own]
    content: dict[str, Any] = {
        "metrics": rounded(result.metrics),
        "baselines": {name: rounded(metrics) for name, metrics in beside.items()},
        **_standing(best),
        "texts": result.examples,
        "tokens": len(ids),
        "unknown": ids.count(UNK),
        "seconds": round(perf_counter() - started, 2),
        "rows": rows,
        "dynamic": dynamic,
    }
    if json_:
        print(json.dumps(content, ensure_ascii=False))
        return
    each = {"model" if dynamic is None else "model, dynamic": result.metrics, **beside}
    cells = [[name, *(format_metric(*item) for item in scores.items())] for name, scores in each.items()]
    for line in table(["", *result.metrics], cells):
        print(line)
    ends = ", line ends included" if first.recipe.train.chunk is None else ""
    print(f"{len(ids):,} tokens{ends}, {ids.count(UNK):,} of them unknown; {content['seconds']} s")
    if best is not None and best.standing != "better":
        unknown = content["unknown"]
        if dynamic is not None:
            advice = [f"a lower rate (--dynamic {dynamic / 10:g})"]
        elif unknown > len(ids) / 20:
            advice = [f"a model of text like this: {unknown / len(ids):.0%} of its tokens are unknown to this one"]
        else:
            advice = advise(folder, first)
        print(best.sentence(advice))
