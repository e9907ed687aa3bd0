"""GRU, LSTM and vanilla RNN on three real tasks: size, time and score, three seeds, one table and one picture.

    python benchmarks/compare.py --runs runs/cells                  train and score on dev; goes on where it stopped
    python benchmarks/compare.py --runs runs/cells --test           score the same models on test, once

TREC-6 (classify), UD English-EWT (tag) and tinyshakespeare (lm); also one language of SIGMORPHON 2020 (pronounce).
Every task's own recipe, tag and lm made shorter so that 27 runs fit into an hour or two; only the cell differs, in
encoder, decoder and the reader of letters alike.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from common import data, load, report
from lm import cut

from windlass.commands.compare import _print as print_comparison
from windlass.comparing.candidates import Candidate, assign_groups
from windlass.comparing.compare import run_all
from windlass.recipe import compose, override, setting

SHORTER = {"tag": ["train.epochs=3"], "lm": ["train.epochs=2", "model.decoder.size=256", "ngram_weight=0"]}
CELLS: dict[str, Any] = {"gru": {"kind": "gru", "reset": "after"}, "lstm": "lstm", "rnn": "rnn"}


def task(name: str, language: str, runs: Path) -> tuple[list[str], dict[str, Any], Path]:
    """Where a task's cells are, its data and its test file."""
    if name == "lm":
        train, dev, test = cut("shakespeare", runs)
        return ["model.decoder.cell"], {"train": [str(train)], "dev": str(dev)}, test
    if name == "classify":
        root = data("classification/trec6")
        files: dict[str, Any] = {"train": [str(root / "TREC.train.all.gz")], "format": "labelled"}
        return ["model.encoder.cell"], files, root / "TREC.test.all.gz"
    if name == "tag":
        root = data("tagging/UD_English-EWT")
        train, dev, test = (root / f"en_ewt-ud-{part}.conllu.gz" for part in ("train", "dev", "test"))
        return ["model.encoder.cell", "model.encoder.spelling.cell"], {"train": [str(train)], "dev": str(dev)}, test
    root = data("g2p/sigmorphon2020")
    files = {"train": [str(root / f"train/{language}_train.tsv")], "dev": str(root / f"dev/{language}_dev.tsv")}
    return ["model.encoder.cell", "model.decoder.cell"], files, root / f"test/{language}_test.tsv"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="the folder for models, table and picture")
    parser.add_argument("--tasks", nargs="+", default=["classify", "tag", "lm"])
    parser.add_argument("--cells", nargs="+", choices=list(CELLS), default=list(CELLS))
    parser.add_argument("--language", default="gre", help="of SIGMORPHON 2020")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--set", nargs="*", default=[], dest="settings", metavar="KEY=VALUE")
    parser.add_argument("--test", action="store_true", help="score on test and write the result")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    named = []
    for name in options.tasks:
        places, files, test = task(name, options.language, options.runs)
        for cell in options.cells:
            over = [{"data": files, "train": {"threads": options.threads, "processes": 1}}]
            over += [override(place, CELLS[cell]) for place in places]
            recipe = compose(name, None, [*over, *map(setting, [*SHORTER.get(name, []), *options.settings])])
            named.append(Candidate(cell, recipe, test=str(test) if options.test else None))
    before = load()
    found = run_all(assign_groups(named), options.seeds, options.runs, options.jobs)
    print_comparison(found, options.runs, json_=False, note=print)
    content = found.to_json() | {"settings": options.settings, "load": [before, load()]}
    report("compare" if options.test else "compare-dev", content)


if __name__ == "__main__":
    main()
