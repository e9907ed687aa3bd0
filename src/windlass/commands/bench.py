"""The command `bench`."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from windlass.commands import flags
from windlass.commands.shared import app, say
from windlass.core.errors import DataError, WindlassError

if TYPE_CHECKING:
    from windlass.inference.bench import Measurement


@app.command("bench")
def bench_command(
    folder: flags.Folder,
    file: Annotated[
        str | None,
        typer.Argument(metavar="FILE", help="inputs, as predict takes them, or a folder; default: synthetic inputs"),
    ] = None,
    batch: Annotated[
        list[int] | None, typer.Option(metavar="N", min=1, help="batch size; repeatable; default: 1 and 32")
    ] = None,
    seconds: Annotated[float, typer.Option(metavar="X", min=0.01, help="duration of each measurement")] = 3.0,
    threads: Annotated[int | None, typer.Option(metavar="N", min=1, help="number of CPU threads")] = None,
    json_: flags.Json = False,
) -> None:
    """Measure how fast a model is on this machine.

    Throughput, latency and memory of greedy search and of the model's own, in float32 and in 8 bits.
    """
    import torch
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from windlass.bundle import Bundle
    from windlass.commands.inputs import input_options, read_files
    from windlass.inference.bench import SYNTHETIC, bench, peak_memory

    bundle = Bundle.load(folder)
    if bundle.task.language_model:
        raise WindlassError("bench measures predictions, and a language model has no input to predict from")
    if threads is not None:
        torch.set_num_threads(threads)
    source = bundle.sides.source
    if file is None:
        texts = source.random_values(SYNTHETIC)
        say("no file: synthetic inputs, whose outputs may be longer or shorter than those of real ones")
    else:
        other = bundle.recipe.data.encoding
        inputs = list(read_files([file], source, input_options(bundle, {}), (), say, other=other))
        if wrong := next((item.error for item in inputs if item.error), None):
            raise DataError(f"{wrong}; a measurement needs inputs that can be read")
        texts = [item.value for item in inputs if not source.blank(item.value)]
        if not texts:
            raise DataError(f"{file}: only blank lines: nothing to measure with")
    measured = bench(bundle, texts, batch or (1, 32), seconds)
    machine: dict[str, Any] = {
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "busy": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "inputs": len(texts),
        "peak_mb": None if (peak := peak_memory()) is None else round(peak),
        "weights_mb": round(bundle.weight_bytes / (1 << 20), 2),
    }
    if json_:
        print(json.dumps(machine | {"figures": [_as_json(one) for one in measured]}))
        return
    table = Table("search", "batch", "numbers", box=SIMPLE_HEAD, pad_edge=False)
    for title in ("sentences/s", "tokens/s", "p50 ms", "p99 ms"):
        table.add_column(title, justify="right")
    for one in measured:
        row = _as_json(one)
        latency = [f"{row['p50_ms']:.1f}", f"{row['p99_ms']:.1f}"] if one.batch == 1 else ["", ""]
        rates = [f"{row['sentences_per_second']:,.1f}", f"{row['tokens_per_second']:,.0f}"]
        table.add_row(one.search, str(one.batch), one.numbers, *rates, *latency)
    Console(width=100, highlight=False).print(table)
    summary = f"{machine['threads']} of {machine['cores']} cores, {machine['inputs']} inputs"
    summary += f", weights {machine['weights_mb']} MB"
    if machine["peak_mb"] is not None:
        summary += f", peak memory {machine['peak_mb']:,} MB"
    if machine["busy"] is not None:
        summary += f"; load average {machine['busy']}"
    print(summary)


def _as_json(one: Measurement) -> dict[str, Any]:
    return {
        "search": one.search,
        "batch": one.batch,
        "numbers": one.numbers,
        "sentences_per_second": round(one.per_second, 2),
        "tokens_per_second": round(one.tokens_per_second, 1),
        "p50_ms": round(one.p50 * 1000, 3),
        "p99_ms": round(one.p99 * 1000, 3),
        "batches": len(one.latencies),
    }
