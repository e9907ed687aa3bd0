"""SIGMORPHON 2020, grapheme to phoneme: ten languages with one recipe, 3,600 words each.

    python benchmarks/pronounce.py --runs runs/g2p            train and score on dev
    python benchmarks/pronounce.py --runs runs/g2p --test     score the same models on test, once, and write the result
    python benchmarks/pronounce.py --runs runs/g2p --seeds 1 2 3 --also runs/attention/LANG-1 runs/attention/LANG-2

Several seeds are scored as an ensemble too; so are models of other runs that --also names, LANG standing for the
language.

Published LSTM baseline (Gorman et al. 2020), word error rate on test: mean 18.53.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import fmean
from typing import Any

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
from windlass.training.observe import Silent

PUBLISHED = {
    "arm": 14.67, "bul": 31.11, "fre": 6.22, "geo": 26.44, "gre": 18.89,
    "hin": 6.67, "hun": 5.33, "ice": 10.00, "kor": 46.89, "lit": 19.11,
}  # fmt: skip


FORMS = {"kor": "NFD"}
"""The Unicode form of the spelling, where dev prefers another than the recipe's NFC: jamo to syllables."""


def folder(runs: Path, language: str, seed: int) -> Path:
    return runs / f"{language}-{seed}"


def train(language: str, seed: int, runs: Path, settings: list[str]) -> dict[str, Any]:
    torch.set_num_threads(1)
    out = folder(runs, language, seed)
    root = data("g2p/sigmorphon2020")
    files = {
        "train": [str(root / "train" / f"{language}_train.tsv")],
        "dev": str(root / "dev" / f"{language}_dev.tsv"),
    }
    own = {
        "seed": seed,
        "data": files,
        "train": {"processes": 1},
        "source": {"normal_form": FORMS.get(language, "NFC")},
    }
    recipe = compose("pronounce", None, [own, *map(setting, settings)])
    before = load()
    outcome = run(recipe, read_data(recipe), out, Silent(), resume=(out / "training").is_dir())  # or stands finished
    assert outcome.dev is not None
    minutes = round(outcome.fit.seconds / 60, 2)  # evaluation included, and the time before a stop
    row = {"language": language, "seed": seed, "dev": outcome.dev.metrics, "minutes": minutes}
    print(row | {"load": before}, flush=True)
    return row | {"load": before}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="the folder for the models")
    parser.add_argument("--languages", nargs="+", default=list(PUBLISHED), choices=list(PUBLISHED))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1], help="several make an ensemble too")
    parser.add_argument("--also", nargs="*", default=[], metavar="MODEL", help="models that join the ensemble")
    parser.add_argument("--jobs", type=int, default=2, help="languages side by side, one thread each")
    parser.add_argument("--set", nargs="*", default=[], dest="settings", metavar="KEY=VALUE")
    parser.add_argument("--name", default="", help="of the result, benchmarks/results/pronounce-NAME.json")
    parser.add_argument("--test", action="store_true", help="score on test and write the result")
    options = parser.parse_args()
    jobs = [(lang, seed) for seed in options.seeds for lang in options.languages]
    with ProcessPoolExecutor(options.jobs) as pool:
        futures = [pool.submit(train, lang, seed, options.runs, options.settings) for lang, seed in jobs]
        rows = [future.result() for future in futures]
    for seed in options.seeds:
        scores = [row["dev"]["wer"] for row in rows if row["seed"] == seed]
        print(f"seed {seed}: mean dev WER {fmean(scores):.2f} over {len(scores)} languages")
    name = f"pronounce{options.name and '-'}{options.name}"
    report(f"{name}-dev", {"rows": rows, "mean": fmean(row["dev"]["wer"] for row in rows)})
    if options.test:
        score_test(name, options, rows)


def score_test(name: str, options: argparse.Namespace, trained: list[dict[str, Any]]) -> None:
    torch.set_num_threads(2)
    root = data("g2p/sigmorphon2020")
    rows = []
    for language in options.languages:
        examples = read(root / "test" / f"{language}_test.tsv").examples
        folders = [folder(options.runs, language, seed) for seed in options.seeds]
        others = [Path(each.replace("LANG", language)) for each in options.also]
        bundles = [Bundle.load(each) for each in folders]
        single = [evaluate([bundle], examples).metrics for bundle in bundles]
        row = {
            "language": language,
            "published": PUBLISHED[language],
            "baseline": baseline_metrics(load_baseline(folders[0]), "pronounce", examples),
            "single": {name: fmean(m[name] for m in single) for name in single[0]},
            "each": [m["wer"] for m in single],
        }
        if len(folders) + len(others) > 1:
            row["ensemble"] = evaluate([*bundles, *map(Bundle.load, others)], examples).metrics
        rows.append(row)
        print(row, flush=True)
    kinds = [kind for kind in ("single", "ensemble") if kind in rows[0]]
    means = {kind: {m: fmean(row[kind][m] for row in rows) for m in ("wer", "per")} for kind in kinds}
    print(means)
    report(name, {"mean": means, "published_mean": fmean(PUBLISHED.values()), "rows": rows, "trained": trained})


if __name__ == "__main__":
    main()
