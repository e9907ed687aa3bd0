"""Language models: tinyshakespeare (characters) and War and Peace (characters, words), beside their baselines.

    python benchmarks/lm.py --runs runs/lm                        train all three and score on dev
    python benchmarks/lm.py --runs runs/lm --texts warpeace --minutes 40
    python benchmarks/lm.py --runs runs/lm --test                 score the same models on test, once
    python benchmarks/lm.py --runs runs/two --texts shakespeare --set model.decoder.layers=2 train.epochs=9
    python benchmarks/lm.py --runs runs/two --texts shakespeare --also runs/lm/shakespeare-1 [--test]   two as one
    python benchmarks/lm.py --runs runs/lm --texts shakespeare --dynamic 0.0001 0.0003 --test   also dynamic evaluation

Models are interpolated with an n-gram model; --set ngram_weight=0 trains the network alone.

Splits are contiguous, train, dev and test in the order of the text: tinyshakespeare 90/5/5, War and Peace 80/10/10 of
its characters. Dev chooses; every token is scored once, with the state carried on from the first to the last. The
number of epochs is set so that the run, and with it the fall of the learning rate, ends within --minutes. The rate of
dynamic evaluation is the one of --dynamic that is best on the first 50,000 characters of dev.
"""

from __future__ import annotations

import argparse
import gzip
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from common import data, kept_rows, once, report

from windlass.baseline.language import LanguageBaselines, language_metrics
from windlass.bundle import Bundle
from windlass.data.running import read_texts
from windlass.experiment.data import read_data
from windlass.experiment.loaders import fit_sides, training_loader
from windlass.experiment.run import run
from windlass.inference.evaluate import evaluate
from windlass.inference.likelihood import ROWS
from windlass.recipe import Recipe, compose, setting
from windlass.training.estimate import estimate
from windlass.training.progress import RichProgress

TEXTS: dict[str, tuple[str, tuple[float, float], tuple[str, ...]]] = {
    "shakespeare": (
        "lm/tinyshakespeare/input.txt.gz",
        (0.90, 0.95),
        (
            "model.decoder.dropout=0.5",
            "model.decoder.embedding.blank=0.03",
            "train.optimiser={kind: adamw, lr: 0.002, weight_decay: 0.1}",
            "train.batch_tokens=1024",
            "train.epochs=17",
            "ngrams=8",
        ),
    ),
    "warpeace": ("lm/warpeace/warpeace.txt.gz", (0.80, 0.90), ("model.decoder.dropout=0.1",)),
    "warpeace-words": (
        "lm/warpeace/warpeace.txt.gz",
        (0.80, 0.90),
        (
            "target.tokens={kind: words, min_count: 3}",
            "target.lowercase=true",
            "model.decoder.size=256",
            "model.decoder.embedding={kind: learned, size: 256, dropout: 0.3}",
            "model.decoder.dropout=0.5",
            "model.tie=target",
            "train.chunk=40",
            "train.batch_tokens=1280",
        ),
    ),
}
"""The file, where dev and test begin, and what is set over the recipe."""


def cut(name: str, runs: Path) -> list[Path]:
    """Train, dev and test as files, cut by characters; words keep the same cuts, and punctuation stands alone."""
    file, (first, second), _ = TEXTS[name]
    path = data(str(Path(file).parent)) / Path(file).name
    text = gzip.decompress(path.read_bytes()).decode("utf-8").replace("\r\n", "\n")
    bounds = [0, round(first * len(text)), round(second * len(text)), len(text)]
    folder = runs / "texts"
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for part, begin, end in zip(("train", "dev", "test"), bounds, bounds[1:], strict=False):
        piece = text[begin:end]
        if name.endswith("words"):
            piece = " ".join("".join(c if c.isalnum() or c in "'’ \n" else f" {c} " for c in piece).split())
        found.append(folder / f"{name}.{part}.txt")
        found[-1].write_text(piece, encoding="utf-8")
    return found


def fitting(recipe: Recipe, minutes: float, scratch: Any) -> Recipe:
    """The recipe with as many epochs as fit into the time, nine tenths of which are for steps."""
    bundle = Bundle.new(recipe, fit_sides(recipe, scratch.train))
    loader = training_loader(bundle, scratch.train)
    seconds = median([estimate(bundle.model, loader, recipe.train).seconds for _ in range(9)][2:])  # two to warm up
    epochs = max(1, int(0.9 * 60 * minutes / seconds))
    print(f"{seconds:.1f} s an epoch: {epochs} epochs in {minutes} minutes", flush=True)
    return recipe.model_copy(
        update={"train": recipe.train.model_copy(update={"epochs": epochs, "minutes": minutes * 1.05})}
    )


DYNAMIC_CHARACTERS = 50_000  # of dev, by which the rate of dynamic evaluation is chosen


