"""The long-distance test: every problem, four cells, with and without attention, three seeds.

    python benchmarks/distance.py OUT [--updates 2000] [--seeds 3]

A run that is finished is kept in OUT, so the script can be stopped and repeated. At the end it prints the tables and
writes results/distance.json and docs/images/distance.png.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from common import report

from windlass.distance import PROBLEMS, Outcome, Report, Training, probe
from windlass.nn.cells import GRU, LSTM, RNN, Leaky

CELLS = {"rnn": RNN.Options(), "gru": GRU.Options(), "lstm": LSTM.Options(), "leaky": Leaky.Options()}
PICTURE = Path(__file__).parent.parent / "docs" / "images" / "distance.png"


def main() -> None:
    """Run what is not there yet, then report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--updates", type=int, default=Training().updates)
    parser.add_argument("--seeds", type=int, default=3)
    flags = parser.parse_args()
    flags.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    training, outcomes = Training(updates=flags.updates), []
    for seed in range(1, flags.seeds + 1):  # the outer loop, so that a part of it is a whole picture
        for name, problem in PROBLEMS.items():
            for cell, options in CELLS.items():
                for attention in (False, True):
                    path = flags.out / f"{name}-{cell}-{'attention' if attention else 'plain'}-{seed}.json"
                    if not path.exists():
                        outcome = probe(problem, cell, options, attention, seed, training)
                        path.write_text(json.dumps(outcome.to_json()) + "\n", encoding="utf-8")
                        print(path.stem, outcome.updates, outcome.seconds, outcome.accuracy, flush=True)
                    outcomes.append(Outcome.from_json(json.loads(path.read_text(encoding="utf-8"))))
    found = Report(tuple(outcomes), training)
    print(found.text())
    found.write(PICTURE)
    report("distance", found.to_json() | {"cpu_seconds": round(sum(one.seconds for one in outcomes), 1)})


if __name__ == "__main__":
    main()
