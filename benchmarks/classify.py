"""TREC-6: what kind of answer a question wants, 5,452 questions to learn from, 500 held out.

    python benchmarks/classify.py --runs runs/trec            train five seeds and score on dev
    python benchmarks/classify.py --runs runs/trec --test     score the same models on test, once, and write the result
    python benchmarks/classify.py --runs runs/glove --vectors glove.6B.100d.txt [--test]       with outside vectors

A tenth of the training questions is the dev set, the same for every seed. Published: plain LSTM about 93, with
pretrained embeddings. GloVe's (Pennington et al. 2014, public domain) are those of 6 billion words, 100 numbers each.
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

LABEL = SideOptions(target="label")

READING = DataOptions(format="labelled")


def with_vectors(path: Path) -> list[str]:
    """The settings that start from a file of vectors of 100 numbers; sizes and dropout were chosen on dev."""
    embedding = f"{{kind: vectors, path: {path}, size: 100, more: 50000, dropout: 0.2}}"
    return [f"model.encoder.embedding={embedding}", "model.encoder.size=256"]


def train(seed: int, out: Path, settings: list[str]) -> dict[str, Any]:
    files = {"train": [str(data("classification/trec6") / "TREC.train.all.gz")], "format": "labelled"}
    recipe = compose("classify", None, [{"seed": seed, "data": files}, *map(setting, settings)])
    outcome = run(recipe, read_data(recipe), out, Silent())
    assert outcome.dev is not None
    return {"seed": seed, "dev": outcome.dev.metrics, "baseline": outcome.baseline_metrics}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="the folder for the models")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3, 4, 5])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--vectors", type=Path, help="a file of word vectors, 100 numbers each")
    parser.add_argument("--set", nargs="*", default=[], dest="settings", metavar="KEY=VALUE")
    parser.add_argument("--test", action="store_true", help="score on test and write the result")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    settings = [*(with_vectors(options.vectors) if options.vectors else []), *options.settings]
    name = "classify-vectors" if options.vectors else "classify"
    rows = []
    for seed in options.seeds:
        out = options.runs / f"trec-{seed}"
        rows.append(once(out, partial(train, seed, out, settings)))
    dev = spread([row["dev"] for row in rows])
    print("dev", dev)
    report(f"{name}-dev", {"rows": rows, "dev": dev, "settings": settings})
    if options.test:
        score_test(options.runs, options.seeds, rows, name)


def score_test(runs: Path, seeds: list[int], trained: list[dict[str, Any]], name: str) -> None:
    examples = read(data("classification/trec6") / "TREC.test.all.gz", READING, LABEL).examples
    bundles = [Bundle.load(runs / f"trec-{seed}") for seed in seeds]
    found = [evaluate([bundle], examples) for bundle in bundles]
    cheap = load_baseline(runs / f"trec-{seeds[0]}")
    assert cheap is not None
    train_set = read(data("classification/trec6") / "TREC.train.all.gz", READING, LABEL).examples
    majority = fit([(e.source, e.target) for e in train_set], LABEL)[0]
    content = {
        "each": [one.metrics for one in found],
        "test": spread([one.metrics for one in found]),
        "ensemble": evaluate(bundles, examples).metrics,
        "baseline": {cheap.name: baseline_metrics(cheap, "classify", examples)},
        "majority": baseline_metrics(majority, "classify", examples),
        "trained": trained,
    }
    picture = runs / "confusion.png"
    draw_confusion([p.text for p in found[0].predictions], [e.targets for e in examples], picture)
    print({part: content[part] for part in ("test", "ensemble", "baseline", "majority")}, picture)
    report(name, content)


if __name__ == "__main__":
    main()
