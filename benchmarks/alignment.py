"""xl-wa: attention against gold word alignments, by forced decoding on words; with and without supervision.

    python benchmarks/alignment.py --runs runs/xl-wa          train and score on dev
    python benchmarks/alignment.py --runs runs/xl-wa --test   score on test, once

About 1,000 pairs are far too few to learn to translate, so only the alignment error rate is of interest; the weights
of a run are those of its lowest one on dev. Weight 0 is a model that never saw a link in training.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from common import data, load, report

from windlass.bundle import Bundle
from windlass.data.readers import read
from windlass.experiment.data import read_data
from windlass.experiment.run import run
from windlass.inference.evaluate import alignment_metrics
from windlass.recipe import compose, setting
from windlass.training.progress import RichProgress

READING = {
    "query": "current",
    "links": "reading",
    "input_feeding": False,
}  # a word is linked by the step that has read it
WORDS = {"tokens": {"kind": "words", "min_count": 2}, "lowercase": True}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="the folder for the models")
    parser.add_argument("--languages", nargs="+", default=["es", "it"], choices=["es", "it"])
    parser.add_argument("--weights", nargs="+", type=float, default=[0.0, 5.0], help="of the gold alignments")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--set", nargs="*", default=[], dest="settings", metavar="KEY=VALUE")
    parser.add_argument("--test", action="store_true", help="score on test and write the result")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows = [
        one(language, weight, options.runs, options.settings, options.test)
        for language in options.languages
        for weight in options.weights
    ]
    if options.test:
        report("alignment", {"rows": rows})


def one(language: str, weight: float, runs: Path, settings: list[str], test: bool) -> dict[str, Any]:
    root = data(f"alignment/xl-wa-en-{language}")
    files = {"train": [str(root / "train.tsv.gz")], "dev": str(root / "dev.tsv.gz"), "alignment": 3}
    over = [
        {"data": files, "source": WORDS, "target": WORDS, "vocabulary": "separate", "loss": {"alignment": weight}},
        {"model": {"tie": "none", "encoder": {"size": 128}, "decoder": {"size": 256, "context": READING}}},
        {"train": {"epochs": 30, "batch_tokens": 1000, "average": "none", "evaluate_steps": 100}},
        {"train": {"schedule": {"warmup": 100}}, "choose_by": "aer", "search": "greedy"},
    ]
    recipe = compose("translate", None, [*over, *map(setting, settings)])
    out = runs / f"{language}-{weight:g}"
    before = load()
    outcome = run(recipe, read_data(recipe), out, RichProgress(), resume=(out / "training").is_dir())
    bundle = Bundle.load(out)
    row: dict[str, Any] = {"language": language, "weight": weight, "load": before}
    row["minutes"] = outcome.fit.seconds / 60
    for part in ["dev", *(["test"] if test else [])]:
        found, diagonal = alignment_metrics(bundle, read(root / f"{part}.tsv.gz", recipe.data).examples)
        row[part] = {"attention": found, "diagonal": diagonal}
    print(row, flush=True)
    return row


if __name__ == "__main__":
    main()
