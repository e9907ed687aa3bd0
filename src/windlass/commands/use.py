"""Commands that use a model: evaluate, predict, score, explain."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from textwrap import shorten
from time import perf_counter
from typing import Annotated, Any

import typer

from windlass.baseline import load_baseline
from windlass.bundle import Bundle
from windlass.commands import flags
from windlass.commands.language import tell_evaluation, tell_scores
from windlass.commands.lines import SIZE, portions
from windlass.commands.shared import NOTES, app, columns, load_bundles, read_for, reading, say, search_for
from windlass.core.errors import WindlassError
from windlass.core.records import Prediction
from windlass.data import conll
from windlass.data.examples import Value
from windlass.data.findings import Findings
from windlass.data.sides import SideOptions
from windlass.data.sides.document import DocumentSource
from windlass.data.sides.pair import PairSource
from windlass.experiment.run import baseline_metrics
from windlass.explain.attention import draw, explain, self_attention
from windlass.explain.confusion import draw_confusion
from windlass.explain.render import sheet
from windlass.inference.evaluate import alignment_figures, evaluate
from windlass.inference.predict import predict, score
from windlass.metrics.text import signatures


@app.command("evaluate")
def evaluate_command(
    folder: flags.Folder,
    file: Annotated[str, typer.Argument(metavar="FILE", help="data with the right answers")],
    json_: flags.Json = False,
    confusion: Annotated[
        Path | None, typer.Option(metavar="FILE", help="of labels or tags: draw which is taken for which, as .png")
    ] = None,
    also: flags.Also = None,
    beam: flags.BeamSize = None,
    search: flags.Kind = None,
    length_penalty: flags.LengthPenalty = None,
    block_ngrams: flags.BlockNgrams = None,
    source: flags.Source = None,
    target: flags.Target = None,
    second: flags.Second = None,
    alignment: flags.AlignmentColumn = None,
    format: flags.Format = None,
    rows: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="language model: read a text in so many rows at once, which is quicker"),
    ] = None,
    device: flags.Device = "cpu",
) -> None:
    """Score a model on data with right answers.

    Figures are given as papers print them, beside those of a cheap baseline.
    """
    started = perf_counter()
    bundles = load_bundles(folder, also, device)
    first = bundles[0]
    if first.task.language_model:
        if confusion is not None or any(given is not None for given in (beam, search, length_penalty, block_ngrams)):
            raise WindlassError(
                "a language model is scored: it has no search and no confusions; leave these options out"
            )
        examples = read_for(first, file, columns(source, target, alignment, format, second)).examples
        tell_evaluation(folder, bundles, examples, rows or 1, json_)
        return
    options = search_for(first, search, size=beam, length_penalty=length_penalty, block_ngrams=block_ngrams)
    if rows is not None:
        raise WindlassError("--rows is for a language model, which reads a text in rows side by side")
    if confusion is not None and first.task.target not in ("label", "tags"):
        raise WindlassError("--confusion is for a model that gives labels or tags, and this one writes text")
    result = read_for(first, file, columns(source, target, alignment, format, second))
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
        "unread": sum(p.places.unread > 0 for p in found.predictions),
        "seconds": round(perf_counter() - started, 2),
        "search": None if options is None else options.model_dump(mode="json"),
        "models": [str(path) for path in (folder, *(also or []))],
    }
    if "bleu" in found.metrics:
        references = [e.targets for e in result.examples]
        content["signatures"] = signatures([p.text for p in found.predictions], references)
    if confusion is not None:
        draw_confusion([p.text for p in found.predictions], [e.targets for e in result.examples], confusion)
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
    if content["unread"]:
        said += f"; {content['unread']} longer than the model reads"
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
    format: Annotated[
        str | None, typer.Option(metavar="NAME", help="of a tagger: conll or conllu, read and written; else by name")
    ] = None,
    device: flags.Device = "cpu",
) -> None:
    """Write an output for every line of input.

    A line in, a line out, in order; a blank line for a blank line. A pair is two texts with a tab between them. A
    document is a line too: a text, or a JSON list of its sentences. A tagger also takes a CoNLL or CoNLL-U file, and
    writes it with its own tags; of a text that is not cut into words it cuts them, and writes word/TAG.
    """
    bundles = load_bundles(folder, also, device)
    if bundles[0].task.language_model:
        raise WindlassError(
            f"a language model has nothing to predict from: use generate {folder} or score {folder} FILE"
        )
    options = search_for(
        bundles[0],
        search,
        size=beam,
        length_penalty=length_penalty,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=seed,
        block_ngrams=block_ngrams,
    )
    if options is not None and options.kind == "greedy" and nbest > 1:
        raise WindlassError("greedy search finds one output: use --beam or --search sample for --nbest")
    if options is not None and options.kind == "beam" and nbest > options.size:
        raise WindlassError(f"--nbest {nbest} needs a beam at least as wide: add --beam {nbest}")
    shape = conll.form(file, format or "auto", SideOptions())
    if shape is not None:
        if bundles[0].task.target != "tags":
            raise WindlassError(f"{file}: columns of words are for a model that tags, and this one does not")
        _tag_columns(bundles, file, shape, format)
        return
    if format is not None:
        raise WindlassError(f"--format {format}: what is predicted for is lines of text, or columns (conll, conllu)")
    done = unknown = cut = longer = 0
    tags = bundles[0].task.target == "tags"  # which are on the characters of the line
    side = bundles[0].sides.source
    pair = isinstance(side, PairSource)
    for lines in portions(file, bundles[0].recipe.data.max_length * (2 if pair else 1), say, as_is=tags):
        for number, line in enumerate(lines if pair else [], done + 1):
            if line and line.count("\t") != 1:
                raise WindlassError(f"line {number}: a pair is two texts with one tab between them, not {line[:60]!r}")
        texts = [side.from_line(side.options, line) for line in lines]
        for prediction in predict(bundles, texts, options, nbest, first_key=done):
            done += 1
            longer += prediction.places.unread > 0
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
    if longer and not json_:
        say(f"{longer} of {done} documents are longer than the model reads: see `unread` in --json")


def _tag_columns(bundles: list[Bundle], file: str, shape: conll.Form, format: str | None) -> None:
    """Write a file of columns again, with the model's tags in their column."""
    found = Findings(strict=False)
    options = reading({} if format is None else {"format": format}, bundles[0].recipe)
    blocks = conll.blocks(file, shape, options, found)
    while portion := list(islice(blocks, SIZE)):
        predictions = predict(bundles, [block.words for block in portion])
        for block, prediction in zip(portion, predictions, strict=True):
            print("\n".join(block.written(prediction.answer.tokens)) + "\n")
    for finding in found.entries[:NOTES]:
        say(str(finding))


