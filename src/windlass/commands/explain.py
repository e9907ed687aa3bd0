"""The command `explain`."""

from __future__ import annotations

from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, cast

import typer

from windlass.commands import flags
from windlass.commands.shared import app, load_bundles, never_seen, say, search_from_flags
from windlass.core.errors import WindlassError

if TYPE_CHECKING:
    from windlass.bundle import Bundle
    from windlass.data.examples import Value
    from windlass.decoding.options import Beam, SearchOptions
    from windlass.explain.saliency import Method


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
    out: Annotated[Path, typer.Option(metavar="FILE", help="output file: .png, .svg, .html or .json")],
    second: Annotated[
        str | None, typer.Option(metavar="TEXT", help="second text of a pair, or the question about a picture")
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="explain this output instead of the model's own")
    ] = None,
    beam: flags.BeamSize = None,
    search: flags.Search = None,
    inside: Annotated[
        bool, typer.Option("--self-attention", help="draw the self-attention of encoder and decoder instead")
    ] = False,
    gates: Annotated[
        bool, typer.Option("--gates", help="draw states and gates of recurrent units over the text instead")
    ] = False,
    units: Annotated[
        str | None, typer.Option(metavar="N,N", help="gates: of these units; default: those that vary most")
    ] = None,
    layer: Annotated[str | None, typer.Option(metavar="NAME", help="gates: of this layer, such as 'encoder 1'")] = None,
    by: Annotated[
        str | None,
        typer.Option(
            "--saliency", metavar="NAME", help="integrated or gradient: draw what the output rests on, by gradients"
        ),
    ] = None,
    tree: Annotated[bool, typer.Option("--tree", help="draw the tree of the beam search instead")] = False,
    replace: Annotated[
        str | None,
        typer.Option(
            metavar="OLD=NEW", help="what if: beside it, with OLD replaced by NEW wherever it is in the input"
        ),
    ] = None,
    prefix: Annotated[
        str | None, typer.Option(metavar="TEXT", help="what if: beside it, an output that begins with this text")
    ] = None,
    impose: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="what if: beside it, with this attention, a row per output token: .json, .csv, .npy"
        ),
    ] = None,
    device: flags.Device = "auto",
) -> None:
    """Draw what a model attends to, rests on, or does inside.

    For a document, a page (.html) or picture with sentences and words shaded by their weights. A model without
    attention is explained by integrated gradients.
    """
    from windlass.data.sides.document import DocumentSource
    from windlass.explain.attention import draw, explain, shown
    from windlass.explain.beam import beam_tree, draw_beam
    from windlass.explain.coloured import draw_rows
    from windlass.explain.gates import gate_rows, traces
    from windlass.explain.render import check_suffix, sheet
    from windlass.explain.saliency import attends, draw_saliency, saliency
    from windlass.explain.selfattention import self_attention
    from windlass.nn.recurrence import Stack

    (bundle,) = load_bundles(folder, None, device)
    check_suffix(out)
    what_ifs = {"--replace": replace, "--prefix": prefix, "--impose": impose}
    changes = [name for name, value in what_ifs.items() if value is not None]
    modes = {"--self-attention": inside, "--gates": gates, "--saliency": by is not None, "--tree": tree}
    chosen = [name for name, on in modes.items() if on]
    if len(chosen) > 1 or (chosen and set(changes) - ({"--prefix"} if tree else set())):
        raise WindlassError(f"{' and '.join((chosen + changes)[:2])} are two pictures: ask for one at a time")
    if (tree or changes) and target is not None:
        raise WindlassError(f"{(chosen + changes)[0]} shows what the model writes: leave --target out")
    if chosen and not tree and not (beam is None and search is None):
        raise WindlassError(f"{chosen[0]} needs no search: leave --beam and --search out, or give a --target")
    if not gates and not (units is None and layer is None):
        raise WindlassError("--units and --layer choose what --gates draws: add --gates, or leave them out")
    if second is not None and bundle.sides.source.texts < 2:
        raise WindlassError("--second is for a model of pairs, and this one reads one text: leave it out")
    source: Value = text if second is None else (text, second)
    if isinstance(side := bundle.sides.source, DocumentSource):
        source = side.from_line(side.options, _file_or_text(text))
        text = shorten(text, 60)
    if inside:
        sheet(self_attention(bundle, source, target), out)
    elif gates:
        draw_rows(gate_rows(traces(bundle, source, target), _numbers(units), layer), out, shorten(text, 90))
    elif by is not None:
        if by not in ("integrated", "gradient"):
            raise WindlassError(f"--saliency {by}: say integrated or gradient")
        draw_saliency(saliency(bundle, source, target, cast("Method", by)), out, shown(bundle, source))
    elif tree:
        options = search_from_flags(bundle, "beam" if bundle.sides.target.written else None, size=beam)
        draw_beam(beam_tree(bundle, source, cast("Beam | None", options), prefix or ""), out)
    elif changes:
        _what_if(bundle, source, replace, prefix, impose, search_from_flags(bundle, search, size=beam), out)
    if chosen or changes:
        say(f"written to {out}")
        return
    if bundle.task.language_model:
        recurrent = any(isinstance(module, Stack) for module in bundle.model.modules())
        raise WindlassError(
            f"a language model has no source to attend to: use {'--gates' if recurrent else '--self-attention'} or "
            f"--saliency integrated, or windlass score {folder} FILE --json"
        )
    options = None if search is None and beam is None else search_from_flags(bundle, search, size=beam)
    prediction = explain(bundle, source, target, options)
    if prediction.places.unread:
        say(
            f"{prediction.places.unread:,} words are not read: the document or its sentences are too long for the model"
        )
    if prediction.unknown:
        say(never_seen(prediction.unknown))
    if target is not None and (unknown := bundle.sides.target.unknown(target)):
        say(f"the model never writes {', '.join(map(repr, unknown[:5]))}: read as unknown")
    if attends(prediction) or out.suffix.lower() == ".json":
        draw([prediction], out, over=[shown(bundle, source)])
    else:
        say("this model has no attention: drawn are integrated gradients")
        given = target if target is not None or not prediction.answer.written else prediction.text.strip() or None
        draw_saliency(saliency(bundle, source, given), out, shown(bundle, source))
    chance = prediction.confidence
    confidence = "" if chance is None else f"   (probability {chance:{'.2f' if chance >= 0.005 else '.1g'}})"
    say(f"{text} -> {prediction.text}{confidence}; written to {out}")


