"""Attention RNN, transformer, RNN with a transformer decoder, and minGRU: as many parameters and as many minutes each.

    python benchmarks/architectures.py --runs runs/arch                            train all and score on dev
    python benchmarks/architectures.py --runs runs/arch --tasks pronounce --languages gre --minutes 2
    python benchmarks/architectures.py --runs runs/arch --equal epochs             as many epochs, not minutes
    python benchmarks/architectures.py --runs runs/arch --test                     score on test, once; write the result

SIGMORPHON 2020 (pronounce, ten languages), Multi30k English to German (translate) and tinyshakespeare (lm). The RNN is
the task's own recipe, or an LSTM with attention; the others get the size that gives as many parameters. With `--equal
time`, the number of epochs is set so that a run, and with it the fall of the learning rate, ends within the minutes.
What is finished is not run again, and a run that was stopped goes on; rows of the result that are not measured again
stay. Beside the score: tokens a second in training and outputs a second in decoding (of a language model: tokens), both
on --threads cores and with the load noted in each row.

SIGMORPHON gets a minute on a core by default, and CTC as a fifth architecture. Dropout is 0.1 there for all: 0.3,
which the recipe has for 60 epochs, was worse for each of the first four on the dev data of Greek.

With three seeds of both, ensembles of five RNN and CTC models are scored too (MIXES); dev chooses one for all
languages, and test scores that one.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from pathlib import Path
from statistics import fmean, median
from typing import Any

import matplotlib as mpl
import torch
from common import RESULTS, data, kept_rows, once, report, spread
from lm import cut, fitting
from pronounce import FORMS, PUBLISHED
from translate import pair

from windlass.bundle import Bundle
from windlass.data.readers import read
from windlass.data.running import read_texts
from windlass.decoding.options import Sample
from windlass.experiment.data import Data, read_data
from windlass.experiment.loaders import fit_sides
from windlass.experiment.run import run
from windlass.inference.evaluate import evaluate
from windlass.inference.generate import generate
from windlass.inference.predict import predict
from windlass.recipe import Recipe, compose, merge, setting
from windlass.training.observe import Silent

mpl.use("Agg")
from matplotlib import pyplot as plt

MINUTES = {"pronounce": 1.0, "translate": 12.0, "lm": 12.0}
METRIC = {"pronounce": "wer", "translate": "bleu", "lm": "nats"}
AXES = {
    "pronounce": ("SIGMORPHON 2020", "words per second", "word error rate, lower is better"),
    "translate": ("Multi30k, English to German", "sentences per second", "BLEU, higher is better"),
    "lm": ("tinyshakespeare", "characters per second", "nats per character, lower is better"),
}
NAMES = {
    "rnn": "RNN (with attention)",
    "transformer": "transformer",
    "rnn-transformer": "RNN encoder, transformer decoder",
    "mingru": "minGRU",
    "ctc": "LSTM with CTC",
}
"""How the picture and the table call the tasks' data and the architectures."""
DROPOUT = {"pronounce": 0.1, "translate": 0.2, "lm": 0.2}
LAYERS = {"pronounce": 3, "translate": 4, "lm": 4}
HIDDEN = {"pronounce": 4, "translate": 2, "lm": 4}
"""Of the feed-forward network, in units of the size."""
LEARNING: dict[str, dict[str, Any]] = {
    "pronounce": {"optimiser": {"kind": "adamw", "lr": 0.003, "weight_decay": 0.01}},
    "translate": {
        "optimiser": {"kind": "adamw", "lr": 0.003, "betas": [0.9, 0.98], "weight_decay": 0.01},
        "schedule": {"warmup": 1000},
        "batch_tokens": 2500,
    },
    "lm": {"chunk": 128},
}
"""Of transformers."""
MIXES = {
    "3 ctc, 2 rnn": {"ctc": 3, "rnn": 2},
    "2 ctc, 3 rnn": {"ctc": 2, "rnn": 3},
}
"""How many models of each architecture an ensemble of five has, the first seeds of each."""
SIZES = range(32, 1025, 8)
"""Sizes that are tried; four heads of an even size share each of them."""


def table(task: str, size: int) -> dict[str, Any]:
    return {"kind": "learned", "size": size, "dropout": DROPOUT[task] if task != "lm" else 0.0}


