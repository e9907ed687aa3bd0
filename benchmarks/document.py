"""20 newsgroups without headers: the group of a post, by a network of two levels (HAN), a flat one and a bag of words.

    python benchmarks/document.py --runs runs/20news           train all networks, score on dev beside the bag
    python benchmarks/document.py --runs runs/20news --test    score the same models on test, once; write the result

The systems: `han`, the recipe; `alone`, its network without n-grams and support vector machine; `flat`, the recipe
`classify` on a post as one sequence of words. All see the same text: the body of a post (headers name the group), at
most --words of it, cut into words at punctuation, in lower case. A tenth of the training posts is the dev set, the same
for every seed. No outside vectors. A post that is nothing but headers is left out. Each network has --minutes; what a
run has not done by then, it does not do, so its schedule ends there too.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from common import RESULTS, data, kept_rows, once, report, spread

from windlass.baseline import load_baseline
from windlass.bundle import Bundle
from windlass.data.cutting import cut
from windlass.experiment.baselines import baseline_metrics
from windlass.experiment.data import read_data, read_examples
from windlass.experiment.run import run
from windlass.explain.attention import draw, explain
from windlass.explain.confusion import draw_confusion
from windlass.inference.evaluate import evaluate
from windlass.recipe import compose, setting
from windlass.training.observe import Silent
from windlass.training.progress import RichProgress

SYSTEMS = ("han", "alone", "flat")
BLANK = re.compile(r"\n\s*\n")
HAN = ["source.most_sentences=null"]  # posts are cut already
ALONE = ["source.ngrams=0", "source.sparse=[]", "model.head.wide=null", "model.head.svm=null"]
FLAT = [
    "source={kind: words, characters: false, min_count: 3}",
    "data.max_length=1000000",
    "train.batch_tokens=8000",
    "train.epochs=8",
]
"""The flat network is `classify`'s own recipe, on the same words as the other, in batches of the same size."""


def body(post: str, words: int) -> str:
    """A post without its headers, and of the rest so many words at most, lines and all."""
    parts = BLANK.split(post, maxsplit=1)
    text = parts[1] if len(parts) > 1 else ""
    places = cut(text, "punctuation")  # as both networks do: a line of a coded file is a hundred words
    return text if len(places) <= words else text[: places[words - 1][1]]


def prepare(folder: Path, words: int, posts: int | None = None, groups: list[str] | None = None) -> dict[str, int]:
    """Write the bodies of posts as jsonl; return how many there are."""
    counts = {}
    folder.mkdir(parents=True, exist_ok=True)
    for part in ("train", "test"):
        with gzip.open(data("documents/20news") / f"{part}.jsonl.gz", "rt", encoding="utf-8") as file:
            rows = [row for row in map(json.loads, file) if groups is None or row["label"] in groups]
        step = 1 if posts is None else max(1, len(rows) // posts)  # the file goes by group: take from all of it
        kept = [{"text": body(row["text"], words), "label": row["label"]} for row in rows[::step]]
        kept = [row for row in kept if row["text"].strip()]
        (folder / f"{part}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")
        counts[part] = len(kept)
    return counts


def train(system: str, seed: int, out: Path, options: argparse.Namespace) -> dict[str, Any]:
    alone = ALONE if system == "alone" else []
    own = [*FLAT, *options.flat] if system == "flat" else [*HAN, *alone, *options.han]
    task = "classify" if system == "flat" else "classify-document"
    files = {"train": [str(options.runs / "train.jsonl")], "source": "text", "target": "label"}
    limits = {"train": {"minutes": options.minutes}} if options.minutes is not None else {}
    settings = [setting(text) for text in (*own, *options.settings)]
    recipe = compose(task, None, [{"seed": seed, "data": files}, limits, *settings])
    outcome = run(recipe, read_data(recipe), out, RichProgress() if options.verbose else Silent())
    assert outcome.dev is not None
    return {
        "system": system,
        "seed": seed,
        "dev": outcome.dev.metrics,
        "steps": outcome.fit.steps,
        "parameters": sum(p.numel() for p in outcome.bundle.model.parameters()),
        "baseline": {outcome.baseline.name: outcome.baseline_metrics},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="the folder for data and models")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=SYSTEMS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--minutes", type=float, help="for each run; else as many as its epochs take")
    parser.add_argument("--words", type=int, default=500, help="of a post, at most")
    parser.add_argument("--posts", type=int, help="about so many only, for a quick look")
    parser.add_argument("--groups", nargs="+", metavar="NAME", help="these only, for a quick look")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--set", nargs="*", default=[], dest="settings", metavar="KEY=VALUE", help="for both networks")
    parser.add_argument("--han", nargs="*", default=[], metavar="KEY=VALUE", help="for the one of two levels")
    parser.add_argument("--flat", nargs="*", default=[], metavar="KEY=VALUE", help="for the flat one")
    parser.add_argument("--verbose", action="store_true", help="show progress")
    parser.add_argument("--test", action="store_true", help="score on test and write the result")
    options = parser.parse_args()
    whole = options.posts is None and options.groups is None
    if options.test and not whole:
        parser.error("--test is for all posts of all groups: leave --posts and --groups out")
    torch.set_num_threads(options.threads)
    counts = prepare(options.runs, options.words, options.posts, options.groups)
    rows = []
    for system, seed in product(options.systems, options.seeds):
        out = options.runs / f"{system}-{seed}"
        rows.append(once(out, partial(train, system, seed, out, options)))
    dev = {system: spread([row["dev"] for row in rows if row["system"] == system]) for system in options.systems}
    print("dev", dev)
    about = {"posts": counts, "words": options.words, "settings": [*options.settings, *options.han, *options.flat]}
    if whole:
        report("document-dev", {"rows": rows, "dev": dev, **about})
    if options.test:
        score_test(options, rows, about)


def score_test(options: argparse.Namespace, rows: list[dict[str, Any]], about: dict[str, Any]) -> None:
    content: dict[str, Any] = {"test": {}, "each": {}, "ensemble": {}, "trained": rows, **about}
    for system in options.systems:
        bundles = [Bundle.load(options.runs / f"{system}-{seed}") for seed in options.seeds]
        examples = read_examples(bundles[0].recipe, options.runs / "test.jsonl").examples
        found = [evaluate([bundle], examples) for bundle in bundles]
        content["each"][system] = [one.metrics for one in found]
        content["test"][system] = spread([one.metrics for one in found])
        content["ensemble"][system] = evaluate(bundles, examples).metrics
        cheap = load_baseline(options.runs / f"{system}-{options.seeds[0]}")
        assert cheap is not None
        content["baseline"] = {cheap.name: baseline_metrics(cheap, bundles[0].recipe.task, examples)}
        picture = options.runs / f"confusion-{system}.png"
        draw_confusion([p.text for p in found[0].predictions], [e.targets for e in examples], picture)
        if system != "flat":
            shown = [explain(bundles[0], example.source) for example in examples[:: len(examples) // 5]]
            draw(shown, options.runs / "documents.html", "Five posts of the test set")
    print({name: content[name] for name in ("test", "ensemble", "baseline")})
    report("document", content | kept(content))


def kept(content: dict[str, Any]) -> dict[str, Any]:
    """What was measured before of a system that is not measured now."""
    before = json.loads((RESULTS / "document.json").read_text(encoding="utf-8"))
    tables = {name: before[name] | content[name] for name in ("test", "each", "ensemble")}
    return tables | {
        "trained": [*kept_rows("document", content["trained"], ("system",), "trained"), *content["trained"]]
    }


if __name__ == "__main__":
    main()
