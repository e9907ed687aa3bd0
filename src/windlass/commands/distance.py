"""The command `distance`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from windlass.commands import flags
from windlass.commands.shared import app, say
from windlass.core.errors import WindlassError, nearest

if TYPE_CHECKING:
    from windlass.distance import Outcome


@app.command("distance")
def distance_command(
    problem: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="copying, adding, brackets or agreement; repeatable; default: all"),
    ] = None,
    cell: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CELL",
            help="a cell, such as gru or '{kind: lstm, forget_bias: 3}'; repeatable; default: rnn, gru, lstm and leaky",
        ),
    ] = None,
    attention: Annotated[str, typer.Option(metavar="yes|no|both", help="with attention, without, or both")] = "both",
    seeds: Annotated[int, typer.Option(metavar="N", min=1, help="number of seeds")] = 1,
    size: Annotated[int, typer.Option(metavar="N", min=1, help="units of the cell")] = 48,
    updates: Annotated[int, typer.Option(metavar="N", min=1, help="training updates, at most")] = 2000,
    gaps: Annotated[str, typer.Option(metavar="N,N", help="gaps that are trained and tested")] = "0,2,4,8,16,32,64",
    further: Annotated[str, typer.Option(metavar="N,N", help="longer gaps, tested only; '' for none")] = "128,256",
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="output file: .png, .svg or .json")] = None,
    json_: flags.Json = False,
    quiet: flags.Quiet = False,
) -> None:
    """Test over how many steps a cell can remember.

    Trains small networks on made-up problems, and measures accuracy against the gap between what must be remembered and
    where it is needed.
    """
    from windlass.commands.cell_flag import parse_cell
    from windlass.distance import PROBLEMS, Training, measure
    from windlass.gradients.result import check_suffix

    for name in problem or ():
        if name not in PROBLEMS:
            raise WindlassError(f"--problem {name}: there is no such problem; {nearest(name, PROBLEMS)}")
    kinds = {"yes": (True,), "no": (False,), "both": (False, True)}
    if attention not in kinds:
        raise WindlassError(f"--attention {attention}: say yes, no or both")
    if out is not None:
        check_suffix(out)  # before an hour of work
    training = Training(size=size, updates=updates, gaps=_gaps("gaps", gaps), further=_gaps("further", further))
    if not training.gaps or min((*training.further, max(training.gaps) + 1)) <= max(training.gaps):
        raise WindlassError(f"--further {further}: every gap must be longer than those of --gaps {gaps}")

    def note(outcome: Outcome) -> None:
        if not quiet:
            with_attention = " + attention" if outcome.attention else ""
            fell = outcome.falls()
            verdict = "90 % or more at every gap" if fell is None else f"below 90 % at gap {fell}"
            say(f"{outcome.problem}, {outcome.cell}{with_attention}, seed {outcome.seed}: {verdict}")

    cells = dict(map(parse_cell, cell or ["rnn", "gru", "lstm", "leaky"]))
    problems = list(dict.fromkeys(problem or PROBLEMS))
    report = measure(cells, problems, kinds[attention], range(1, seeds + 1), training, note)
    if out is not None:
        say(f"written to {report.write(out)}")
    print(json.dumps(report.to_json()) if json_ else report.text())


def _gaps(flag: str, text: str) -> tuple[int, ...]:
    try:
        found = tuple(sorted({int(part) for part in text.split(",") if part.strip()}))
    except ValueError:
        found = (-1,)
    if any(gap < 0 for gap in found):
        raise WindlassError(f"--{flag} {text}: give numbers of steps, such as 0,4,16")
    return found
