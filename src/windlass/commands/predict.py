"""The command `predict`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from windlass.commands import flags
from windlass.commands.shared import (
    MAX_NOTES,
    app,
    closed_pipe_is_the_end,
    columns,
    data_options,
    load_bundles,
    never_seen,
    say,
    search_from_flags,
)
from windlass.core.errors import WindlassError, visible

if TYPE_CHECKING:
    from windlass.bundle import Bundle
    from windlass.commands.inputs import Input
    from windlass.core.records import Prediction
    from windlass.data import conll


@app.command("predict")
def predict_command(
    folder: flags.Folder,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="a text file with one input per line, or a table; pictures, clips, sounds, arrays, or a folder of "
            "them; -: stdin",
            show_default="-",
        ),
    ] = None,
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
    source: flags.Source = None,
    second: flags.Second = None,
    format: flags.Format = None,
    header: flags.Header = None,
    separator: flags.Separator = None,
    encoding: flags.Encoding = None,
    device: flags.Device = "auto",
) -> None:
    """Predict an output for every line of input.

    One line out per line or row in, in order and at once; a blank line for a blank input. Of a table (csv, tsv, jsonl,
    parquet) the column that the model was trained on is read, or --source. A pair is two texts separated by a tab. A
    document is a line too: a text, or a JSON list of its sentences. A tagger also takes a CoNLL or CoNLL-U file and
    writes it with its own tags; it splits plain text into words and writes word/TAG.

    A model of pictures, clips or sounds takes the files themselves, a folder of them, or their names, one per line. An
    input that cannot be read is named on stderr and has a blank line; the exit code is then 1.
    """
    from windlass.commands.inputs import FILES, PORTION, input_options, portions, read_files
    from windlass.data import conll
    from windlass.data.files import STDIN
    from windlass.data.sides import SideOptions
    from windlass.inference.predict import predict

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
    over = columns(source, None, None, format, second, header, separator, encoding)
    files = files or [STDIN]
    shapes = [conll.form(file, format or "auto", SideOptions()) for file in files]
    if any(shapes):
        for file, shape in zip(files, shapes, strict=True):
            if shape is None or bundles[0].task.target != "tags":
                raise WindlassError(f"{files[0]}: CoNLL files are for a model that tags; give this one lines of text")
            _tag_columns(bundles, file, shape, over)
        return
    asked = any(value is not None for value in (source, second, format, header, separator))
    done = unknown = cut = unread = failed = 0
    side, strip = bundles[0].sides.source, bundles[0].task.target != "tags"  # offsets refer to the line as it is
    items = read_files(files, side, input_options(bundles[0], over), asked, say, strip)
    with closed_pipe_is_the_end():
        for part in portions(items, live=STDIN in files, size=FILES if side.extensions else PORTION):
            values = [item.value for item in part]
            for item, prediction in zip(part, predict(bundles, values, options, nbest, first_key=done), strict=True):
                done += 1
                if item.error or prediction.error:
                    failed += 1
                    prediction = replace(prediction, error=item.error or prediction.error)
                    say(str(prediction.error))
                unread += prediction.places.unread > 0
                cut += not prediction.finished
                unknown += bool(prediction.unknown)
                if prediction.unknown and unknown <= MAX_NOTES and not json_:
                    say(f"line {item.line}: {never_seen(prediction.unknown)}")
                print(visible(_line(item, prediction, json_), sys.stdout))
            sys.stdout.flush()
    if unknown > MAX_NOTES and not json_:
        say(f"and {unknown - MAX_NOTES} more lines with symbols that the model has never seen")
    if cut and not json_:
        say(f"{cut} of {done} outputs were cut off at the length limit")
    if unread and not json_:
        say(f"{unread} of {done} documents are longer than the model reads: see `unread` in --json")
    if failed:
        say(f"{failed} of {done} inputs cannot be read")
        raise typer.Exit(1)


def _tag_columns(bundles: list[Bundle], file: str, shape: conll.Form, over: dict[str, Any]) -> None:
    """Write a CoNLL file with the model's tags in their column."""
    from windlass.commands.inputs import PORTION
    from windlass.data import conll
    from windlass.data.findings import Finding, Findings
    from windlass.inference.predict import predict

    findings = Findings(strict=False)
    blocks = conll.blocks(file, shape, data_options(over, bundles[0].recipe), findings)
    with closed_pipe_is_the_end():
        while portion := list(islice(blocks, PORTION)):
            predictions = predict(bundles, [block.words for block in portion])
            for block, prediction in zip(portion, predictions, strict=True):
                if block.rows and not any(block.words):
                    what = f"no word in column {block.word_column + 1}: check the format"
                    findings.add(Finding(file, block.line, "missing column", what, "kept"))
                print(visible("\n".join(block.written(prediction.answer.tokens)) + "\n", sys.stdout))
    for finding in findings.entries[:MAX_NOTES]:
        say(str(finding))


def _line(item: Input, prediction: Prediction, as_json: bool) -> str:
    if as_json:
        return json.dumps({"line": item.line, "input": item.text, **asdict(prediction)}, ensure_ascii=False)
    if prediction.answer.per_place and prediction.places.offsets:  # word/TAG
        words = ["_".join(word.split()) for word in prediction.places.names]
        return " ".join(f"{word}/{tag}" for word, tag in zip(words, prediction.answer.tokens, strict=True))
    texts = [p.text for p in (prediction, *prediction.alternatives)]
    return "\t".join(" ".join(text.split("\n")) for text in texts)
