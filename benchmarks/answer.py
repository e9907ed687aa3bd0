"""DAQUAR: questions about indoor photos, 5,996 to learn from, 799 to choose by, 5,673 held out.

    python benchmarks/answer.py --runs runs/answer --kinds attention               train, and score on dev
    python benchmarks/answer.py --runs runs/answer --test                          score on test, once

The split is the official one by photo; dev is a part of training with photos of its own. An answer is right if the
whole string is, and an answer that training has not shown is wrong. `blind` reads the question alone: what the photo is
worth is the difference, with its interval by bootstrap over the questions of test. `mean` has the mean of the regions
in the place of attention. Published: 19.4 % (Malinowski et al. 2015), 29.3 % (Yang et al. 2016, with another CNN).
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import tarfile
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from common import data, once, report, spread

from windlass.baseline import load_baseline
from windlass.bundle import Bundle
from windlass.experiment.baselines import baseline_metrics
from windlass.experiment.data import read_data, read_examples
from windlass.experiment.run import run
from windlass.inference.predict import predict
from windlass.recipe import compose, setting
from windlass.training.progress import RichProgress

KINDS = {
    "blind": ["model.encoder.picture=null"],
    "mean": ["model.encoder.picture.attention=null"],
    "attention": [],
}
DEV_PHOTOS = 100
DRAWS = 10_000


def questions(runs: Path) -> Path:
    """The photos, unpacked beside the runs, and the questions of each part."""
    folder = runs / "daquar"
    if not folder.exists():
        with tarfile.open(data("vqa/daquar") / "daquar_224.tar") as archive:
            archive.extractall(folder, filter="data")
    lists = {part: (folder / f"{part}_images_list.txt").read_text().split() for part in ("train", "test")}
    random.Random(1).shuffle(lists["train"])
    lists["dev"], lists["train"] = lists["train"][:DEV_PHOTOS], lists["train"][DEV_PHOTOS:]
    part_of = {photo: part for part, photos in lists.items() for photo in photos}
    rows: dict[str, list[str]] = {part: [] for part in lists}
    with (folder / "data.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            asked = {"image": f"images/{row['image_id']}.jpg", "question": row["question"], "answer": row["answer"]}
            rows[part_of[row["image_id"]]].append(json.dumps(asked) + "\n")
    for part, held in rows.items():
        (folder / f"{part}.jsonl").write_text("".join(held), encoding="utf-8")
    return folder


def train(kind: str, seed: int, out: Path, folder: Path, settings: list[str]) -> dict[str, Any]:
    files = {"train": [str(folder / "train.jsonl")], "dev": str(folder / "dev.jsonl")}
    columns = {"source": "image", "second": "question", "target": "answer"}
    over = [{"data": {**files, **columns}}, {"seed": seed}]
    recipe = compose("answer", None, [*over, *map(setting, [*KINDS[kind], *settings])])
    outcome = run(recipe, read_data(recipe), out, RichProgress(), resume=(out / "training").exists())
    assert outcome.dev is not None
    trained = {"epochs": outcome.fit.epochs, "training_minutes": outcome.fit.seconds / 60}
    beside = {"name": outcome.baseline.name, "dev": outcome.baseline_metrics}
    return {"kind": kind, "seed": seed, "dev": outcome.dev.metrics, "baseline": beside, **trained}


def score_test(runs: Path, folder: Path, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Score every model on test, and what the photo adds, with its interval."""
    bundles = [Bundle.load(runs / f"{row['kind']}-{row['seed']}") for row in rows]
    test = read_examples(bundles[0].recipe, folder / "test.jsonl").examples
    right: dict[str, list[np.ndarray]] = {}
    for row, bundle in zip(rows, bundles, strict=True):
        found = predict([bundle], [e.source for e in test])
        hits = np.array([p.text in e.targets for p, e in zip(found, test, strict=True)], dtype=np.float64)
        row["test"] = {"accuracy": 100 * float(hits.mean())}
        right.setdefault(row["kind"], []).append(hits)
    cheap = load_baseline(runs / f"{rows[0]['kind']}-{rows[0]['seed']}")
    assert cheap is not None
    assert not hasattr(cheap, "metrics")
    beside = {"name": cheap.name, "test": baseline_metrics(cheap, "answer", test)}  # type: ignore[arg-type]
    seeds = {kind: [row["test"] for row in rows if row["kind"] == kind] for kind in right}
    summary: dict[str, Any] = {kind: spread(each)["accuracy"] for kind, each in seeds.items()}
    gains = {kind: gain(right[kind], right["blind"]) for kind in right if kind != "blind" and "blind" in right}
    return {"rows": rows, "test": summary, "gain over blind": gains, "baseline": beside, "questions": len(test)}


def gain(seeing: list[np.ndarray], blind: list[np.ndarray]) -> dict[str, Any]:
    """What the photo adds in points of accuracy, the mean of all seeds, with the 95 % interval over questions."""
    difference = 100 * (np.mean(seeing, axis=0) - np.mean(blind, axis=0))
    chance = np.random.default_rng(1)
    means = [difference[chance.integers(0, len(difference), len(difference))].mean() for _ in range(DRAWS)]
    low, high = np.quantile(means, [0.025, 0.975])
    return {"points": float(difference.mean()), "low": float(low), "high": float(high)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="the folder for the models")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--set", nargs="*", default=[], dest="settings", metavar="KEY=VALUE")
    parser.add_argument("--test", action="store_true", help="score on test and write the result")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    folder, rows = questions(options.runs), []
    for kind in options.kinds:
        for seed in options.seeds:
            out = options.runs / f"{kind}-{seed}"
            rows.append(once(out, partial(train, kind, seed, out, folder, options.settings)))
    for kind in options.kinds:
        scores = [row["dev"]["accuracy"] for row in rows if row["kind"] == kind]
        print(f"dev {kind:10} {fmean(scores):.2f}", [round(score, 2) for score in scores])
    if options.test:
        content = score_test(options.runs, folder, rows)
        print(json.dumps({key: content[key] for key in ("test", "gain over blind", "baseline")}, indent=1))
        report("answer", {**content, "settings": options.settings})


if __name__ == "__main__":
    main()
