"""A hundred, three hundred and a thousand examples: the default recipe of every task, beside its baseline.

    python benchmarks/small.py --runs runs/small                                        all tasks and sizes
    python benchmarks/small.py --runs runs/small --only classify tag --sizes 100 300    some of them

The examples are drawn from the training data by a seed. A tenth of them is held out for the choice of the weights, as
`windlass train` does; the score is that of up to 500 examples of the dev data, which no run sees. A language model
reads the first N hundred characters of the text. Every run uses one thread. A part is left out at a size that its data
does not have.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from answer import questions
from caption import photos
from common import data, kept_rows, load, once, report
from document import prepare
from sound import files_of
from video import captions, gestures

from windlass.baseline.language import LanguageBaselines, language_metrics
from windlass.baseline.verdict import judge
from windlass.bundle import Bundle
from windlass.data.examples import Example
from windlass.demo.grammar import grammar_trees
from windlass.experiment.adapt import adapt
from windlass.experiment.baselines import baseline_metrics
from windlass.experiment.data import Data, read_data
from windlass.experiment.run import run
from windlass.inference.evaluate import Evaluation, evaluate
from windlass.metrics import higher_is_better
from windlass.recipe import compose, setting
from windlass.tasks import TASKS
from windlass.training.observe import Observer

DEV = 500  # examples that are scored
CHARACTERS = 100  # of a language model, for one example of the other tasks
SICK = {"source": "sentence_A", "second": "sentence_B"}
TITLES = {"source": "abstract", "target": "title"}
SOUND = {"source": "sound"}
OWN: dict[str, list[str]] = {"clips": ["source={kind: numbers}"]}  # settings that the data needs


class Notes(Observer):
    """Keeps the notes of a run."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def files(folder: str, train: str, dev: str | None = None) -> Callable[[Path], dict[str, Any]]:
    def find(scratch: Path) -> dict[str, Any]:
        root = data(folder)
        paths = [",".join(str(root / name) for name in part.split(",")) for part in (train, dev or train)]
        return {"train": paths[:1], **({"dev": paths[1]} if dev else {})}

    return find


def names(scratch: Path) -> dict[str, Any]:
    """Names without the spaces between their letters."""
    for part in ("train", "dev"):
        with gzip.open(data("transliteration/wikidata-en-ar") / f"{part}.tsv.gz", "rt", encoding="utf-8") as file:
            rows = [line.rstrip("\n").split("\t") for line in file]
        text = "".join(f"{row[0]}\t{row[1].replace(' ', '')}\n" for row in rows)
        (scratch / f"{part}.tsv").write_text(text, encoding="utf-8")
    return {"train": [str(scratch / "train.tsv")], "dev": str(scratch / "dev.tsv")}


def trees(scratch: Path) -> dict[str, Any]:
    """Trees of a generated grammar."""
    made = grammar_trees(3000, 1)
    for part, rows in (("train", made[:2500]), ("dev", made[2500:])):
        (scratch / f"{part}.trees").write_text("".join(f"{tree}\n" for tree in rows), encoding="utf-8")
    return {"train": [str(scratch / "train.trees")], "dev": str(scratch / "dev.trees")}


def services(scratch: Path) -> dict[str, Any]:
    """What the user of a dialog says, and which services it is about."""
    for part in ("train", "dev"):
        with gzip.open(data("dialog/sgd") / f"{part}.jsonl.gz", "rt", encoding="utf-8") as file:
            dialogs = [json.loads(line) for line in file]
        rows = (
            " ".join(text for speaker, text in dialog["turns"] if speaker == "U")
            + "\t"
            + ",".join(sorted({name.split("_")[0] for name in dialog["services"]}))
            for dialog in dialogs
        )
        (scratch / f"{part}.tsv").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return {"train": [str(scratch / "train.tsv")], "dev": str(scratch / "dev.tsv")}


def documents(scratch: Path) -> dict[str, Any]:
    """Posts without headers, and others of the same groups."""
    prepare(scratch, words=300)
    return {"train": [str(scratch / "train.jsonl")]}


