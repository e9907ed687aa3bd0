"""The bottleneck of a fixed-size context: Multi30k, English to German, BLEU by the length of the source.

    python benchmarks/context_bottleneck.py --runs runs/bottleneck           train until dev stops, score on dev
    python benchmarks/context_bottleneck.py --runs runs/bottleneck --test    score on test_2016, once; write the results

Three decoders on the same data, the same otherwise: the source only in the initial state (`none`), its summary at every
step (`summary`), and attention. The learning rate is halved after an epoch without improvement on dev; a run ends after
three epochs without improvement. The picture is written to docs/images/bottleneck.png.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from common import load, report
from translate import CONTEXTS, pair

import windlass
from windlass.recipe import compose, setting

SETTINGS = (
    "model.decoder.size=256",
    "train.schedule={kind: plateau, patience: 1, factor: 0.5, warmup: 200}",
    "train.patience=3",
    "train.epochs=30",
    "train.processes=1",
    "train.auto=[]",
    "search=greedy",
)
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "bottleneck.png"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="the folder for the models")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--set", nargs="*", default=[], dest="settings", metavar="KEY=VALUE")
    parser.add_argument("--test", action="store_true", help="score on test and write the results")
    options = parser.parse_args()
    files = {"data": {"train": [pair("train")], "dev": pair("val")}}
    over = [*map(setting, SETTINGS), *map(setting, options.settings)]
    recipes = {
        name: compose("translate", None, [files, {"model": {"decoder": context}}, *over])
        for name, context in CONTEXTS.items()
    }
    test = pair("test_2016_flickr") if options.test else None
    before = load()
    found = windlass.compare(recipes, test=test, seeds=options.seeds, out=options.runs, by="length")
    print(found.markdown())
    if options.test:
        found.draw_lengths(PICTURE)
        settings = [*SETTINGS, *options.settings]
        report("bottleneck", {**found.to_json(), "settings": settings, "load": before})


if __name__ == "__main__":
    main()
