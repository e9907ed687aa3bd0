"""The command `score`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from windlass.commands import flags
from windlass.commands.shared import app, columns, load_bundles, read_file
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
    for prediction in score(bundle, [(e.source, e.target) for e in examples]):
        if json_:
            print(json.dumps(asdict(prediction), ensure_ascii=False))
        else:
            print(visible(f"{prediction.score:.4f}\t{prediction.text}", sys.stdout))


def _score_texts(bundle: Bundle, examples: Sequence[Example], json_: bool) -> None:
    """Print the log probability of every text or, as JSON, of every token."""
    from windlass.inference.likelihood import score_texts

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
    sys.stdout.flush()