def layers(task: str, size: int) -> dict[str, Any]:
    """What encoder and decoder of a transformer have alike."""
    return {
        "embedding": table(task, size),
        "size": size,
        "hidden": HIDDEN[task] * size,
        "layers": LAYERS[task],
        "positions": "rotary",
        "dropout": DROPOUT[task],
    }


def rnn(task: str, size: int) -> dict[str, Any]:
    """One layer of LSTM on both sides with attention; of GRU, for translation; a language model has no encoder."""
    if task == "lm":
        return {"model": {"decoder": {"dropout": DROPOUT[task]}}}
    rate: dict[str, Any] = {"dropout": DROPOUT[task]}
    encoder = rate | {"embedding": rate, "layers": 1}
    decoder = rate | {"embedding": rate, "readout": rate, "kind": "recurrent"}
    if task == "pronounce":
        decoder["size"] = 128
    return {"model": {"encoder": encoder, "decoder": decoder}}


def transformer(task: str, size: int) -> dict[str, Any]:
    decoder = {"kind": "transformer", **layers(task, size)}
    if task == "lm":
        return {"model": {"decoder": decoder | {"context": "none", "window": 256}}, "train": LEARNING[task]}
    encoder = {"kind": "attention", **layers(task, size)}
    return {"model": {"encoder": encoder, "decoder": decoder}, "train": LEARNING[task]}


def hybrid(task: str, size: int) -> dict[str, Any]:
    """The recurrent encoder of the recipe; its embedding follows the decoder's where they are one table."""
    encoder = {
        "kind": "recurrent",
        "cell": "gru" if task == "translate" else "lstm",
        "layers": 1,
        "size": 256 if task == "translate" else 128,
        "embedding": table(task, size if task == "translate" else 128),
        "dropout": DROPOUT[task],
    }
    decoder = {"kind": "transformer", **layers(task, size)}
    return {"model": {"encoder": encoder, "decoder": decoder}, "train": LEARNING[task]}


