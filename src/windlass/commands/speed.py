"""Commands about speed: `bench` and `quantise`."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from windlass.bundle import Bundle
from windlass.commands import flags
from windlass.commands.lines import portions
from windlass.commands.shared import app, say
from windlass.core.errors import DataError
from windlass.experiment.data import examples_of
from windlass.experiment.run import check_folder, load_baseline, save_baseline
from windlass.inference.bench import MADE_UP, Figure, bench, peak_memory
from windlass.inference.evaluate import evaluate
from windlass.inference.quantise import quantise


@app.command("bench")
def bench_command(
    folder: flags.Folder,
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="a text file, an input a line; none: made-up inputs")
    ] = None,
    batch: Annotated[
        list[int] | None, typer.Option(metavar="N", min=1, help="texts at once, again for more; else 1 and 32")
    ] = None,
    seconds: Annotated[float, typer.Option(metavar="X", min=0.01, help="how long to measure each way")] = 3.0,
    threads: Annotated[int | None, typer.Option(metavar="N", min=1, help="threads of the processor to use")] = None,
    json_: flags.Json = False,
) -> None:
    """Measure how fast a model is on this machine.

    Sentences and tokens a second, latency and memory, by greedy search and by the model's own, as it is and in 8 bits.
    """
    bundle = Bundle.load(folder)
    if threads is not None:
        torch.set_num_threads(threads)
    source = bundle.sides.source
    if file is None:
        texts = source.random_values(MADE_UP)
        say("no file: made-up inputs, whose outputs may be longer or shorter than those of real ones")
    else:
        lines = [line for part in portions(file, bundle.recipe.data.max_length, say) for line in part if line]
        if not lines:
            raise DataError(f"{file}: nothing to measure with: it has no line that is not blank")
        texts = [source.from_line(source.options, line) for line in lines]
    found = bench(bundle, texts, batch or (1, 32), seconds)
    about: dict[str, Any] = {
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "busy": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "inputs": len(texts),
        "peak_mb": None if (peak := peak_memory()) is None else round(peak),
        "weights_mb": round(sum(p.numel() * p.element_size() for p in bundle.model.parameters()) / (1 << 20), 1),
    }
    if json_:
        print(json.dumps(about | {"figures": [_plain(figure) for figure in found]}))
        return
    table = Table("search", "batch", "numbers", box=SIMPLE_HEAD, pad_edge=False)
    for title in ("sentences/s", "tokens/s", "p50 ms", "p99 ms"):
        table.add_column(title, justify="right")
    for figure in found:
        row = _plain(figure)
        latency = [f"{row['p50_ms']:.1f}", f"{row['p99_ms']:.1f}"] if figure.batch == 1 else ["", ""]
        rates = [f"{row['sentences_per_second']:,.1f}", f"{row['tokens_per_second']:,.0f}"]
        table.add_row(figure.search, str(figure.batch), figure.numbers, *rates, *latency)
    Console(width=100, highlight=False).print(table)
    said = f"{about['threads']} of {about['cores']} cores, {about['inputs']} inputs, weights {about['weights_mb']} MB"
    if about["peak_mb"] is not None:
        said += f", most memory held {about['peak_mb']:,} MB"
    if about["busy"] is not None:
        said += f"; {about['busy']} processes were running or waiting"
    print(said)


def _plain(figure: Figure) -> dict[str, Any]:
    return {
        "search": figure.search,
        "batch": figure.batch,
        "numbers": figure.numbers,
        "sentences_per_second": round(figure.per_second, 2),
        "tokens_per_second": round(figure.tokens_per_second, 1),
        "p50_ms": round(figure.p50 * 1000, 3),
        "p99_ms": round(figure.p99 * 1000, 3),
        "batches": len(figure.latencies),
    }


@app.command("quantise")
def quantise_command(
    folder: flags.Folder,
    out: Annotated[Path, typer.Option(metavar="DIR", help="the folder for the model in 8 bits")],
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="data with the right answers, to show the loss on")
    ] = None,
    json_: flags.Json = False,
) -> None:
    """Write a model in 8 bits.

    A quarter of the size, and quicker on a processor. With a data file, its scores stand beside those of the model as
    it was.
    """
    check_folder(out, resume=False)
    bundle = Bundle.load(folder)
    small = quantise(bundle)
    before: dict[str, float] = {}
    if file is not None:
        result = examples_of(bundle.recipe, file)
        if not result.examples:
            raise DataError(f"{file}: no examples to show the loss on")
        before = evaluate([bundle], result.examples).metrics
        after = evaluate([small], result.examples).metrics
        small = replace(small, scores=after)
    small.save(out)
    if (cheap := load_baseline(folder)) is not None:
        save_baseline(out, cheap)
    sizes = [(path / "weights.safetensors").stat().st_size / (1 << 20) for path in (folder, out)]
    if json_:
        content = {"before": before, "after": small.scores, "mb_before": sizes[0], "mb_after": sizes[1]}
        print(json.dumps(content))
        return
    for name, value in before.items():
        print(f"{name:10} {value:7.2f} -> {small.scores[name]:7.2f}")
    print(f"{'weights':10} {sizes[0]:7.2f} -> {sizes[1]:7.2f} MB")
    if file is None:
        say("what it costs in quality was not measured: give a data file to see it")
    say(f"model in {out}")
