"""Multi30k, English to German: one model, or the three contexts side by side on the same data and time.

    python benchmarks/translate.py --runs runs/m30k --minutes 90              train and score on dev
    python benchmarks/translate.py --runs runs/m30k --minutes 90 --test       score on test_2016, once
    python benchmarks/translate.py --runs runs/contexts --minutes 25 --contexts none summary attention --test

A run that was stopped goes on where it was. Published: GRU with additive attention 38.1 BLEU, lowercased and
Moses-tokenised (remembered, not re-read).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from common import data, kept_rows, load, report
from lm import fitting

from windlass.bundle import Bundle
from windlass.data.readers import read
from windlass.experiment.data import read_data
from windlass.experiment.run import run
from windlass.inference.evaluate import evaluate
from windlass.metrics.text import bleu_moses_lowercased, signatures
from windlass.recipe import compose, setting
from windlass.training.progress import RichProgress

CONTEXTS = {
    # The readouts differ only in what there is to read: without a context, state and last word.
    "none": {"kind": "recurrent", "context": "none", "start": "summary"},
    "summary": {"kind": "recurrent", "context": "summary", "start": "summary"},
    "attention": {"kind": "recurrent"},
}
"""A GRU with one of the contexts of the decks, over the recipe."""
DECODERS: dict[str, dict[str, str]] = {"transformer": {}, **CONTEXTS}
"""The recipe's own decoder beside them."""


def pair(part: str) -> str:
    root = data("translation/multi30k-en-de")
    return f"{root / (part + '.en.gz')},{root / (part + '.de.gz')}"


def train(out: Path, context: str, minutes: float, settings: list[str], fit: bool) -> dict[str, Any]:
    over = [{"data": {"train": [pair("train")], "dev": pair("val")}}, {"model": {"decoder": DECODERS[context]}}]
    recipe = compose("translate", None, [*over, {"train": {"minutes": minutes}}, *map(setting, settings)])
    before, given = load(), read_data(recipe)
    if fit:
        recipe = fitting(recipe, minutes, given)
    outcome = run(recipe, given, out, RichProgress(), resume=(out / "training").is_dir())
    parameters = sum(p.numel() for p in outcome.bundle.model.parameters())
    return {
        "context": context,
        "dev": outcome.dev.metrics,
        "minutes": outcome.fit.seconds / 60,
        "epochs": outcome.fit.epochs,
        "parameters": parameters,
        "load": before,
    }


def score(out: Path) -> dict[str, Any]:
    bundle = Bundle.load(out)
    examples = read(pair("test_2016_flickr"), bundle.recipe.data).examples
    found = evaluate([bundle], examples)
    texts, references = [p.text for p in found.predictions], [e.targets for e in examples]
    moses = bleu_moses_lowercased(texts, references, "de")
    return found.metrics | moses | {"signatures": signatures(texts, references)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="the folder for the models")
    parser.add_argument("--minutes", type=float, default=90)
    parser.add_argument("--fit", action="store_true", help="as many epochs as fit into the minutes")
    parser.add_argument("--contexts", nargs="+", default=["transformer"], choices=list(DECODERS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--set", nargs="*", default=[], dest="settings", metavar="KEY=VALUE")
    parser.add_argument("--test", action="store_true", help="score on test and write the result")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows = []
    for context in options.contexts:
        out = options.runs / context
        row = train(out, context, options.minutes, options.settings, options.fit) | {"settings": options.settings}
        if options.test:
            row["test"] = score(out)
        rows.append(row)
        print(row, flush=True)
    if options.test:
        name = "translate" if len(rows) == 1 else "translate-contexts"
        report(name, {"rows": [*kept_rows(name, rows, ("context", "settings")), *rows]})


if __name__ == "__main__":
    main()
