"""GRU against LSTM in time: one layer, forward and backward, the same input, in turns.

    python benchmarks/speed/cells.py --rounds 15

CPU time of one thread; medians. `lstm, own loop` is the LSTM without oneDNN's kernel, so that it and the GRU run on the
same kind of code: what is left between them is their work, four products a step against three. torch.nn.GRU and
torch.nn.LSTM stand beside them.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parents[1]))  # for `common`, which all benchmarks share

import torch
from common import load, report
from torch import nn

from windlass.nn.cells import GRU, LSTM, RNN
from windlass.nn.recurrence import run

SHAPES = ((30, 64, 256), (150, 32, 256), (25, 32, 128))
"""Steps, rows and units: sentences, long texts, words by letters."""


def timed(work: Callable[[], torch.Tensor]) -> float:
    began = time.process_time()
    work().sum().backward()
    return time.process_time() - began


def contestants(units: int, x: torch.Tensor) -> dict[str, Callable[[], torch.Tensor]]:
    cells = {
        "rnn": RNN.Options().build(units, units),
        "gru": GRU.Options(reset="after").build(units, units),
        "gru, reset before": GRU.Options(reset="before").build(units, units),
        "lstm": LSTM.Options().build(units, units),
    }
    gru, lstm = nn.GRU(units, units, batch_first=True), nn.LSTM(units, units, batch_first=True)

    def own_loop() -> torch.Tensor:
        with patch("windlass.nn.fast.torch_lstm.suits", return_value=False):
            return run(cells["lstm"], x)[0]

    return {
        **{name: lambda cell=cell: run(cell, x)[0] for name, cell in cells.items()},
        "lstm, own loop": own_loop,
        "torch.nn.GRU": lambda: gru(x)[0],
        "torch.nn.LSTM": lambda: lstm(x)[0],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(1)
    before, rows = load(), []
    for steps, batch, units in SHAPES:
        x = torch.randn(batch, steps, units, requires_grad=True)
        works = contestants(units, x)
        seconds: dict[str, list[float]] = {name: [] for name in works}
        for _ in range(options.rounds + 2):  # two to warm up
            for name, work in works.items():
                seconds[name].append(timed(work))
        milliseconds = {name: round(1000 * statistics.median(each[2:]), 2) for name, each in seconds.items()}
        rows.append({"steps": steps, "rows": batch, "units": units, "milliseconds": milliseconds})
        print(rows[-1], flush=True)
    report("speed-cells", {"rows": rows, "rounds": options.rounds, "load": [before, load()]})


if __name__ == "__main__":
    main()
