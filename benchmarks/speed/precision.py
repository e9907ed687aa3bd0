"""What mixed precision earns: the same training steps in float32 and with products in bfloat16, in turns.

    python benchmarks/speed/precision.py --rounds 5

CPU time of one thread, forward and backward of six batches of real data; the median of the ratios, the loss of the
first round, and how far the gradients are apart. Recipes are the tasks' own but for what the table below sets.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the benchmarks whose data this is

import torch
from common import data, load, report
from lm import cut
from translate import pair

from windlass.bundle import Bundle
from windlass.experiment.data import read_data
from windlass.experiment.loaders import fit_sides, training_loader
from windlass.nn.fast.onednn import prepare_training
from windlass.nn.fast.precision import precision
from windlass.recipe import compose, setting
from windlass.training.data_parallel import SingleProcess

BATCHES, EXAMPLES = 6, 4000
MODELS: dict[str, tuple[str, tuple[str, ...]]] = {
    "translate, GRU 256 and 512": ("translate", ("model.decoder=recurrent",)),
    "translate, transformer 128": (
        "translate",
        ("train.batch_tokens=1200", "model.encoder.positions=sinusoidal", "model.decoder.positions=sinusoidal"),
    ),
    "lm, LSTM 512": ("lm", ()),
    "lm, LSTM 768": ("lm", ("model.decoder.size=768",)),
    "pronounce, LSTM 128 with attention": (
        "pronounce",
        ("model.head=text", "model.encoder.layers=1", "model.decoder.size=128"),
    ),
}


def files(task: str, scratch: Path) -> dict[str, Any]:
    if task == "translate":
        return {"train": [pair("train")], "dev": pair("val")}
    if task == "lm":
        train, dev, _ = cut("shakespeare", scratch)
        return {"train": [str(train)], "dev": str(dev)}
    root = data("g2p/sigmorphon2020")
    return {"train": [str(root / "train/gre_train.tsv")], "dev": str(root / "dev/gre_dev.tsv")}


def measure(task: str, settings: tuple[str, ...], rounds: int, scratch: Path) -> dict[str, Any]:
    recipe = compose(task, None, [{"data": files(task, scratch)}, *map(setting, ["train.auto=[]", *settings])])
    train = read_data(recipe).train[:EXAMPLES]
    torch.manual_seed(1)
    bundle = Bundle.new(recipe, fit_sides(recipe, train))
    step = SingleProcess(bundle.model.train())
    batches = list(islice(training_loader(bundle, train).epoch(0), BATCHES))
    seconds: dict[str, list[float]] = {"float32": [], "bfloat16": []}
    losses: dict[str, float] = {}
    gradients: dict[str, torch.Tensor] = {}
    for turn in range(rounds + 1):  # the first warms up
        for number, batch in enumerate(batches):
            for kind, each in seconds.items():
                torch.manual_seed(number)
                with precision(kind):
                    began = time.process_time()
                    scored = step(batch, 0.0, 0)
                    each += [time.process_time() - began] if turn else []
                losses[kind] = float(scored.loss_sum / scored.count)
                gradients[kind] = torch.cat([p.grad.flatten() for p in bundle.model.parameters() if p.grad is not None])
    off = (gradients["bfloat16"] - gradients["float32"]).norm() / gradients["float32"].norm()
    return {
        "milliseconds": {kind: round(1000 * statistics.median(each), 1) for kind, each in seconds.items()},
        "ratio": round(statistics.median(a / b for a, b in zip(*seconds.values(), strict=True)), 2),
        "losses": losses,
        "gradients_apart": round(float(off), 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scratch", type=Path, default=Path("runs"), help="for the parts of a text")
    options = parser.parse_args()
    torch.set_num_threads(1)
    prepare_training()
    before, rows = load(), {}
    for name, (task, settings) in MODELS.items():
        rows[name] = measure(task, settings, options.rounds, options.scratch)
        print(name, rows[name], flush=True)
    report("speed-precision", {"rows": rows, "rounds": options.rounds, "load": [before, load()]})


if __name__ == "__main__":
    main()