def _what_if(
    bundle: Bundle,
    source: Value,
    replace: str | None,
    prefix: str | None,
    impose: Path | None,
    search: SearchOptions | None,
    out: Path,
) -> None:
    """Draw the prediction beside the one with what is changed, and print both."""
    from windlass.explain.what_if import draw_what_if, read_matrix, what_if

    instead: Value | None = None
    if replace is not None:
        old, equals, new = replace.partition("=")
        if not old or not equals:
            raise WindlassError(f"--replace {replace}: say what is replaced by what, such as dog=cat")
        texts = source if isinstance(source, tuple) else (source,)
        if not all(isinstance(text, str) for text in texts):
            raise WindlassError("--replace changes a text, and this model reads none, or sentences: leave it out")
        if not any(old in text for text in texts):
            raise WindlassError(f"--replace {replace}: there is no {old!r} in the input")
        changed = tuple(text.replace(old, new) for text in texts)
        instead = changed if isinstance(source, tuple) else changed[0]
    before, after = what_if(
        bundle, source, instead, prefix or "", None if impose is None else read_matrix(impose), search
    )
    given = {"replace": replace, "prefix": prefix, "impose": impose}
    change = ", ".join(f"{name} {value}" for name, value in given.items() if value is not None)
    draw_what_if(bundle, [source, source if instead is None else instead], (before, after), out, ("as it is", change))
    for name, prediction in (("as it is", before), (change, after)):
        chance = "" if prediction.confidence is None else f"   (probability {prediction.confidence:.2g})"
        say(f"{name}: {prediction.text}{chance}")


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


def _numbers(units: str | None) -> list[int]:
    """Units from a list such as 3,17."""
    try:
        return [] if units is None else [int(unit) for unit in units.split(",")]
    except ValueError:
        raise WindlassError(f"--units {units}: give numbers with commas between, such as 3,17") from None
