"""wikidata en-ar: names from Latin to Arabic letters, 41,584 pairs; some have several right answers.

python benchmarks/transliterate.py --runs runs/en-ar          train and score on dev
python benchmarks/transliterate.py --runs runs/en-ar --test   score on test, once
"""

from __future__ import annotations

import argparse
import gzip
from pathlib import Path

import torch
from common import data, load, report

from windlass.baseline import load_baseline
from windlass.bundle import Bundle
from windlass.data.readers import read
from windlass.experiment.baselines import baseline_metrics
from windlass.experiment.data import read_data
from windlass.experiment.run import run
from windlass.inference.evaluate import evaluate
from windlass.recipe import compose, setting
from windlass.training.progress import RichProgress


def prepared(runs: Path, part: str) -> str:
    """The files hold letters separated by spaces; names are written without, so that CER counts letters."""
    path = runs / f"{part}.tsv"
    if not path.exists():
        runs.mkdir(parents=True, exist_ok=True)
        with gzip.open(data("transliteration/wikidata-en-ar") / f"{part}.tsv.gz", "rt", encoding="utf-8") as file:
            rows = [line.rstrip("\n").split("\t") for line in file]
        path.write_text("".join(f"{row[0]}\t{row[1].replace(' ', '')}\n" for row in rows), encoding="utf-8")
    return str(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="the folder for data and model")
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--set", nargs="*", default=[], dest="settings", metavar="KEY=VALUE")
    parser.add_argument("--test", action="store_true", help="score on test and write the result")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    out = options.runs / "model"
    files = {"train": [prepared(options.runs, "train")], "dev": prepared(options.runs, "dev")}
    recipe = compose(
        "transliterate", None, [{"data": files, "train": {"minutes": options.minutes}}, *map(setting, options.settings)]
    )
    before = load()
    outcome = run(recipe, read_data(recipe), out, RichProgress(), resume=(out / "training").is_dir())
    row = {"dev": outcome.dev.metrics, "minutes": outcome.fit.seconds / 60, "load": before}
    print(row)
    if options.test:
        examples = read(prepared(options.runs, "test"), recipe.data).examples
        found = evaluate([Bundle.load(out)], examples)
        cheap = baseline_metrics(load_baseline(out), "transliterate", examples)
        report("transliterate", row | {"test": found.metrics, "examples": found.examples, "baseline": cheap})
        print(found.metrics)


if __name__ == "__main__":
    main()
