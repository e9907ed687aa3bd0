"""SICK: does one sentence follow from another, contradict it, or neither? 4,500 pairs, 500 for dev, 4,927 for test.

    python benchmarks/entail.py --runs runs/sick            train three seeds and score on dev
    python benchmarks/entail.py --runs runs/sick --test     score the same models on test, once, and write the result

Published: LSTM pair encoder 71.3, 80.8 when it is first trained on far more pairs; neither is used here.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import torch
from common import data, once, report, spread

from windlass.baseline import fit, load_baseline
from windlass.bundle import Bundle
from windlass.data.readers import DataOptions, read
from windlass.data.sides import SideOptions
from windlass.experiment.baselines import baseline_metrics
from windlass.experiment.data import read_data
from windlass.experiment.run import run
from windlass.explain.confusion import draw_confusion
from windlass.inference.evaluate import evaluate
from windlass.recipe import compose, setting
from windlass.training.observe import Silent

LABEL = SideOptions(source="pair", target="label")

COLUMNS = {"source": "sentence_A", "second": "sentence_B", "target": "entailment_judgment"}
READING = DataOptions(**COLUMNS)


def file(part: str) -> str:
    return str(data("entailment/sick") / f"SICK_{part}.txt.gz")


def train(seed: int, out: Path, settings: list[str]) -> dict[str, Any]:
    files = {"train": [file("train")], "dev": file("trial"), **COLUMNS}
    recipe = compose("entail", None, [{"seed": seed, "data": files}, *map(setting, settings)])
    outcome = run(recipe, read_data(recipe), out, Silent())
    assert outcome.dev is not None
    return {"seed": seed, "dev": outcome.dev.metrics, "baseline": outcome.baseline_metrics}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="the folder for the models")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--set", nargs="*", default=[], dest="settings", metavar="KEY=VALUE")
    parser.add_argument("--test", action="store_true", help="score on test and write the result")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows = []
    for seed in options.seeds:
        out = options.runs / f"sick-{seed}"
        rows.append(once(out, partial(train, seed, out, options.settings)))
    dev = spread([row["dev"] for row in rows])
    print("dev", dev)
    report("entail-dev", {"rows": rows, "dev": dev, "settings": options.settings})
    if options.test:
        score_test(options.runs, options.seeds, rows)


def score_test(runs: Path, seeds: list[int], trained: list[dict[str, Any]]) -> None:
    examples = read(file("test_annotated"), READING, LABEL).examples
    bundles = [Bundle.load(runs / f"sick-{seed}") for seed in seeds]
    found = [evaluate([bundle], examples) for bundle in bundles]
    train_set = read(file("train"), READING, LABEL).examples
    pairs = [(e.source, e.target) for e in train_set]
    cheap = load_baseline(runs / f"sick-{seeds[0]}")
    assert cheap is not None
    majority = fit(pairs, LABEL)[0]
    content = {
        "each": [one.metrics for one in found],
        "test": spread([one.metrics for one in found]),
        "ensemble": evaluate(bundles, examples).metrics,
        "baseline": {cheap.name: baseline_metrics(cheap, "entail", examples)},
        "majority": baseline_metrics(majority, "entail", examples),
        "trained": trained,
    }
    picture = runs / "confusion.png"
    draw_confusion([p.text for p in found[0].predictions], [e.targets for e in examples], picture)
    print({name: content[name] for name in ("test", "ensemble", "baseline", "majority")}, picture)
    report("entail", content)


if __name__ == "__main__":
    main()
