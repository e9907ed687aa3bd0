"""The command `explain`."""

from __future__ import annotations

from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated

import typer

from windlass.commands import flags
from windlass.commands.shared import app, load_bundles, never_seen, say, search_from_flags
from windlass.core.errors import WindlassError

if TYPE_CHECKING:
    from windlass.data.examples import Value


@app.command("explain")
def explain_command(
    folder: flags.Folder,
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT",
            help="an input: a text, or the file of a picture, clip or sound; for models of documents, also a file that "
            "holds one",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="output file: .png, .html or .json")],
    second: Annotated[
        str | None, typer.Option(metavar="TEXT", help="second text of a pair, or the question about a picture")
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="explain this output instead of the model's own")
    ] = None,
    beam: flags.BeamSize = None,
    search: flags.Search = None,
    inside: Annotated[
        bool, typer.Option("--self-attention", help="draw the self-attention of the encoder instead")
    ] = False,
    device: flags.Device = "auto",
) -> None:
    """Draw what a model attends to.

    For a document, a page (.html) or picture with sentences and words shaded by their weights.
    """
    from windlass.data.sides.document import DocumentSource
    from windlass.explain.attention import draw, explain, self_attention, shown
    from windlass.explain.render import sheet

    (bundle,) = load_bundles(folder, None, device)
    if inside:
        if any(option is not None for option in (second, target, beam, search)):
            raise WindlassError("--self-attention needs the input alone: leave out --second, --target and the search")
        sheet(self_attention(bundle, text), out)
        say(f"written to {out}")
        return
    if bundle.task.language_model:
        raise WindlassError(f"a language model has no source to attend to: use score {folder} FILE --json")
    options = None if search is None and beam is None else search_from_flags(bundle, search, size=beam)
    if second is not None and bundle.sides.source.texts < 2:
        raise WindlassError("--second is for a model of pairs, and this one reads one text: leave it out")
    source: Value = text if second is None else (text, second)
    if isinstance(side := bundle.sides.source, DocumentSource):
        source = side.from_line(side.options, _file_or_text(text))
        text = shorten(text, 60)
    prediction = explain(bundle, source, target, options)
    if prediction.places.unread:
        say(
            f"{prediction.places.unread:,} words are not read: the document or its sentences are too long for the model"
        )
    if prediction.unknown:
        say(never_seen(prediction.unknown))
    if target is not None and (unknown := bundle.sides.target.unknown(target)):
        say(f"the model never writes {', '.join(map(repr, unknown[:5]))}: read as unknown")
    draw([prediction], out, over=[shown(bundle, source)])
    chance = prediction.confidence
    confidence = "" if chance is None else f"   (probability {chance:{'.2f' if chance >= 0.005 else '.1g'}})"
    say(f"{text} -> {prediction.text}{confidence}; written to {out}")


def _file_or_text(text: str) -> str:
    """The content of the file of this name, if there is one, or the text itself."""
    try:
        if not Path(text).is_file():
            return text
    except (OSError, ValueError):  # too long for a file name
        return text
    try:
        return Path(text).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WindlassError(f"{text}: cannot read it as UTF-8 text: {error}") from None
