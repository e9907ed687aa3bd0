"""How `train` ends: the scores beside the baseline's, and what to do next."""

from __future__ import annotations

import shlex
from pathlib import Path
from textwrap import shorten

import typer

from windlass.commands.shared import say
from windlass.core.program import program
from windlass.data.examples import Value, as_text
from windlass.experiment.run import Outcome
from windlass.metrics.likelihood import format_metric
from windlass.training.progress import format_duration


def print_outcome(outcome: Outcome, out: Path, seconds: float, example: Value) -> None:
    """Print how a run ended."""
    result = outcome.fit
    if result.reason == "interrupted":
        say(f"interrupted and saved; resume with: {program()} train --resume --out {shlex.quote(str(out))}")
        raise typer.Exit(130)
    assert outcome.dev is not None
    metrics, baseline = (
        "  ".join(f"{name} {format_metric(name, value)}" for name, value in scores.items())
        for scores in (outcome.dev.metrics, outcome.baseline_metrics)
    )
    say(f"done in {format_duration(seconds)} ({result.steps} steps, best at step {result.best_step})")
    say(f"dev  {metrics}   [baseline, {outcome.baseline.name}: {baseline}]")
    folder = shlex.quote(str(out))
    whole = as_text(example)
    text = shlex.quote(whole if len(whole) <= 120 else shorten(whole, 80, placeholder=" ..."))
    say(f"model in {out}; next:")
    if outcome.bundle.task.language_model:
        say(f"  {program()} generate {folder} --length 500")
        say(f"  {program()} evaluate {folder} test.txt")
        return
    columns = [shlex.quote(column) for column in outcome.bundle.sides.source.columns(example)]
    if len(columns) == 2:
        first, second = columns
        say(f"  printf '%s\\t%s\\n' {first} {second} | {program()} predict {folder}")
        say(f"  {program()} explain {folder} {first} --second {second} --out words.png")
        say(f"  {program()} evaluate {folder} test.tsv")
        return
    say(f"  echo {text} | {program()} predict {folder}")
    say(f"  {program()} explain {folder} {text} --out attention.png")
    say(f"  {program()} evaluate {folder} test.tsv")
