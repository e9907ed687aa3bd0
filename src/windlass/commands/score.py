"""The command `score`."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from windlass.commands import flags
from windlass.commands.shared import MAX_NOTES, app, columns, load_bundles, read_file, say
from windlass.core.errors import visible

if TYPE_CHECKING:
    from windlass.bundle import Bundle
    from windlass.data.examples import Example


@app.command("score")
def score_command(
    folder: flags.Folder,
    file: Annotated[str, typer.Argument(metavar="FILE", help="data with inputs and the outputs to score; -: stdin")],
    json_: Annotated[bool, typer.Option("--json", help="a JSON object per example, with attention")] = False,
    source: flags.Source = None,
    target: flags.Target = None,
    second: flags.Second = None,
    format: flags.Format = None,
    header: flags.Header = None,
    separator: flags.Separator = None,
    encoding: flags.Encoding = None,
    device: flags.Device = "auto",
) -> None:
    """Score given outputs by their log probability.

    One line per example: its log probability and the output.
    """
    from windlass.inference.predict import score

    (bundle,) = load_bundles(folder, None, device)
    examples = read_file(
        bundle, file, columns(source, target, None, format, second, header, separator, encoding)
    ).examples
    if bundle.task.language_model:
        _score_texts(bundle, examples, json_)
        return
    unfit, unknown = list[str](), list[str]()
    for example, prediction in zip(examples, score(bundle, [(e.source, e.target) for e in examples]), strict=True):
        impossible = prediction.score == -math.inf
        if json_:
            content = asdict(prediction) | {"text": example.target} | ({"score": None} if impossible else {})
            print(json.dumps(content, ensure_ascii=False))
        else:
            print(visible(f"{prediction.score:.4f}\t{example.target}", sys.stdout))
        if impossible:
            unfit.append(
                f"{example.place}: the output has more tokens than its input has frames, which CTC cannot write"
            )
        copied = bundle.sides.copied(bundle.sides.read(example.source))
        if never := [symbol for symbol in bundle.sides.target.unknown(example.target) if symbol not in copied]:
            unknown.append(f"{example.place}: {_never_written(never)}")
    sys.stdout.flush()
    _note(unfit, "outputs that CTC cannot write")
    _note(unknown, "outputs with symbols that the model never writes")


def _never_written(symbols: Sequence[str]) -> str:
    more = " ..." if len(symbols) > MAX_NOTES else ""
    return f"the model never writes {', '.join(map(repr, symbols[:MAX_NOTES]))}{more}: read as unknown"


def _note(notes: Sequence[str], what: str) -> None:
    """Say the first of some notes, and how many more there are."""
    for note in notes[:MAX_NOTES]:
        say(note)
    if len(notes) > MAX_NOTES:
        say(f"and {len(notes) - MAX_NOTES} more {what}")


def _score_texts(bundle: Bundle, examples: Sequence[Example], json_: bool) -> None:
    """Print the log probability of every text or, as JSON, of every token."""
    from windlass.inference.likelihood import score_texts

    unknown = []
    for example, scored in zip(examples, score_texts(bundle, [e.target for e in examples]), strict=True):
        if json_:
            content = {
                "text": scored.text,
                "logprob": scored.score,
                "tokens": scored.answer.tokens,
                "probabilities": scored.answer.probabilities,
                "unknown": scored.unknown,
            }
            print(json.dumps(content, ensure_ascii=False))
        else:
            begin = " ".join(scored.text[:60].split())
            line = f"{scored.score:.4f}\t{len(scored.answer.probabilities)} tokens\t{example.place}\t{begin}"
            print(visible(line, sys.stdout))
        if scored.unknown:
            unknown.append(f"{example.place}: {_never_written(scored.unknown)}")
    sys.stdout.flush()
    _note(unknown, "texts with symbols that the model never writes")
