"""Schema-guided dialogs: the next turn of the system from the whole dialog (hierarchical) or its last turn (flat).

    python benchmarks/dialog.py --runs runs/sgd --dialogs 2000 --minutes 60           train both and score on dev
    python benchmarks/dialog.py --runs runs/sgd --dialogs 2000 --minutes 60 --test    score them on test, once

`--dialogs` caps those learned from, `--dev-dialogs` those chosen by, so that a run fits into its time; both are in the
result. Test is whole unless `--test-dialogs` caps it. A run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import gzip
from pathlib import Path
from typing import Any

import torch
from common import data, load, report

from windlass.baseline import Baseline, most_frequent
from windlass.bundle import Bundle
from windlass.data.dialogs import read_dialogs
from windlass.experiment.baselines import baseline_metrics
from windlass.experiment.data import read_data
from windlass.experiment.run import run
from windlass.inference.evaluate import evaluate
from windlass.recipe import compose, setting
from windlass.training.progress import RichProgress

WORDS = "{kind: words, min_count: 2, cut: punctuation}"
RECURRENT = (
    "{kind: recurrent, embedding: {kind: learned, size: 128, dropout: 0.2}, cell: {kind: gru, reset: after}, size: 128}"
)
MODELS: dict[str, list[str]] = {
    "hierarchical": [],
    "flat": [
        "data.history=1",
        "train.batch_tokens=630",  # a fifth of the tokens is as many turns, and so as many steps an epoch
        f"source={{kind: text, tokens: {WORDS}, lowercase: true}}",
        f"model.encoder={RECURRENT}",
        "model.decoder.context={kind: attention, query: current, score: bilinear}",
    ],
}


def part(name: str, most: int | None, folder: Path) -> Path:
    """The first so many dialogs of a part, as a file of its own; all of them as they are."""
    whole = data("dialog/sgd") / f"{name}.jsonl.gz"
    if most is None:
        return whole
    capped = folder / f"{name}-{most}.jsonl"
    if not capped.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with gzip.open(whole, "rt", encoding="utf-8") as lines:
            capped.write_text("".join(line for _, line in zip(range(most), lines, strict=False)), encoding="utf-8")
    return capped


def train(options: argparse.Namespace, model: str) -> dict[str, Any]:
    out = options.runs / model
    files = {
        "train": [str(part("train", options.dialogs, options.runs))],
        "dev": str(part("dev", options.dev_dialogs, options.runs)),
        "speaker": "S",
    }
    own = list(map(setting, [*MODELS[model], *options.settings]))
    recipe = compose("reply", None, [{"data": files, "train": {"minutes": options.minutes}}, *own])
    before = load()
    examples = read_data(recipe)
    outcome = run(recipe, examples, out, RichProgress(), resume=(out / "training").is_dir())
    assert outcome.dev is not None
    return {
        "model": model,
        "dev": outcome.dev.metrics,
        "turns": len(examples.train),
        "minutes": outcome.fit.seconds / 60,
        "epochs": outcome.fit.epochs,
        "parameters": sum(p.numel() for p in outcome.bundle.model.parameters()),
        "load": before,
        "settings": [*MODELS[model], *options.settings],
    }


def score(out: Path, learned: Path, held_out: Path) -> dict[str, Any]:
    bundle = Bundle.load(out)
    examples = read_dialogs(held_out, bundle.recipe.data).examples
    found = evaluate([bundle], examples)
    pairs = [(e.source, e.target) for e in read_dialogs(learned, bundle.recipe.data).examples]
    cheap = {
        b.name: baseline_metrics(b, "reply", examples)
        for b in (Baseline("last part", "last part"), most_frequent(pairs))
    }
    lines = [
        {"said": e.text[-200:], "reply": p.text, "right": e.target}
        for p, e in list(zip(found.predictions, examples, strict=True))[:20]
    ]
    return {"test": found.metrics, "test turns": len(examples), "baselines": cheap, "samples": lines}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="the folder for the models")
    parser.add_argument("--minutes", type=float, default=60, help="for each model")
    parser.add_argument("--dialogs", type=int, default=None, help="learn from so many; all unless told")
    parser.add_argument("--dev-dialogs", type=int, default=100, help="choose by so many")
    parser.add_argument("--test-dialogs", type=int, default=None, help="score on so many; all unless told")
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--set", nargs="*", default=[], dest="settings", metavar="KEY=VALUE")
    parser.add_argument("--test", action="store_true", help="score on test and write the result")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows = []
    for model in options.models:
        row = train(options, model)
        if options.test:
            learned = part("train", options.dialogs, options.runs)
            row |= score(options.runs / model, learned, part("test", options.test_dialogs, options.runs))
        rows.append(row)
        print({name: row[name] for name in row if name != "samples"}, flush=True)
    names = ("dialogs", "dev_dialogs", "test_dialogs")
    capped = {name: getattr(options, name) for name in names}
    report("dialog" if options.test else "dialog-dev", {"rows": rows, "capped": capped})


if __name__ == "__main__":
    main()
