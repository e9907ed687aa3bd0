"""Parsing as translation, on a generated grammar: bracket F1 of sentences that are not in the training trees.

    python benchmarks/parse.py --runs runs/parse              make the trees, train and score on dev
    python benchmarks/parse.py --runs runs/parse --test       score the same models on test, once, and write the result
    python benchmarks/parse.py --runs runs/parse --write      make the trees and stop

The grammar is that of windlass.demo.grammar. Most sentences have one reading only, but a phrase with `near` may belong
to a noun or, seldom, to a verb, so that 100 cannot be reached.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from common import load, report

from windlass.baseline import fit
from windlass.bundle import Bundle
from windlass.data.readers import read
from windlass.data.sides import SideOptions
from windlass.decoding.options import Greedy
from windlass.demo.grammar import grammar_trees
from windlass.experiment.baselines import baseline_metrics
from windlass.experiment.data import read_data
from windlass.experiment.run import run
from windlass.inference.evaluate import evaluate
from windlass.recipe import compose, setting
from windlass.training.observe import Silent

TREE = SideOptions(source="words", target={"tokens": "tree"})


def write(runs: Path, sizes: dict[str, int], seed: int) -> dict[str, Path]:
    """The three parts, of different sentences; written once."""
    trees = grammar_trees(sum(sizes.values()), seed)
    runs.mkdir(parents=True, exist_ok=True)
    files, begin = {}, 0
    for part, size in sizes.items():
        files[part] = runs / f"{part}.trees"
        files[part].write_text("".join(f"{tree}\n" for tree in trees[begin : begin + size]), encoding="utf-8")
        begin += size
    return files


def train(seed: int, runs: Path, files: dict[str, Path], settings: list[str]) -> dict[str, Any]:
    out = runs / f"parse-{seed}"
    paths = {"train": [str(files["train"])], "dev": str(files["dev"])}
    recipe = compose("parse", None, [{"seed": seed, "data": paths}, *map(setting, settings)])
    before = load()
    outcome = run(recipe, read_data(recipe), out, Silent(), resume=(out / "training").is_dir())  # or stands finished
    assert outcome.dev is not None
    row = {
        "seed": seed,
        "dev": outcome.dev.metrics,
        "baseline": {outcome.baseline.name: outcome.baseline_metrics},
        "minutes": round(outcome.fit.seconds / 60, 2),
        "load": before,
    }
    print(row, flush=True)
    return row


def score_test(seeds: list[int], runs: Path, files: dict[str, Path]) -> dict[str, Any]:
    examples = read(files["test"], sides=TREE).examples
    pairs = [(e.source, e.target) for e in read(files["train"], sides=TREE).examples]
    bundles = [Bundle.load(runs / f"parse-{seed}") for seed in seeds]
    found: dict[str, Any] = {}
    for name, options in (("beam", None), ("greedy", Greedy(length_factor=6.0))):
        each = [evaluate([bundle], examples, options).metrics for bundle in bundles]
        found[name] = {"each": each, "mean": {figure: fmean(one[figure] for one in each) for figure in each[0]}}
    cheap = {guess.name: baseline_metrics(guess, "parse", examples) for guess in fit(pairs, TREE)}
    row = {"test": found, "baselines": cheap, "sentences": len(examples)}
    print(row, flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="the folder for trees and models")
    parser.add_argument("--size", type=int, default=8000, help="trees to learn from")
    parser.add_argument("--grammar-seed", type=int, default=1)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--set", nargs="*", default=[], dest="settings", metavar="KEY=VALUE")
    parser.add_argument("--write", action="store_true", help="make the trees and stop")
    parser.add_argument("--test", action="store_true", help="score on test and write the result")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    files = write(options.runs, {"train": options.size, "dev": 500, "test": 500}, options.grammar_seed)
    if options.write:
        return
    rows = [train(seed, options.runs, files, options.settings) for seed in options.seeds]
    report("parse-dev", {"rows": rows, "settings": options.settings})
    if options.test:
        report("parse", {"trained": rows, **score_test(options.seeds, options.runs, files)})


if __name__ == "__main__":
    main()
