"""Titles of papers from their abstracts (20,000 to learn from), with and without copying, beside the first eight words.

    python benchmarks/summarise.py --runs runs/titles --minutes 60            train both and score on dev
    python benchmarks/summarise.py --runs runs/titles --minutes 60 --test     score the same models on test, once
    python benchmarks/summarise.py --runs runs/titles --models copying document --minutes 60

`document` reads the abstract as sentences, through the hierarchical encoder. A run that was stopped goes on where it
was. ROUGE: F1, lowercased, not stemmed.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from common import data, load, report

from windlass.baseline import first_words
from windlass.bundle import Bundle
from windlass.data.readers import DataOptions, read
from windlass.experiment.baselines import baseline_metrics
from windlass.experiment.data import read_data
from windlass.experiment.run import run
from windlass.inference.evaluate import evaluate
from windlass.recipe import compose, setting
from windlass.training.progress import RichProgress

COLUMNS = {"source": "abstract", "target": "title"}
EMBEDDING = "{kind: learned, size: 128, dropout: 0.3}"
LEVEL = "{cell: {kind: gru, reset: after}, size: 128}"
MODELS: dict[str, list[str]] = {
    "copying": [],
    "plain": ["model.decoder.copying=false"],
    "document": [
        "vocabulary=separate",
        "model.tie=target",
        "source={kind: document, tokens: {kind: words, size: 12000}}",
        f"model.encoder={{kind: hierarchical, embedding: {EMBEDDING}, words: {LEVEL}, sentences: {LEVEL}}}",
        "model.decoder.context={kind: hierarchical, query: current, score: bilinear, within: bilinear}",
        "loss.coverage=0",
    ],
}
LEAD = 8


def part(name: str) -> str:
    return str(data("headlines/acl_titles") / f"{name}.jsonl.gz")


def train(out: Path, model: str, minutes: float, settings: list[str]) -> dict[str, Any]:
    files = {"train": [part("train")], "dev": part("dev"), **COLUMNS}
    own = list(map(setting, [*MODELS[model], *settings]))
    recipe = compose("summarise", None, [{"data": files, "train": {"minutes": minutes}}, *own])
    before = load()
    outcome = run(recipe, read_data(recipe), out, RichProgress(), resume=(out / "training").is_dir())
    assert outcome.dev is not None
    return {
        "model": model,
        "dev": outcome.dev.metrics,
        "minutes": outcome.fit.seconds / 60,
        "epochs": outcome.fit.epochs,
        "parameters": sum(p.numel() for p in outcome.bundle.model.parameters()),
        "load": before,
        "settings": [*MODELS[model], *settings],
    }


def score(out: Path) -> dict[str, Any]:
    bundle = Bundle.load(out)
    examples = read(part("test"), DataOptions(max_length=bundle.recipe.data.max_length, **COLUMNS)).examples
    found = evaluate([bundle], examples)
    known = set(bundle.sides.tokenizer.symbols)
    new = [{w for w in bundle.sides.tokenizer.pieces(e.target) if w not in known} for e in examples]
    said = [set(p.answer.tokens) for p in found.predictions]
    names = sum(map(len, new))
    return {
        "test": found.metrics,
        "words of titles that the vocabulary has not": names,
        "of these written": sum(len(a & b) for a, b in zip(new, said, strict=True)),
        "baseline": {"name": f"first {LEAD} words", **baseline_metrics(first_words(LEAD), "summarise", examples)},
        "samples": [
            {"written": p.text, "right": e.target} for p, e in list(zip(found.predictions, examples, strict=True))[:12]
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="the folder for the models")
    parser.add_argument("--minutes", type=float, default=60, help="for each model")
    parser.add_argument("--models", nargs="+", default=["copying", "plain"], choices=list(MODELS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--set", nargs="*", default=[], dest="settings", metavar="KEY=VALUE")
    parser.add_argument("--test", action="store_true", help="score on test and write the result")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows = []
    for model in options.models:
        row = train(options.runs / model, model, options.minutes, options.settings)
        if options.test:
            row |= score(options.runs / model)
        rows.append(row)
        print({name: row[name] for name in row if name != "samples"}, flush=True)
    report("summarise" if options.test else "summarise-dev", {"rows": rows})


if __name__ == "__main__":
    main()
