"""The bottleneck of a fixed-size context: Multi30k, English to German, BLEU by the length of the source.

    python benchmarks/context_bottleneck.py --runs runs/bottleneck           train until dev stops, score on dev
    python benchmarks/context_bottleneck.py --runs runs/bottleneck --test    score on test_2016, once; write the results
    python benchmarks/context_bottleneck.py --runs runs/one --contexts attention [--test]      one of them

Three decoders on the same data, the same otherwise: the source only in the initial state (`none`), its summary at every
step (`summary`), and attention. The learning rate is halved after an epoch without improvement on dev; a run ends after
three epochs without improvement. The picture is written to docs/images/bottleneck.png.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

from common import RESULTS, load, report
from translate import CONTEXTS, pair

import windlass
from windlass.comparing.by_length import LengthScores
from windlass.comparing.table import Comparison
from windlass.comparing.trial import Trial
from windlass.recipe import compose, setting

SETTINGS = (
    "model.decoder.size=256",
    "train.schedule={kind: plateau, patience: 1, factor: 0.5, warmup: 200}",
    "train.patience=3",
    "train.epochs=100",
    "train.processes=1",
    "train.auto=[]",
    "search=greedy",
)
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "bottleneck.png"


def with_the_others(found: Comparison) -> Comparison:
    """The comparison with the contexts that were measured before and not now."""
    path = RESULTS / "bottleneck.json"
    if not path.exists():
        return found
    before = json.loads(path.read_text(encoding="utf-8"))
    now = {trial.name for trial in found.trials}
    trials = [*(Trial(**run) for run in before["runs"] if run["name"] not in now), *found.trials]
    scores = LengthScores(**before["by_length"][0]).scores | found.lengths[0].scores
    return replace(
        found,
        trials=tuple(sorted(trials, key=lambda trial: [*CONTEXTS].index(trial.name))),
        lengths=(replace(found.lengths[0], scores={name: scores[name] for name in CONTEXTS if name in scores}),),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="the folder for the models")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--set", nargs="*", default=[], dest="settings", metavar="KEY=VALUE")
    parser.add_argument("--contexts", nargs="+", choices=CONTEXTS, default=[*CONTEXTS])
    parser.add_argument("--test", action="store_true", help="score on test and write the results")
    options = parser.parse_args()
    files = {"data": {"train": [pair("train")], "dev": pair("val")}}
    over = [*map(setting, SETTINGS), *map(setting, options.settings)]
    recipes = {
        name: compose("translate", None, [files, {"model": {"decoder": context}}, *over])
        for name, context in CONTEXTS.items()
        if name in options.contexts
    }
    test = pair("test_2016_flickr") if options.test else None
    before = load()
    found = windlass.compare(recipes, test=test, seeds=options.seeds, out=options.runs, by="length")
    print(found.markdown())
    if options.test:
        whole = with_the_others(found)
        whole.draw_lengths(PICTURE)
        settings = [*SETTINGS, *options.settings]
        report("bottleneck", {**whole.to_json(), "settings": settings, "load": before})


if __name__ == "__main__":
    main()