def mingru(task: str, size: int) -> dict[str, Any]:
    """No input feeding, and the current state as the query: nothing then keeps its steps from running in parallel."""
    cell = {"cell": "min_gru", "layers": 2}  # three, with residual connections, were no better on Greek dev words
    if task == "lm":
        return {"model": {"decoder": cell | {"size": size, "dropout": DROPOUT[task]}}}
    attend = {"kind": "attention", "query": "current", "input_feeding": False, "score": {"kind": "additive"}}
    encoder = cell | {"size": size // 2}
    decoder = cell | {"size": size, "context": attend}
    made: dict[str, Any] = merge(rnn(task, size), {"model": {"encoder": encoder, "decoder": decoder}})
    return made


def ctc(task: str, size: int) -> dict[str, Any]:
    """No decoder: every letter writes up to two phonemes."""
    head = {"kind": "ctc", "frames": 2, "dropout": DROPOUT[task]}
    rate = {"dropout": DROPOUT[task]}
    encoder = rate | {"size": size // 2, "layers": 2, "embedding": rate}
    return {"model": {"encoder": encoder, "head": head}}


ARCHITECTURES: dict[str, Callable[[str, int], dict[str, Any]]] = {
    "rnn": rnn,
    "transformer": transformer,
    "rnn-transformer": hybrid,
    "mingru": mingru,
    "ctc": ctc,
}


def possible(name: str, task: str) -> bool:
    """A language model has no encoder to mix; CTC keeps the order of its input."""
    return task == "pronounce" or not (name == "ctc" or (name == "rnn-transformer" and task == "lm"))


def files(task: str, language: str, runs: Path) -> dict[str, Any]:
    """The data of a task, and what is set over its recipe for all architectures alike."""
    if task == "lm":
        train, dev, _ = cut("shakespeare", runs)
        return {"data": {"train": [str(train)], "dev": str(dev)}, "ngram_weight": 0}  # the networks alone
    if task == "translate":
        return {"data": {"train": [pair("train")], "dev": pair("val")}}
    root = data("g2p/sigmorphon2020")
    names = {part: str(root / part / f"{language}_{part}.tsv") for part in ("train", "dev")}
    return {
        "data": {"train": [names["train"]], "dev": names["dev"]},
        "source": {"normal_form": FORMS.get(language, "NFC")},
    }


def recipe_of(name: str, task: str, size: int, over: Sequence[dict[str, Any]]) -> Recipe:
    own = ARCHITECTURES[name](task, size)
    if task == "lm":
        own = merge(own, {"train": {"optimiser": {"kind": "adamw", "lr": 0.002, "weight_decay": 0.1}}})
    return compose(task, None, [over[0], own, *over[1:]])


def parameters(bundle: Bundle) -> int:
    return sum(p.numel() for p in bundle.model.parameters())


def matched(name: str, task: str, over: Sequence[dict[str, Any]], given: Data) -> Recipe:
    """The recipe of an architecture in the size that has about as many parameters as the RNN."""
    first = recipe_of("rnn", task, 0, over)
    if name == "rnn":
        return first
    sides = fit_sides(first, given.train)
    wanted = parameters(Bundle.new(first, sides))

    def off(size: int) -> int:
        return parameters(Bundle.new(recipe_of(name, task, size, over), sides)) - wanted

    low, high = 0, len(SIZES) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if off(SIZES[middle]) <= 0 else (low, middle)
    size = min((SIZES[low], SIZES[high]), key=lambda each: abs(off(each)))
    return recipe_of(name, task, size, over)


@dataclass(frozen=True)
class Run:
    """One model to train."""

    task: str
    language: str
    name: str
    seed: int
    options: argparse.Namespace

    @property
    def out(self) -> Path:
        parts = (self.task, self.language, self.name, self.options.equal, str(self.seed))
        return Path(self.options.runs / "-".join(filter(None, parts)))

    @property
    def over(self) -> list[dict[str, Any]]:
        """What is set over the recipe of the architecture."""
        settings = map(setting, self.options.settings)
        alone = {"train": {"threads": self.options.threads, "processes": 1}}
        return [files(self.task, self.language, self.options.runs), {"seed": self.seed}, *settings, alone]

    @cached_property
    def given(self) -> Data:
        return read_data(recipe_of("rnn", self.task, 0, self.over))

    def recipe(self) -> Recipe:
        """With the size and the epochs that are set once, for every seed and for a run that goes on."""
        kept = self.out.with_name(f"{self.out.name.removesuffix(str(self.seed))}recipe.yaml")
        if not kept.exists():
            recipe = matched(self.name, self.task, self.over, self.given)
            if self.options.equal == "time":
                recipe = fitting(recipe, self.options.minutes or MINUTES[self.task], self.given)
                recipe = recipe.model_copy(update={"train": recipe.train.model_copy(update={"auto": ()})})
            kept.write_text(recipe.to_yaml(), encoding="utf-8")
        return Recipe.from_yaml(kept.read_text(encoding="utf-8")).model_copy(update={"seed": self.seed})


def train(each: Run) -> dict[str, Any]:
    recipe, given, out = each.recipe(), each.given, each.out
    outcome = run(recipe, given, out, Silent(), resume=(out / "training").is_dir())
    if outcome.fit.reason == "interrupted" or outcome.dev is None:
        sys.exit("stopped: the same command goes on")  # a row would be kept as that of a whole run
    lines = (out / "training" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return {
        "architecture": each.name,
        "task": each.task,
        "language": each.language,
        "seed": each.seed,
        "equal": each.options.equal,
        "parameters": parameters(outcome.bundle),
        "size": getattr(recipe.model.decoder, "size", None),
        "dev": outcome.dev.metrics,
        "epochs": outcome.fit.epochs,
        "training_seconds": round(outcome.fit.seconds, 1),
        "tokens_per_second": round(median(json.loads(line)["tokens_per_second"] for line in lines)),
        "outputs_per_second": round(decoding(outcome.bundle, given), 1),
    }


def decoding(bundle: Bundle, given: Data) -> float:
    """Outputs a second with the recipe's search, the better of two rounds; of a language model, tokens a second."""
    seconds = []
    sources = [e.source for e in given.dev[:200]]
    for _ in range(2):
        began = time.perf_counter()
        if bundle.task.language_model:
            count = sum(1 for _ in generate([bundle], "\n", Sample(seed=1, length_plus=500), endless=True))
        else:
            count = len(predict([bundle], sources))
        seconds.append((time.perf_counter() - began) / count)
    return 1 / min(seconds)


def mixed(mix: str, language: str, part: str, runs: Path) -> dict[str, Any]:
    """The error rate of an ensemble on the words of a language."""
    names = [(name, seed) for name, count in MIXES[mix].items() for seed in range(1, count + 1)]
    bundles = [Bundle.load(runs / f"pronounce-{language}-{name}-time-{seed}") for name, seed in names]
    examples = read(data("g2p/sigmorphon2020") / part / f"{language}_{part}.tsv").examples
    return {"mix": mix, "language": language, "part": part, "wer": evaluate(bundles, examples).metrics["wer"]}


def ensembles(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Every ensemble on dev, and the best of them on test."""

    def rows(mix: str, part: str) -> list[dict[str, Any]]:
        name = f"ensemble-{list(MIXES).index(mix)}"
        return [
            once(options.runs / f"{name}-{language}-{part}", partial(mixed, mix, language, part, options.runs))
            for language in options.languages
        ]

    dev = [row for mix in MIXES for row in rows(mix, "dev")]
    return dev + (rows(best_mix(dev)["best"], "test") if options.test else [])


def best_mix(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The ensemble that is best on dev, by its mean error rate over languages, and the means on dev and test."""

    def means(part: str) -> dict[str, float]:
        own = [row for row in rows if row["part"] == part]
        return {mix: fmean(r["wer"] for r in own if r["mix"] == mix) for mix in dict.fromkeys(r["mix"] for r in own)}

    dev, test = means("dev"), means("test")
    best = min(dev, key=lambda mix: dev[mix])
    return {"best": best, "dev": dev, "test": {mix: test[mix] for mix in test if mix == best}}


def score_test(row: dict[str, Any], out: Path, runs: Path) -> dict[str, float]:
    bundle = Bundle.load(out)
    if row["task"] == "lm":
        return evaluate([bundle], read_texts(cut("shakespeare", runs)[2]).examples, rows=1).metrics
    if row["task"] == "translate":
        return evaluate([bundle], read(pair("test_2016_flickr"), bundle.recipe.data).examples).metrics
    path = data("g2p/sigmorphon2020") / "test" / f"{row['language']}_test.tsv"
    return evaluate([bundle], read(path).examples).metrics


def summary(rows: Sequence[dict[str, Any]], part: str) -> list[dict[str, Any]]:
    """One line for every task and architecture: means over languages, mean and deviation over seeds."""
    lines = []
    there = {(row["task"], row["architecture"]) for row in rows}
    for task, name in filter(there.__contains__, product(MINUTES, ARCHITECTURES)):
        own = [row for row in rows if (row["task"], row["architecture"]) == (task, name)]
        seeds = sorted({row["seed"] for row in own})
        by_seed = [fmean(row[part][METRIC[task]] for row in own if row["seed"] == seed) for seed in seeds]
        score = spread([{"score": each} for each in by_seed])["score"]
        figures = ("parameters", "epochs", "training_seconds", "tokens_per_second", "outputs_per_second")
        means = {figure: fmean(row[figure] for row in own) for figure in figures}
        lines.append(
            {"task": task, "architecture": name, "metric": METRIC[task], "seeds": len(seeds), **score, **means}
        )
    return lines


def render(lines: Sequence[dict[str, Any]]) -> str:
    out = [
        "| data | model | parameters | score | epochs | minutes | tokens per second, training | outputs per second |",
        "|---|---|---:|---|---:|---:|---:|---:|",
    ]
    for line in lines:
        digits = 3 if line["metric"] == "nats" else 2
        score = f"{line['metric'].upper() if digits == 2 else 'nats'} {line['mean']:.{digits}f}"
        score += f" ± {line['deviation']:.{digits}f}" if line["seeds"] > 1 else ""
        name = "LSTM" if (line["task"], line["architecture"]) == ("lm", "rnn") else NAMES[line["architecture"]]
        out.append(
            f"| {AXES[line['task']][0]} | {name} | {line['parameters'] / 1e6:.2f} M | {score} | "
            f"{line['epochs']:.0f} | {line['training_seconds'] / 60:.1f} | {line['tokens_per_second']:,.0f} | "
            f"{line['outputs_per_second']:,.0f} |"
        )
    return "\n".join(out)


def draw(lines: Sequence[dict[str, Any]], path: Path) -> None:
    """Score over decoding speed, a panel for every task; the size of a mark is the speed of training."""
    tasks = list(dict.fromkeys(line["task"] for line in lines))
    figure, axes = plt.subplots(1, len(tasks), figsize=(4.2 * len(tasks), 3.6), squeeze=False)
    for axis, task in zip(axes[0], tasks, strict=True):
        own = [line for line in lines if line["task"] == task]
        fastest = max(line["tokens_per_second"] for line in own)
        for line in own:
            x, y, area = line["outputs_per_second"], line["mean"], 250 * line["tokens_per_second"] / fastest
            color = f"C{list(ARCHITECTURES).index(line['architecture'])}"
            axis.errorbar(x, y, yerr=line["deviation"] or None, color=color, capsize=3)
            axis.scatter(x, y, s=area, color=color, alpha=0.6)
        axis.margins(0.25)
        axis.set_xlim(left=0)
        title, across, up = AXES[task]
        axis.set(title=title, xlabel=f"{across}, decoding")
        axis.set_ylabel(up, fontsize=9)
    there = [name for name in ARCHITECTURES if any(line["architecture"] == name for line in lines)]
    marks = [
        plt.Line2D([], [], marker="o", linestyle="", color=f"C{list(ARCHITECTURES).index(n)}", alpha=0.6) for n in there
    ]
    title = "area: tokens per second in training"
    labels = [NAMES[name] for name in there]
    figure.legend(marks, labels, loc="lower center", ncols=len(there), fontsize=8, title=title, title_fontsize=8)
    figure.tight_layout(rect=(0, 0.16, 1, 1))
    figure.savefig(path, dpi=150)
    plt.close(figure)
    print(f"drawn to {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="the folder for the models")
    parser.add_argument("--tasks", nargs="+", default=list(MINUTES), choices=list(MINUTES))
    parser.add_argument("--architectures", nargs="+", default=list(ARCHITECTURES), choices=list(ARCHITECTURES))
    parser.add_argument("--languages", nargs="+", default=list(PUBLISHED), choices=list(PUBLISHED))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--equal", choices=("time", "epochs"), default="time", help="beside the parameters")
    parser.add_argument("--minutes", type=float, help=f"of every run; default: {MINUTES}")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--set", nargs="*", default=[], dest="settings", metavar="KEY=VALUE")
    parser.add_argument("--test", action="store_true", help="score on test and write the result")
    options = parser.parse_args()
    options.runs.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(options.threads)
    rows = []
    for task, language in (
        (t, each) for t in options.tasks for each in (options.languages if t == "pronounce" else [""])
    ):
        names = [name for name in options.architectures if possible(name, task)]
        runs = [Run(task, language, name, seed, options) for seed in options.seeds for name in names]
        for each in runs[: len(names)]:  # the epochs of all are set while the machine is as busy
            each.recipe()
        for each in runs:  # seeds in turns: a machine that slows down slows all of them
            row = once(each.out, partial(train, each))
            if options.test:
                row["test"] = once(
                    each.out.with_name(f"{each.out.name}.test"), partial(score_test, row, each.out, options.runs)
                )
            rows.append(row)
    five = "pronounce" in options.tasks and {1, 2, 3} <= set(options.seeds) and options.equal == "time"
    mixes = ensembles(options) if five and {"rnn", "ctc"} <= set(options.architectures) else []
    part = "test" if options.test else "dev"
    name = "architectures" + ("" if options.equal == "time" else "-epochs")
    if options.test:
        rows = [*kept_rows(name, rows, ("task", "language", "architecture", "seed")), *rows]
        mixes = mixes or kept_rows(name, [], (), "ensembles")  # of one set of models, never of two
    lines = summary(rows, part)
    print(render(lines))
    content = {"lines": lines, "rows": rows, "ensembles": mixes, "settings": options.settings}
    if mixes:
        content["ensemble"] = best_mix(mixes)
        print(content["ensemble"])
    draw(lines, (RESULTS if options.test else options.runs) / f"{name}.png")
    if options.test:
        report(name, content)


if __name__ == "__main__":
    main()