def train(name: str, options: argparse.Namespace) -> dict[str, Any]:
    files = cut(name, options.runs)
    own = {"seed": options.seed, "data": {"train": [str(files[0])], "dev": str(files[1])}}
    recipe = compose("lm", None, [own, *map(setting, (*TEXTS[name][2], *options.settings))])
    texts = read_data(recipe)
    if options.minutes is not None:
        recipe = fitting(recipe, options.minutes, texts)
    out = options.runs / f"{name}-{options.seed}"
    outcome = run(recipe, texts, out, RichProgress(), resume=(out / "training").is_dir())
    assert outcome.dev is not None
    return {
        "text": name,
        "seed": options.seed,
        "dev": outcome.dev.metrics,
        "baseline": {outcome.baseline.name: outcome.baseline_metrics},
        "dev_network": outcome.fit.best,
        "ngram_weight": both.weight if (both := outcome.bundle.interpolation) else 0,
        "epochs": outcome.fit.epochs,
        "training_minutes": round(outcome.fit.seconds / 60, 2),
        "settings": [*TEXTS[name][2], *options.settings],
    }


def score_test(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """The state carried on from the end of nothing: test is read as a text of its own, in one row."""
    folder = options.runs / f"{name}-{options.seed}"
    bundle = Bundle.load(folder)
    examples = read_texts(cut(name, options.runs)[2]).examples
    baselines = LanguageBaselines.load(folder)
    assert baselines is not None
    return {
        "text": name,
        "seed": options.seed,
        "test": evaluate([bundle], examples, rows=options.rows).metrics,
        "baselines": language_metrics(baselines, bundle, [e.target for e in examples]),
        "characters": sum(len(e.target) for e in examples),
    }


def together(name: str, options: argparse.Namespace, part: int) -> dict[str, float]:
    """Figures of the model that was trained and of the others that were named, as one, on a part of the text."""
    bundles = [Bundle.load(folder) for folder in (options.runs / f"{name}-{options.seed}", *options.also)]
    return evaluate(bundles, read_texts(cut(name, options.runs)[part]).examples, rows=options.rows).metrics


def dynamic(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Nats on dev for every rate of dynamic evaluation, and without."""
    bundle = Bundle.load(options.runs / f"{name}-{options.seed}")
    (example,) = read_texts(cut(name, options.runs)[1]).examples
    part = [replace(example, targets=(example.target[:DYNAMIC_CHARACTERS],))]
    found = {}
    for rate in (None, *options.dynamic):
        found[str(rate)] = evaluate([bundle], part, rows=1, dynamic=rate).metrics["nats"]
        print(f"{name}, dynamic evaluation at {rate}: {found[str(rate)]:.4f} on dev", flush=True)
    best = min(options.dynamic, key=lambda rate: found[str(rate)])
    return {"dynamic dev": found, "dynamic rate": best}


def score_dynamic(row: dict[str, Any], options: argparse.Namespace) -> dict[str, float]:
    """Figures on test of dynamic evaluation, at the rate that dev chose."""
    bundle = Bundle.load(options.runs / f"{row['text']}-{options.seed}")
    examples = read_texts(cut(row["text"], options.runs)[2]).examples
    return evaluate([bundle], examples, rows=1, dynamic=row["dynamic rate"]).metrics


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="the folder for the models")
    parser.add_argument("--texts", nargs="+", default=list(TEXTS), choices=list(TEXTS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, help="set the number of epochs so that a run takes so long")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rows", type=int, default=1, help=f"rows that test is read in; while training {ROWS}")
    parser.add_argument(
        "--also", nargs="*", default=[], type=Path, help="bundles to score together with the one trained"
    )
    parser.add_argument("--dynamic", nargs="*", default=[], type=float, metavar="RATE", help="of dynamic evaluation")
    parser.add_argument("--set", nargs="*", default=[], dest="settings", metavar="KEY=VALUE")
    parser.add_argument("--test", action="store_true", help="score what was trained on test and write the result")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    options.settings.append(f"train.threads={options.threads}")
    rows = []
    for name in options.texts:
        rows.append(once(options.runs / f"{name}-{options.seed}", partial(train, name, options)))
        if options.also:
            rows[-1] |= {"also": list(map(str, options.also)), "dev together": together(name, options, 1)}
            print(rows[-1]["dev together"], flush=True)
        if options.dynamic:
            rows[-1] |= dynamic(name, options)
    if options.test:
        for row in rows:
            row |= score_test(row["text"], options)
            if options.also:
                row["test together"] = together(row["text"], options, 2)
            if options.dynamic:
                row["dynamic test"] = score_dynamic(row, options)
            print(row, flush=True)
        report("lm", {"rows": [*kept_rows("lm", rows, ("text", "settings")), *rows]})


if __name__ == "__main__":
    main()
