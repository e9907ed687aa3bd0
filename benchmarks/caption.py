"""Flickr8k: captions of photos, 6,000 to learn from, 1,000 to choose by, 1,000 held out, five captions each.

    python benchmarks/caption.py --runs runs/caption --kinds attention              train, and score on dev
    python benchmarks/caption.py --runs runs/caption --kinds none summary attention --test      score on test, once

`none` shows the photo to the decoder at its initial state only, `summary` at every step, `attention` attends to a grid
of 7 x 7 regions. Scores are those of the captioning papers: lowercased, without punctuation, five references, the
closest reference length. Published, soft attention with VGG (Xu et al. 2015): BLEU-1 to -4 67.0/44.8/29.9/19.5.
"""

from __future__ import annotations

import argparse
import tarfile
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from common import data, once, report

from windlass.baseline import load_baseline
from windlass.bundle import Bundle
from windlass.decoding.options import Beam
from windlass.experiment.data import read_data, read_examples
from windlass.experiment.run import baseline_metrics, run
from windlass.inference.evaluate import evaluate
from windlass.recipe import compose, setting
from windlass.training.progress import RichProgress

VECTOR = ["source.vector=true", "train.batch_tokens=1000"]  # batches of about as many captions as with attention
KINDS = {
    "none": ["model.decoder.context=none", *VECTOR],
    "summary": ["model.decoder.context=summary", *VECTOR],
    "attention": [],
}


def photos(runs: Path) -> Path:
    """The photos and captions, unpacked beside the runs."""
    folder = runs / "flickr8k"
    if not folder.exists():
        with tarfile.open(data("captions/flickr8k") / "flickr8k_192.tar") as archive:
            archive.extractall(folder, filter="data")
    return folder


def train(kind: str, out: Path, folder: Path, settings: list[str], minutes: float) -> dict[str, Any]:
    files = {"train": [str(folder / "train.jsonl")], "dev": str(folder / "dev.jsonl")}
    columns = {"source": "image", "target": "captions"}
    over = [{"data": {**files, **columns}}, {"train": {"minutes": minutes}}]
    recipe = compose("caption", None, [*over, *map(setting, [*KINDS[kind], *settings])])
    outcome = run(recipe, read_data(recipe), out, RichProgress(), resume=(out / "training").exists())
    assert outcome.dev is not None
    trained = {"epochs": outcome.fit.epochs, "training_minutes": outcome.fit.seconds / 60}
    return {"kind": kind, "dev": outcome.dev.metrics, "baseline": outcome.baseline_metrics, **trained}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="the folder for the models")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--minutes", type=float, default=120, help="the longest training")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--set", nargs="*", default=[], dest="settings", metavar="KEY=VALUE")
    parser.add_argument(
        "--also", type=Path, nargs="*", default=[], help="with --test: models for an ensemble with attention"
    )
    parser.add_argument("--test", action="store_true", help="score on test and write the result")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    folder = photos(options.runs)
    rows = []
    for kind in options.kinds:
        out = options.runs / kind
        rows.append(once(out, partial(train, kind, out, folder, options.settings, options.minutes)))
    for row in rows:
        print(row)
    if options.test:
        score_test(options.runs, folder, rows, options.also, options.settings)


def bleu(metrics: dict[str, float]) -> float:
    """The mean of BLEU-1 to BLEU-4."""
    return fmean(metrics[f"bleu_{n}"] for n in (1, 2, 3, 4))


def score_test(runs: Path, folder: Path, rows: list[dict[str, Any]], also: list[Path], settings: list[str]) -> None:
    """Score on test with the search that does best on dev."""
    systems = {row["kind"]: [runs / row["kind"]] for row in rows}
    if also:
        rows.append({"kind": "ensemble"})
        systems["ensemble"] = [runs / "attention", *also]
    limits = {"unknown": False, "length_factor": 0, "length_plus": 40}
    searches = [
        Beam(size=5, length_penalty=penalty, block_ngrams=block, **limits)
        for penalty in (0.1, 0.3, 0.5, 0.7)
        for block in (0, 3)
    ]
    for row in rows:
        bundles = [Bundle.load(path) for path in systems[row["kind"]]]
        held = {part: read_examples(bundles[0].recipe, folder / f"{part}.jsonl").examples for part in ("dev", "test")}
        scored = [(bleu(evaluate(bundles, held["dev"], search).metrics), n) for n, search in enumerate(searches)]
        best = searches[max(scored)[1]]
        row["search"] = best.model_dump()
        row["test"] = evaluate(bundles, held["test"], best).metrics
        print(row["kind"], row["search"], row["test"], flush=True)
    cheap = load_baseline(runs / rows[0]["kind"])
    assert cheap is not None
    assert not hasattr(cheap, "metrics")
    nearest = baseline_metrics(cheap, "caption", held["test"])  # type: ignore[arg-type]
    report("caption", {"rows": rows, "baseline": {"name": cheap.name, "test": nearest}, "settings": settings})


if __name__ == "__main__":
    main()
