"""The command `predict`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from itertools import islice
from typing import Annotated

import typer

from windlass.bundle import Bundle
from windlass.commands import flags
from windlass.commands.lines import PORTION, portions
from windlass.commands.shared import MAX_NOTES, app, data_options, load_bundles, never_seen, say, search_from_flags
from windlass.core.errors import WindlassError
from windlass.core.records import Prediction
from windlass.data import conll
from windlass.data.findings import Findings
from windlass.data.sides import SideOptions
from windlass.data.sides.pair import PairSource
from windlass.inference.predict import predict


@app.command("predict")
def predict_command(
    folder: flags.Folder,
    file: Annotated[str, typer.Argument(metavar="FILE", help="a text file, one input per line; -: stdin")] = "-",
    nbest: Annotated[int, typer.Option(metavar="N", min=1, help="outputs per input, separated by tabs")] = 1,
    json_: Annotated[bool, typer.Option("--json", help="a JSON object per line, with scores and attention")] = False,
    also: flags.Also = None,
    beam: flags.BeamSize = None,
    search: flags.Search = None,
    length_penalty: flags.LengthPenalty = None,
    temperature: flags.Temperature = None,
    top_k: flags.TopK = None,
    top_p: flags.TopP = None,
    seed: flags.SampleSeed = None,
    block_ngrams: flags.BlockNgrams = None,
    format: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="for taggers: conll or conllu, read and written; default: by name"),
    ] = None,
    device: flags.Device = "cpu",
) -> None:
    """Predict an output for every line of input.

    One line out per line in, in order; a blank line for a blank line. A pair is two texts separated by a tab. A
    document is a line too: a text, or a JSON list of its sentences. A tagger also takes a CoNLL or CoNLL-U file and
    writes it with its own tags; it splits plain text into words and writes word/TAG.
    """
    bundles = load_bundles(folder, also, device)
    if bundles[0].task.language_model:
        raise WindlassError(
            f"a language model has no input to predict from: use generate {folder} or score {folder} FILE"
        )
    options = search_from_flags(
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
    if options is not None and options.single and nbest > 1:
        raise WindlassError("greedy search finds one output: use --beam or --search sample with --nbest")
    if options is not None and options.width(nbest) > options.width(1):
        raise WindlassError(f"--nbest {nbest} needs a beam at least as wide: add --beam {nbest}")
    shape = conll.form(file, format or "auto", SideOptions())
    if shape is not None:
        if bundles[0].task.target != "tags":
            raise WindlassError(f"{file}: CoNLL files are for a model that tags; give this one lines of text")
        _tag_columns(bundles, file, shape, format)
        return
    if format is not None:
        raise WindlassError(f"--format {format}: predict reads lines of text, or conll and conllu: leave it out")
    done = unknown = cut = unread = 0
    tags = bundles[0].task.target == "tags"  # whose offsets refer to the line as it is
    side = bundles[0].sides.source
    pair = isinstance(side, PairSource)
    for lines in portions(file, bundles[0].recipe.data.max_length * (2 if pair else 1), say, strip=not tags):
        for number, line in enumerate(lines if pair else [], done + 1):
            if line and line.count("\t") != 1:
                raise WindlassError(f"line {number}: a pair is two texts separated by one tab, not {line[:60]!r}")
        texts = [side.from_line(side.options, line) for line in lines]
        for prediction in predict(bundles, texts, options, nbest, first_key=done):
            done += 1
            unread += prediction.places.unread > 0
            cut += not prediction.finished
            unknown += bool(prediction.unknown)
            if prediction.unknown and unknown <= MAX_NOTES and not json_:
                say(f"line {done}: {never_seen(prediction.unknown)}")
            print(_line(prediction, json_), flush=sys.stdout.isatty())
    sys.stdout.flush()
    if unknown > MAX_NOTES and not json_:
        say(f"and {unknown - MAX_NOTES} more lines with symbols that the model has never seen")
    if cut and not json_:
        say(f"{cut} of {done} outputs were cut off at the length limit")
    if unread and not json_:
        say(f"{unread} of {done} documents are longer than the model reads: see `unread` in --json")


def _tag_columns(bundles: list[Bundle], file: str, shape: conll.Form, format: str | None) -> None:
    """Write a CoNLL file with the model's tags in their column."""
    findings = Findings(strict=False)
    options = data_options({} if format is None else {"format": format}, bundles[0].recipe)
    blocks = conll.blocks(file, shape, options, findings)
    while portion := list(islice(blocks, PORTION)):
        predictions = predict(bundles, [block.words for block in portion])
        for block, prediction in zip(portion, predictions, strict=True):
            print("\n".join(block.written(prediction.answer.tokens)) + "\n")
    for finding in findings.entries[:MAX_NOTES]:
        say(str(finding))


def _line(prediction: Prediction, as_json: bool) -> str:
    if as_json:
        return json.dumps(asdict(prediction), ensure_ascii=False)
    if prediction.answer.per_place and prediction.places.offsets:  # word/TAG
        words = ["_".join(word.split()) for word in prediction.places.names]
        return " ".join(f"{word}/{tag}" for word, tag in zip(words, prediction.answer.tokens, strict=True))
    texts = [p.text for p in (prediction, *prediction.alternatives)]
    return "\t".join(" ".join(text.split("\n")) for text in texts)
