"""Tags on real data: parts of speech of UD English-EWT, and the names of WNUT17, softmax against CRF.

    python benchmarks/tag.py --runs runs/tag              train and score on dev
    python benchmarks/tag.py --runs runs/tag --test       score the same models on test, once, and write the result
    python benchmarks/tag.py --runs runs/glove --vectors glove.6B.100d.txt --only wnut-crf [--test]
    python benchmarks/tag.py --runs runs/glove --vectors glove.6B.100d.txt --only wnut-crf --outside 0.2 --test

Without --vectors, words and their letters are all there is. --outside weights the probability of O in the models that
are there; nothing is trained again. Published: UPOS about 95 without outside embeddings, 96.3 with; WNUT17 41.9 to 45.6
span F1 with pretrained embeddings.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from common import data, once, report

from windlass.baseline import load_baseline
from windlass.bundle import Bundle
from windlass.data.readers import DataOptions, read
from windlass.data.sides import SideOptions
from windlass.experiment.data import read_data
from windlass.experiment.run import baseline_metrics, run
from windlass.experiment.vectors import with_vectors
from windlass.heads.tags import TagsHead
from windlass.inference.evaluate import evaluate
from windlass.recipe import compose, setting
from windlass.training.observe import Silent

TAGS = SideOptions(source="words", target="tags")

EWT, WNUT = "tagging/UD_English-EWT", "tagging/wnut17"
PARTS = {
    "ewt": (EWT, "en_ewt-ud-train.conllu.gz", "en_ewt-ud-dev.conllu.gz", "en_ewt-ud-test.conllu.gz"),
    "wnut": (WNUT, "wnut17train.conll", "emerging.dev.conll", "emerging.test.annotated"),
}
RUNS = {
    "ewt-softmax": ("ewt", []),
    "wnut-softmax": ("wnut", ["target.scheme=BIOES", "train.epochs=25"]),
    "wnut-crf": ("wnut", ["target.scheme=BIOES", "train.epochs=25", "model.head.output=crf"]),
}


def train(name: str, seed: int, out: Path, settings: list[str], vectors: str | None) -> dict[str, Any]:
    part, own = RUNS[name]
    folder, first, second, _ = PARTS[part]
    files = {"train": [str(data(folder) / first)], "dev": str(data(folder) / second)}
    recipe = compose("tag", None, [{"seed": seed, "data": files}, *map(setting, own)])
    if vectors is not None:
        recipe = with_vectors(recipe, vectors)
    recipe = compose("tag", None, [recipe.model_dump(mode="json"), *map(setting, settings)])
    outcome = run(recipe, read_data(recipe), out, Silent())
    assert outcome.dev is not None
    return {
        "run": name,
        "seed": seed,
        "dev": outcome.dev.metrics,
        "baseline": {outcome.baseline.name: outcome.baseline_metrics},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="the folder for the models")
    parser.add_argument("--only", nargs="+", choices=list(RUNS), default=list(RUNS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--vectors", help="a file of word vectors")
    parser.add_argument("--set", nargs="*", default=[], dest="settings", metavar="KEY=VALUE")
    parser.add_argument("--outside", type=float, default=1.0, metavar="FACTOR", help="model.head.outside, when scoring")
    parser.add_argument("--test", action="store_true", help="score on test and write the result")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows = []
    for name, seed in product(options.only, options.seeds):
        out = options.runs / f"{name}-{seed}"
        rows.append(once(out, partial(train, name, seed, out, options.settings, options.vectors)))
    result = "tag-vectors" if options.vectors else "tag"
    report(f"{result}-dev", {"rows": rows, "settings": options.settings})
    if options.test:
        tested = [score_test(name, options.seeds, options.runs, options.outside) for name in options.only]
        outside = "" if options.outside == 1 else "-outside"
        report(f"{result}{outside}", {"rows": tested, "trained": rows, "settings": options.settings})


def score_test(name: str, seeds: list[int], runs: Path, outside: float) -> dict[str, Any]:
    folder, _, dev, test = PARTS[RUNS[name][0]]
    parts = {
        part: read(data(folder) / file, DataOptions(), TAGS).examples for part, file in (("dev", dev), ("test", test))
    }
    examples = parts["test"]
    cheap = load_baseline(runs / f"{name}-{seeds[0]}")
    assert cheap is not None
    each, began = [], time.time()
    for seed in seeds:
        bundle = Bundle.load(runs / f"{name}-{seed}")
        assert isinstance(bundle.model.head, TagsHead)
        bundle.model.head.factor = outside
        each.append({part: evaluate([bundle], rows).metrics for part, rows in parts.items()})
    words = sum(len(e.source) for rows in parts.values() for e in rows) * len(seeds)
    row = {
        "run": name,
        "outside": outside,
        **{part: {figure: fmean(one[part][figure] for one in each) for figure in each[0][part]} for part in parts},
        "each": each,
        "baseline": {cheap.name: baseline_metrics(cheap, "tag", examples)},
        "words_a_second": round(words / (time.time() - began)),
    }
    print(row, flush=True)
    return row


if __name__ == "__main__":
    main()
