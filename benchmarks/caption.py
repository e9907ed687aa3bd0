"""Flickr8k: captions of photos, 6,000 to learn from, 1,000 to choose by, 1,000 held out, five captions each.

    python benchmarks/caption.py --runs runs/caption --kinds attention              train, and score on dev
    python benchmarks/caption.py --runs runs/caption --kinds none summary attention --test      score on test, once
    python benchmarks/caption.py --runs runs/caption --kinds --ensemble runs/a/attention runs/b/attention --test

`none` shows the photo to the decoder at its initial state only, `summary` at every step, `attention` attends to a grid
of 7 x 7 regions. Scores are those of the captioning papers: lowercased, without punctuation, five references, the
closest reference length. Published, soft attention with VGG (Xu et al. 2015): BLEU-1 to -4 67.0/44.8/29.9/19.5.
"""

from __future__ import annotations

import argparse
import json
import tarfile
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from common import data, once, report

from windlass.baseline import load_baseline
from windlass.bundle import Bundle
from windlass.data.examples import Example
from windlass.decoding.options import Beam
from windlass.experiment.baselines import baseline_metrics
from windlass.experiment.data import read_data, read_examples
from windlass.experiment.run import run
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
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=list(KINDS))
    parser.add_argument("--minutes", type=float, default=120, help="the longest training")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--set", nargs="*", default=[], dest="settings", metavar="KEY=VALUE")
    parser.add_argument("--ensemble", type=Path, nargs="*", default=[], help="with --test: models to score together")
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
    if options.test and rows:
        score_test(options.runs, folder, rows, options.settings)
    if options.test and options.ensemble:
        score_ensemble(options.ensemble, folder)


def bleu(metrics: dict[str, float]) -> float:
    """The mean of BLEU-1 to BLEU-4."""
    return fmean(metrics[f"bleu_{n}"] for n in (1, 2, 3, 4))


LIMITS: dict[str, Any] = {"unknown": False, "length_factor": 0, "length_plus": 40}
PENALTIES = (0.1, 0.3, 0.5, 0.7)


def scored(models: list[Path], folder: Path, penalties: tuple[float, ...]) -> tuple[dict[str, Any], Sequence[Example]]:
    """The score on test with the search that does best on dev, and the test examples."""
    bundles = [Bundle.load(path) for path in models]
    dev, test = (read_examples(bundles[0].recipe, folder / f"{part}.jsonl").examples for part in ("dev", "test"))
    tried: list[tuple[float, Beam, dict[str, float]]] = []
    for penalty, block in product(penalties, (0, 3)):
        search = Beam(size=5, length_penalty=penalty, block_ngrams=block, **LIMITS)
        found = evaluate(bundles, dev, search).metrics
        tried.append((bleu(found), search, found))
        print(search, found, flush=True)
    _, best, on_dev = max(tried, key=lambda one: one[0])
    found = evaluate(bundles, test, best).metrics
    print(best, found, flush=True)
    return {"search": best.model_dump(), "dev_with_search": on_dev, "test": found}, test


def score_test(runs: Path, folder: Path, rows: list[dict[str, Any]], settings: list[str]) -> None:
    """Score every model on test, and the baseline."""
    for row in rows:
        found, test = scored([runs / row["kind"]], folder, PENALTIES)
        row |= found
    cheap = load_baseline(runs / rows[0]["kind"])
    assert cheap is not None
    assert not hasattr(cheap, "metrics")
    nearest = baseline_metrics(cheap, "caption", test)  # type: ignore[arg-type]
    report("caption", {"rows": rows, "baseline": {"name": cheap.name, "test": nearest}, "settings": settings})


def score_ensemble(models: list[Path], folder: Path) -> None:
    """Score models together on test; their own rows tell how long they were trained."""
    rows = [json.loads(path.with_name(f"{path.name}.row.json").read_text(encoding="utf-8")) for path in models]
    found, _ = scored(models, folder, PENALTIES[2:])
    minutes = [row["training_minutes"] for row in rows]
    recipes = [Bundle.load(path).recipe.model_dump(mode="json") for path in models]
    members = [{"seed": recipe["seed"], "epochs": recipe["train"]["epochs"], **recipe["model"]} for recipe in recipes]
    report("caption-ensemble", {**found, "training_minutes": minutes, "members": members})


if __name__ == "__main__":
    main()