def _never_seen(prediction: Prediction) -> str:
    more = " ..." if len(prediction.unknown) > 5 else ""
    return f"the model has never seen {', '.join(map(repr, prediction.unknown[:5]))}{more}"


def _line(prediction: Prediction, as_json: bool) -> str:
    if as_json:
        return json.dumps(asdict(prediction), ensure_ascii=False)
    if prediction.answer.per_place and prediction.places.offsets:  # tags, each behind its word
        words = ["_".join(word.split()) for word in prediction.places.names]
        return " ".join(f"{word}/{tag}" for word, tag in zip(words, prediction.answer.tokens, strict=True))
    texts = [p.text for p in (prediction, *prediction.alternatives)]
    return "\t".join(" ".join(text.split("\n")) for text in texts)


@app.command("score")
def score_command(
    folder: flags.Folder,
    file: Annotated[str, typer.Argument(metavar="FILE", help="data with inputs and the outputs to score")],
    json_: Annotated[bool, typer.Option("--json", help="a JSON object a line, with attention")] = False,
    source: flags.Source = None,
    target: flags.Target = None,
    second: flags.Second = None,
    format: flags.Format = None,
    device: flags.Device = "cpu",
) -> None:
    """Say how likely given outputs are.

    A line an example: its log probability and the output.
    """
    bundle = Bundle.load(folder, device)
    result = read_for(bundle, file, columns(source, target, None, format, second))
    if bundle.task.language_model:
        tell_scores(bundle, result.examples, json_)
        return
    for prediction in score(bundle, [(e.source, e.target) for e in result.examples]):
        print(_line(prediction, True) if json_ else f"{prediction.score:.4f}\t{prediction.text}")


@app.command("explain")
def explain_command(
    folder: flags.Folder,
    text: Annotated[
        str,
        typer.Argument(metavar="TEXT", help="an input; where documents are read, also a file that holds one"),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="where to: a .png, .html or .json file")],
    second: Annotated[str | None, typer.Option(metavar="TEXT", help="of a pair: its second text")] = None,
    target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="look at this output instead of the model's own")
    ] = None,
    beam: flags.BeamSize = None,
    search: flags.Kind = None,
    inside: Annotated[
        bool, typer.Option("--self-attention", help="draw what the places of the input look at inside the encoder")
    ] = False,
    device: flags.Device = "cpu",
) -> None:
    """Draw what a model looks at, or what counted for it.

    Of a document, a page (.html) or picture with every sentence shaded by its weight, and words by theirs.
    """
    bundle = Bundle.load(folder, device)
    if inside:
        if any(given is not None for given in (second, target, beam, search)):
            raise WindlassError("--self-attention is of the input alone: leave --second, --target and the search out")
        sheet(self_attention(bundle, text), out)
        say(f"written to {out}")
        return
    if bundle.task.language_model:
        raise WindlassError("a language model has no source to look at: see the probability of every token with score")
    told = search is not None or beam is not None
    options = search_for(bundle, search, size=beam) if told else None
    if second is not None and not isinstance(bundle.sides.source, PairSource):
        raise WindlassError("--second is for a model that judges pairs, and this one reads one text")
    source: Value = text if second is None else (text, second)
    if isinstance(side := bundle.sides.source, DocumentSource):
        source = side.from_line(side.options, _file_or_text(text))
        text = shorten(text, 60)
    found = explain(bundle, source, target, options)
    if found.places.unread:
        unread = f"{found.places.unread:,} words"
        say(f"the model does not read the last {unread} of it, or what is too long in its sentences")
    if found.unknown:
        say(_never_seen(found))
    if target is not None and (new := bundle.sides.target.unknown(target)):
        say(f"the model never writes {', '.join(map(repr, new[:5]))}: taken as unknown")
    draw([found], out)
    sure = "" if found.confidence is None else f"   (probability {found.confidence:.2f})"
    say(f"{text} -> {found.text}{sure}; written to {out}")


def _file_or_text(text: str) -> str:
    """What a file holds, where there is one of this name; else the text itself."""
    try:
        if not Path(text).is_file():
            return text
    except (OSError, ValueError):  # too long to be a name
        return text
    try:
        return Path(text).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WindlassError(f"{text}: cannot read it as UTF-8 text: {error}") from None
