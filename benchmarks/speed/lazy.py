"""What lazy Adam saves where a vocabulary is large: a step of a classifier, dense and lazy, in turns.

    python benchmarks/speed/lazy.py --vocabulary 64000

An embedding of 256, a bidirectional LSTM of 128 a side, a label; batches of 32 texts of 20 tokens. CPU time of this
process, of one thread; the least of the steps.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # for `common`, which all benchmarks share

import torch
from common import report

from windlass.core.records import Batch, Padded
from windlass.model import LossOptions, ModelOptions, build
from windlass.recipe.train import Adam
from windlass.training.data_parallel import SingleProcess
from windlass.training.lazy import clip_gradients
from windlass.training.optimiser import build_optimiser


def stepper(vocabulary: int, lazy: bool) -> Any:
    torch.manual_seed(1)
    encoder = {"kind": "recurrent", "size": 128, "embedding": {"kind": "learned", "size": 256}}
    model = build(ModelOptions.model_validate({"encoder": encoder, "head": "label"}), LossOptions(), vocabulary, 4)
    optimiser, compute_gradients = build_optimiser(Adam(lazy=lazy), model), SingleProcess(model)

    def step(number: int) -> float:
        ids = torch.randint(4, vocabulary, (32, 20), generator=torch.Generator().manual_seed(number))
        batch = Batch({"source": Padded(ids, ids > 0)}, Padded(ids[:, :1] % 4, ids[:, :1] > 0), torch.arange(32))
        began = time.process_time()
        compute_gradients(batch, 0.0, number)
        clip_gradients(model.parameters(), 1.0)
        optimiser.step()
        return time.process_time() - began

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocabulary", type=int, nargs="+", default=[4000, 16_000, 64_000])
    parser.add_argument("--steps", type=int, default=8)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for vocabulary in options.vocabulary:
        ways = {"dense": stepper(vocabulary, False), "lazy": stepper(vocabulary, True)}
        spent: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(options.steps):
            for name, step in ways.items():
                spent[name].append(step(number))
        rows.append({"vocabulary": vocabulary, **{name: 1000 * min(times[1:]) for name, times in spent.items()}})
        print(
            f"vocabulary {vocabulary:7,}: dense {rows[-1]['dense']:6.1f} ms, lazy {rows[-1]['lazy']:6.1f} ms",
            flush=True,
        )
    report("lazy", {"rows": rows})


if __name__ == "__main__":
    main()