def lists(find: Callable[[Path], dict[str, Any]]) -> Callable[[Path], dict[str, Any]]:
    """The lists of train and dev that another benchmark writes: a path, or a list of one."""

    def both(scratch: Path) -> dict[str, Any]:
        made = {part: path[0] if isinstance(path, list) else path for part, path in find(scratch).items()}
        return {"train": [str(made["train"])], "dev": str(made["dev"])}

    return both


def in_folder(find: Callable[[Path], Path]) -> Callable[[Path], dict[str, Any]]:
    """train.jsonl and dev.jsonl of the folder that another benchmark unpacks."""
    return lists(lambda scratch: {part: find(scratch) / f"{part}.jsonl" for part in ("train", "dev")})


_sick = files("entailment/sick", "SICK_train.txt.gz", "SICK_trial.txt.gz")
PARTS: dict[str, tuple[str, Callable[[Path], dict[str, Any]], dict[str, Any]]] = {
    "classify": ("classify", files("classification/trec6", "TREC.train.all.gz"), {"format": "labelled"}),
    "tag": ("tag", files("tagging/UD_English-EWT", "en_ewt-ud-train.conllu.gz", "en_ewt-ud-dev.conllu.gz"), {}),
    "names": ("tag", files("tagging/wnut17", "wnut17train.conll", "emerging.dev.conll"), {}),
    "multilabel": ("multilabel", services, {"header": "no"}),
    "regress": ("regress", files("headlines/acl_titles", "train.jsonl.gz"), {"source": "title", "target": "year"}),
    "pronounce": ("pronounce", files("g2p/sigmorphon2020", "train/ice_train.tsv", "dev/ice_dev.tsv"), {}),
    "transliterate": ("transliterate", names, {}),
    "entail": ("entail", _sick, {**SICK, "target": "entailment_judgment"}),
    "similarity": ("similarity", _sick, {**SICK, "target": "relatedness_score"}),
    "parse": ("parse", trees, {}),
    "translate": (
        "translate",
        files("translation/multi30k-en-de", "train.en.gz,train.de.gz", "val.en.gz,val.de.gz"),
        {},
    ),
    "summarise": ("summarise", files("headlines/acl_titles", "train.jsonl.gz", "dev.jsonl.gz"), TITLES),
    "reply": ("reply", files("dialog/sgd", "train.jsonl.gz", "dev.jsonl.gz"), {"speaker": "S"}),
    "documents": ("classify-document", documents, {"source": "text", "target": "label"}),
    "unparse": ("unparse", trees, {}),
    "lm": ("lm", files("lm/tinyshakespeare", "input.txt.gz"), {}),
    "photos": ("caption", in_folder(photos), {"source": "image", "target": "captions"}),
    "questions": ("answer", in_folder(questions), {"source": "image", "second": "question", "target": "answer"}),
    "gestures": ("classify-video", lists(gestures), {"source": "video", "target": "label"}),
    "clips": ("caption-video", lists(captions), {"source": "clip", "target": "captions"}),
    "digits": ("classify-sound", lists(partial(files_of, task="digits", without=None)), SOUND | {"target": "label"}),
    "strings": ("transcribe", lists(partial(files_of, task="strings", without=None)), SOUND | {"target": "text"}),
}


def cut(whole: Data, size: int, task: str, seed: int) -> tuple[Data, Sequence[Example]]:
    """Some examples, a tenth of them held out, and others to score."""
    reader, draw = TASKS[task].reader, random.Random(seed)
    if TASKS[task].language_model:
        text = whole.train[0]
        drawn: Sequence[Example] = [Example("", (text.target[: size * CHARACTERS],), None, text.place)]
        scored: Sequence[Example] = whole.dev
    else:
        drawn = draw.sample(list(whole.train), size)
        scored = draw.sample(list(whole.dev), min(DEV, len(whole.dev)))
    train, held = reader.split(drawn, None, TASKS[task].language_model)
    return Data(tuple(train), tuple(held), whole.report), scored


