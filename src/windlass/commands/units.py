"""The command `units`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from windlass.commands import flags
from windlass.commands.shared import app, columns, load_bundles, read_file, say


@app.command("units")
def units_command(
    folder: flags.Folder,
    file: Annotated[str, typer.Argument(metavar="FILE", help="data as the model was trained on, or inputs; -: stdin")],
    best: Annotated[int, typer.Option(metavar="N", min=1, help="units per event")] = 1,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="draw the units over some of the text: .png, .svg, .html, .json")
    ] = None,
    length: Annotated[int, typer.Option(metavar="N", min=1, help="tokens that are drawn")] = 400,
    json_: flags.Json = False,
    source: flags.Source = None,
    target: flags.Target = None,
    format: flags.Format = None,
    device: flags.Device = "auto",
) -> None:
    """Find recurrent units that follow something in the text.

    For every event (quotes, brackets, words, lines, capitals), the unit whose state correlates with it most on the
    first half of the text, and its correlation on the second half. A CoNLL-U file adds the number of the subject.
    """
    from windlass.data.conll import form
    from windlass.data.sides import SideOptions
    from windlass.explain.coloured import draw_rows
    from windlass.explain.subjects import treebank
    from windlass.explain.units import excerpt, units
    from windlass.training.progress import RichProgress

    (bundle,) = load_bundles(folder, None, device)
    subjects = None
    if form(file, format or "auto", SideOptions()) == "conllu":
        texts, subjects = treebank(bundle, file)
    else:
        examples = read_file(bundle, file, columns(source, target, None, format)).examples
        texts = [example.target if bundle.task.language_model else example.source for example in examples]
    found, traced = units(bundle, texts, best, subjects, RichProgress().track)
    if json_:
        print(json.dumps([asdict(one) for one in found], ensure_ascii=False))
    else:
        print(f"{'event':32} {'layer':20} {'unit':>5} {'r':>6} {'held out':>9}")
        for one in found:
            print(f"{one.event:32} {one.layer:20} {one.unit:5} {one.correlation:6.2f} {one.held_out:9.2f}")
    if not any(one.nameable for one in found):
        say("no unit follows an event: none reaches a correlation of 0.5 on the held-out half")
    if out is not None:
        nameable = [one for one in found if one.nameable] or found[:1]
        draw_rows(excerpt(nameable, traced, length), out, note="Not seen when the units were chosen.")
        say(f"written to {out}")
