"""Tags on real data: parts of speech of UD English-EWT, and the names of WNUT17, softmax against CRF.

    python benchmarks/tag.py --runs runs/tag              train and score on dev
    python benchmarks/tag.py --runs runs/tag --test       score the same models on test, once, and write the result
    python benchmarks/tag.py --runs runs/vectors --vectors vectors.txt --only wnut-vectors --seeds 1 2 3 [--test]

Without --vectors, words and their letters are all there is; benchmarks/vectors.py makes the file. The factor on the
probability of O is chosen on dev by training itself. Published: UPOS about 95 without outside embeddings, 96.3 with;
WNUT17 41.9 to 45.6 span F1 with pretrained embeddings.
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
from windlass.experiment.baselines import baseline_metrics
from windlass.experiment.data import read_data
from windlass.experiment.run import run
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
    "wnut-both": (WNUT, "wnut17train.conll", "emerging.dev.conll", "emerging.test.annotated"),
}
"""Folder, and files of train, dev and test. Of `-both`, train and dev are training data, but a tenth held out."""
NAMES = [
    "target.scheme=BIOES",
    "model.head.output=crf",
    "train.optimiser.lr=0.003",
    "train.schedule.warmup=60",
    "train.processes=1",
]
"""What the runs with vectors share."""
RUNS = {
    "ewt-softmax": ("ewt", []),
    "wnut-softmax": ("wnut", ["target.scheme=BIOES", "train.epochs=25"]),
    "wnut-crf": ("wnut", ["target.scheme=BIOES", "train.epochs=25", "model.head.output=crf"]),
    "wnut-vectors": (
        "wnut",
        [
            *NAMES,
            "model.encoder.spelling={kind: convolution, embedding: 32, size: 64, width: 3, dropout: 0.5}",
            "model.encoder.size=128",
            "train.epochs=12",
            "train.evaluate_steps=210",
        ],
    ),
    "wnut-vectors-lstm": ("wnut", [*NAMES, "train.epochs=20", "train.evaluate_steps=280"]),
    "wnut-vectors-both": ("wnut-both", [*NAMES, "train.epochs=20", "train.evaluate_steps=280"]),
}
FROZEN = ["model.encoder.embedding.freeze=true", "model.encoder.embedding.more=1000000"]
"""With --vectors: all words of the file, as they are there."""


def train(name: str, seed: int, out: Path, settings: list[str], vectors: str | None) -> dict[str, Any]:
    part, own = RUNS[name]
    folder, first, second, _ = PARTS[part]
    both = [str(data(folder) / name) for name in (first, second)]
    files = {"train": both} if part.endswith("-both") else {"train": both[:1], "dev": both[1]}
    recipe = compose("tag", None, [{"seed": seed, "data": files}, *map(setting, own)])
    if vectors is not None:
        recipe = with_vectors(recipe, vectors)
        settings = [*FROZEN, *settings]
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
    parser.add_argument("--only", nargs="+", choices=list(RUNS), help="default: all that fit --vectors")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--vectors", help="a file of word vectors")
    parser.add_argument("--set", nargs="*", default=[], dest="settings", metavar="KEY=VALUE")
    parser.add_argument("--test", action="store_true", help="score on test and write the result")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    names = options.only or [name for name in RUNS if ("vectors" in name) == (options.vectors is not None)]
    rows = []
    for name, seed in product(names, options.seeds):
        out = options.runs / f"{name}-{seed}"
        rows.append(once(out, partial(train, name, seed, out, options.settings, options.vectors)))
    result = names[0].replace("wnut", "tag") if options.vectors else "tag"
    report(f"{result}-dev", {"rows": rows, "settings": options.settings})
    if options.test:
        tested = [score_test(name, options.seeds, options.runs) for name in names]
        report(result, {"rows": tested, "trained": rows, "settings": options.settings})


def score_test(name: str, seeds: list[int], runs: Path) -> dict[str, Any]:
    folder, _, dev, test = PARTS[RUNS[name][0]]
    files = {"test": test} if RUNS[name][0].endswith("-both") else {"dev": dev, "test": test}
    parts = {part: read(data(folder) / file, DataOptions(), TAGS).examples for part, file in files.items()}
    examples = parts["test"]
    cheap = load_baseline(runs / f"{name}-{seeds[0]}")
    assert cheap is not None
    bundles, began = [Bundle.load(runs / f"{name}-{seed}") for seed in seeds], time.time()
    each = [{part: evaluate([bundle], rows).metrics for part, rows in parts.items()} for bundle in bundles]
    words = sum(len(e.source) for rows in parts.values() for e in rows) * len(seeds)
    row = {
        "run": name,
        **{part: {figure: fmean(one[part][figure] for one in each) for figure in each[0][part]} for part in parts},
        "each": each,
        "outside": [bundle.model.head.factor.value for bundle in bundles if isinstance(bundle.model.head, TagsHead)],
        "baseline": {cheap.name: baseline_metrics(cheap, "tag", examples)},
        "words_a_second": round(words / (time.time() - began)),
    }
    if len(bundles) > 1:
        row["ensemble"] = {part: evaluate(bundles, rows).metrics for part, rows in parts.items()}
    print(row, flush=True)
    return row


if __name__ == "__main__":
    main()