def says(bundle: Bundle, found: Evaluation | None, baseline: dict[str, float], name: str) -> str:
    """What the user is told of a model that is not better than its baseline."""
    verdict = None if found is None else judge(bundle, found, baseline, name)
    return "" if verdict is None else verdict.sentence()


def measure(name: str, size: int, seed: int, out: Path, settings: list[str]) -> dict[str, Any]:
    """The row of one run; an empty one where the data has fewer examples than are asked for."""
    task, find, columns = PARTS[name]
    scratch = out.parent / "data" / name
    scratch.mkdir(parents=True, exist_ok=True)
    content = {"seed": seed, "data": find(scratch) | columns, "train": {"threads": 1, "processes": 1}}
    own = [content, *map(setting, [*OWN.get(name, []), *settings])]
    recipe = compose(task, None, own)
    whole = read_data(recipe)
    if len(whole.train) < size and not TASKS[task].language_model:
        return {}
    part, scored = cut(whole, size, task, seed)
    observer, began, worked = Notes(), time.perf_counter(), time.process_time()
    recipe = adapt(recipe, part.train, own, observer.note)
    begun = (out / "training").is_dir()
    outcome = run(recipe, part, out, observer, resume=begun)
    if outcome.fit.reason == "interrupted":
        sys.exit("stopped")  # a row would be kept as that of a whole run
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - worked
    if begun:  # the time of its first part is known from the run alone
        seconds = cpu_seconds = outcome.fit.seconds
    result = evaluate([outcome.bundle], scored)
    found = result.metrics
    if isinstance(outcome.baseline, LanguageBaselines):
        baseline = language_metrics(outcome.baseline, outcome.bundle, [e.target for e in scored])[outcome.baseline.name]
    else:
        baseline = baseline_metrics(outcome.baseline, task, scored)
    metric = outcome.bundle.task.metric
    metric = metric if metric in baseline else outcome.bundle.task.output_metric
    return {
        "data": name,
        "examples": size,
        "seed": seed,
        "metric": metric,
        "model": round(found[metric], 2),
        "baseline": round(baseline[metric], 2),
        "baseline_name": outcome.baseline.name,
        "better": (found[metric] > baseline[metric]) == higher_is_better(metric),
        "train_says": says(outcome.bundle, outcome.dev, outcome.baseline_metrics, outcome.baseline.name),
        "evaluate_says": says(outcome.bundle, result, baseline, outcome.baseline.name),
        "seconds": round(seconds, 1),
        "cpu_seconds": round(cpu_seconds, 1),
        "steps": outcome.fit.steps,
        "best_step": outcome.fit.best_step,
        "all": found,
        "baseline_all": baseline,
        "notes": [note for note in observer.notes if "; else: " in note],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="the folder for the models")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--sizes", nargs="+", type=int, default=[100, 300, 1000])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--set", nargs="*", default=[], dest="settings", metavar="KEY=VALUE")
    parser.add_argument("--measured", action="store_true", help="only what was measured before: nothing is trained")
    parser.add_argument("--write", action="store_true", help="write the result")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for name in options.only:
        for size in options.sizes:
            for seed in options.seeds:
                out = options.runs / f"{name}-{size}-{seed}"
                if options.measured and not out.with_name(f"{out.name}.row.json").exists():
                    continue
                rows.append(once(out, partial(measure, name, size, seed, out, options.settings)))
    rows = [row for row in rows if "data" in row]
    for row in rows:
        print(
            f"{row['data']:14} {row['examples']:5} {row['metric']:12} {row['model']:7.2f}"
            f"  baseline {row['baseline']:7.2f}  {row['cpu_seconds']:6.1f} s"
            f"  {row['steps']:5} steps, best {row['best_step']}"
        )
    if options.write:
        rows = [*kept_rows("small", rows, ("data", "examples", "seed")), *rows]
        rows.sort(key=lambda row: (list(PARTS).index(row["data"]), row["examples"], row["seed"]))
        report("small", {"rows": rows, "settings": options.settings, "load": load()})


if __name__ == "__main__":
    main()
