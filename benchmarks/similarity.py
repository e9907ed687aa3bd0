"""SICK: how related are two sentences, from 1 to 5? 4,500 pairs, 500 for dev, 4,927 for test.

    python benchmarks/similarity.py --runs runs/related                            train three seeds, score on dev
    python benchmarks/similarity.py --runs runs/related --test                     score them on test, once
    python benchmarks/similarity.py --runs runs/glove --vectors glove.6B.100d.txt [--test]       with outside vectors

Published (Tai et al. 2015), with outside vectors: Pearson 0.853 for a sequential LSTM, 0.868 for a Tree-LSTM.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import torch
from common import data, once, report, spread

from windlass.baseline import load_baseline
from windlass.bundle import Bundle
from windlass.experiment.baselines import baseline_metrics
from windlass.experiment.data import read_data, read_examples
from windlass.experiment.run import run
from windlass.inference.evaluate import evaluate
from windlass.recipe import Recipe, compose, setting
from windlass.training.observe import Silent

COLUMNS = {"source": "sentence_A", "second": "sentence_B", "target": "relatedness_score"}


def file(part: str) -> str:
    return str(data("entailment/sick") / f"SICK_{part}.txt.gz")


def with_vectors(path: Path) -> list[str]:
    """The settings that start from a file of vectors of 100 numbers, chosen on dev."""
    embedding = f"{{kind: vectors, path: {path}, size: 100, more: 50000, dropout: 0.2}}"
    return [f"model.encoder.reader.embedding={embedding}"]


def recipe_of(seed: int, settings: list[str]) -> Recipe:
    files = {"train": [file("train")], "dev": file("trial"), **COLUMNS}
    return compose("similarity", None, [{"seed": seed, "data": files}, *map(setting, settings)])


def train(seed: int, out: Path, settings: list[str]) -> dict[str, Any]:
    recipe = recipe_of(seed, settings)
    outcome = run(recipe, read_data(recipe), out, Silent())
    assert outcome.dev is not None
    return {"seed": seed, "dev": outcome.dev.metrics, "baseline": outcome.baseline_metrics}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="the folder for the models")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--vectors", type=Path, help="a file of word vectors, 100 numbers each")
    parser.add_argument("--set", nargs="*", default=[], dest="settings", metavar="KEY=VALUE")
    parser.add_argument("--test", action="store_true", help="score on test and write the result")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    settings = [*(with_vectors(options.vectors) if options.vectors else []), *options.settings]
    name = "similarity-vectors" if options.vectors else "similarity"
    rows = [
        once(options.runs / f"sick-{seed}", partial(train, seed, options.runs / f"sick-{seed}", settings))
        for seed in options.seeds
    ]
    dev = spread([row["dev"] for row in rows])
    print("dev", dev)
    content: dict[str, Any] = {"trained": rows, "dev": dev, "settings": options.settings}
    if options.test:
        examples = read_examples(recipe_of(1, settings), file("test_annotated")).examples
        bundles = [Bundle.load(options.runs / f"sick-{seed}") for seed in options.seeds]
        found = [evaluate([bundle], examples).metrics for bundle in bundles]
        cheap = load_baseline(options.runs / f"sick-{options.seeds[0]}")
        assert cheap is not None
        content |= {
            "each": found,
            "test": spread(found),
            "ensemble": evaluate(bundles, examples).metrics,
            "baseline": {cheap.name: baseline_metrics(cheap, "similarity", examples)},
        }
        print({key: content[key] for key in ("test", "ensemble", "baseline")})
    report(name if options.test else f"{name}-dev", content)


if __name__ == "__main__":
    main()
