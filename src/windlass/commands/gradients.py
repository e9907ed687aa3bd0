"""The command `gradients`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from windlass.commands import flags
from windlass.commands.shared import app, load_bundles, say
from windlass.core.errors import WindlassError, nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from windlass.data.examples import Value
    from windlass.gradients import Reading, Result

_MODEL = {"text", "second", "target"}
_FRESH = {"cell", "size", "steps", "gain", "seed"}
USES = {
    "distance": _MODEL | _FRESH | {"truncate", "clip"},
    "share": _MODEL | _FRESH | {"truncate", "clip"},
    "lstm": _MODEL | _FRESH,
    "terms": {"size", "steps", "seed"},
    "scalar": {"weight", "steps", "seed"},
    "activations": set[str](),
}
"""What can be asked for, and the options that it uses."""


@app.command("gradients")
def gradients_command(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="DIR", help="model directory; default: cells with initial weights", show_default=False),
    ] = None,
    what: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="distance: d h_T / d h_t over the distance; share: from how many steps back the loss gradient comes; "
            "lstm: the four terms of d c_t / d c_(t-1); terms: those of dE/dW; scalar: w^(T-1); activations",
        ),
    ] = "distance",
    text: Annotated[str | None, typer.Option(metavar="TEXT", help="what a trained model reads")] = None,
    second: Annotated[str | None, typer.Option(metavar="TEXT", help="second text of a pair")] = None,
    target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="the output whose loss is taken; default: the model's own")
    ] = None,
    cell: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CELL",
            help="a cell with initial weights, such as gru or '{kind: rnn, activation: relu}'; repeatable; default: "
            "rnn, gru, lstm and leaky",
        ),
    ] = None,
    size: Annotated[int | None, typer.Option(metavar="N", min=1, help="units of such a cell; default: 32")] = None,
    steps: Annotated[int | None, typer.Option(metavar="N", min=2, help="length of the sequence; default: 50")] = None,
    gain: Annotated[float | None, typer.Option(metavar="X", help="multiply the recurrent weights by this")] = None,
    weight: Annotated[
        list[float] | None, typer.Option(metavar="X", help="scalar: the weight w; repeatable; default: 0.9 and 1.1")
    ] = None,
    truncate: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="truncate back-propagation to chunks of N steps")
    ] = None,
    clip: Annotated[float | None, typer.Option(metavar="X", help="clip gradients to this norm")] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="random seed; default: 1")] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="output file: .png, .svg or .json")] = None,
    json_: flags.Json = False,
    device: flags.Device = "auto",
) -> None:
    """Measure where gradients vanish or explode.

    Exact norms over distance, the terms of back-propagation through time one by one, and what to do about it.
    """
    given: dict[str, Any] = {"text": text, "second": second, "target": target, "cell": cell, "size": size}
    given |= {"steps": steps, "gain": gain, "weight": weight, "truncate": truncate, "clip": clip, "seed": seed}
    given = {name: value for name, value in given.items() if value is not None}
    _check(what, given, folder is not None)
    results = _measure(what, given, folder, device)
    if out is not None:
        _write(results, out)
    if json_:
        print(json.dumps(content[0] if len(content := [one.to_json() for one in results]) == 1 else content))
    else:
        print("\n\n".join(one.text() for one in results))


def _check(what: str, given: dict[str, Any], model: bool) -> None:
    if what not in USES:
        raise WindlassError(f"--what {what}: there is no such measurement; {nearest(what, USES)}")
    unused = sorted(given.keys() - USES[what])
    if unused:
        raise WindlassError(f"--{unused[0]} has no use with --what {what}: leave it out")
    if model and not _MODEL & USES[what]:
        raise WindlassError(f"--what {what} is of no model: leave the directory out")
    wrong = sorted(given.keys() & (_FRESH if model else _MODEL))
    if wrong:
        why = "a trained model has its own" if model else "there is no model to read it: name its directory"
        raise WindlassError(f"--{wrong[0]} has no use here: {why}")
    if given.get("clip", 1.0) <= 0:
        raise WindlassError("--clip must be above 0: it is the largest norm of a gradient")
    if model and "text" not in given:
        raise WindlassError("give the text to read: --text TEXT")


def _measure(what: str, given: dict[str, Any], folder: Path | None, device: str) -> Sequence[Result]:
    import windlass.gradients as gradients

    common: dict[str, Any] = {name: given[name] for name in ("size", "steps", "seed") if name in given}
    if what == "activations":
        return [gradients.activations()]
    if what == "terms":
        return [gradients.terms(**common)]
    if what == "scalar":
        return [gradients.scalars(given.get("weight", (0.9, 1.1)), **common)]
    back = {name: given[name] for name in ("truncate", "clip") if name in given}
    if folder is None:
        named = given.get("cell", ["lstm"] if what == "lstm" else ["rnn", "gru", "lstm", "leaky"])
        readings = _fresh(named, common, given.get("gain", 1.0))
    else:
        value: Value = given["text"] if "second" not in given else (given["text"], given["second"])
        (bundle,) = load_bundles(folder, None, device)
        if "second" in given and bundle.sides.source.texts < 2:
            raise WindlassError("--second is for a model of pairs, and this one reads one text: leave it out")
        if what == "distance":
            return [gradients.model_distances(bundle, value, given.get("target"), **back)]
        readings = gradients.read(bundle, value, given.get("target"))
    longest = max(reading.steps for reading in readings)
    if back.get("truncate", 0) >= longest:
        raise WindlassError(f"--truncate {back['truncate']} has no use: there are only {longest} steps; lower it")
    if what == "distance":
        return [gradients.distances(readings, **back)]
    if what == "share":
        return [gradients.shares(readings, **back)]
    return [gradients.paths(reading) for reading in readings]


def _fresh(named: Sequence[str], common: dict[str, Any], gain: float) -> list[Reading]:
    import windlass.gradients as gradients
    from windlass.commands.cell_flag import parse_cell

    return [gradients.fresh(cell, gain=gain, name=name, **common) for name, cell in map(parse_cell, named)]


def _write(results: Sequence[Result], out: Path) -> None:
    """One file, or one a layer, numbered."""
    for n, result in enumerate(results, 1):
        path = out if len(results) == 1 else out.with_stem(f"{out.stem}-{n}")
        result.write(path)
        say(f"written to {path}")
