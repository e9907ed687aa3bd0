"""What the decks claim of a model, measured on real data: each claim an experiment in which one part differs.

    python benchmarks/claims.py --runs runs/claims                              all, train and score on dev
    python benchmarks/claims.py --runs runs/claims --only stacks scores         some of them
    python benchmarks/claims.py --runs runs/claims --only tags --arms convolution
    python benchmarks/claims.py --runs runs/claims --seeds 1 2 3
    python benchmarks/claims.py --runs runs/claims --test                       score the same models on test, once
    python benchmarks/claims.py --runs runs/claims --baselines                  only what the baselines score

The task's own recipe, made shorter where the table below says so, on one thread. Pronunciation is that of three
languages of SIGMORPHON 2020, by an LSTM with attention, for 15 epochs with dropout 0.1; scores are means over the
languages. Finished runs are kept, and a stopped run goes on; an arm that several claims have is trained once. The
results of all go to benchmarks/results/claims.json, where rows that are not measured again stay.
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from common import data, kept_rows, load, report, spread
from document import prepare
from translate import CONTEXTS, pair

from windlass.comparing.candidates import Candidate, assign_groups
from windlass.comparing.compare import run_all
from windlass.data.trees import Tree
from windlass.experiment.baselines import baseline_metrics, choose_baseline
from windlass.experiment.data import read_data, read_examples
from windlass.experiment.loaders import fit_sides
from windlass.recipe import compose, setting

LANGUAGES = ("geo", "gre", "lit")


@dataclass(frozen=True)
class Files:
    """One set of data: what the recipe's `data` says, and a file for the test."""

    data: dict[str, Any]
    test: str


def _pronunciation(runs: Path) -> list[Files]:
    root = data("g2p/sigmorphon2020")
    return [
        Files(
            {"train": [str(root / f"train/{name}_train.tsv")], "dev": str(root / f"dev/{name}_dev.tsv")},
            str(root / f"test/{name}_test.tsv"),
        )
        for name in LANGUAGES
    ]


def _letters(runs: Path) -> list[Files]:
    """The same words, phonemes without spaces between them: one vocabulary for both sides."""
    root, folder = data("g2p/sigmorphon2020"), runs / "letters"
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for name in LANGUAGES:
        paths = {part: folder / f"{name}_{part}.tsv" for part in ("train", "dev", "test")}
        for part, path in paths.items():
            lines = (root / part / f"{name}_{part}.tsv").read_text(encoding="utf-8").splitlines()
            path.write_text("".join(f"{line.replace(' ', '')}\n" for line in lines), encoding="utf-8")
        files = {"train": [str(paths["train"])], "dev": str(paths["dev"]), "header": "no"}
        made.append(Files(files, str(paths["test"])))
    return made


def _questions(runs: Path) -> list[Files]:
    root = data("classification/trec6")
    return [Files({"train": [str(root / "TREC.train.all.gz")], "format": "labelled"}, str(root / "TREC.test.all.gz"))]


def _english(runs: Path) -> list[Files]:
    train, dev, test = (
        str(data("tagging/UD_English-EWT") / f"en_ewt-ud-{part}.conllu.gz") for part in ("train", "dev", "test")
    )
    return [Files({"train": [train], "dev": dev}, test)]


def _german(runs: Path) -> list[Files]:
    return [Files({"train": [pair("train")], "dev": pair("val")}, pair("test_2016_flickr"))]


def _posts(runs: Path) -> list[Files]:
    folder = runs / "20news"
    if not (folder / "test.jsonl").exists():
        prepare(folder, words=300)
    return [Files({"train": [str(folder / "train.jsonl")]}, str(folder / "test.jsonl"))]


def _entailed(runs: Path) -> list[Files]:
    """Premise and hypothesis of the entailed pairs of SICK."""
    folder, names = runs / "sick", {"train": "train", "dev": "trial", "test": "test_annotated"}
    folder.mkdir(parents=True, exist_ok=True)
    for part, name in names.items():
        with gzip.open(data("entailment/sick") / f"SICK_{name}.txt.gz", "rt", encoding="utf-8") as file:
            rows = [line.rstrip("\n").split("\t") for line in file]
        text = "".join(f"{row[1]}\t{row[2]}\n" for row in rows if row[4] == "ENTAILMENT")
        (folder / f"{part}.tsv").write_text(text, encoding="utf-8")
    files = {"train": [str(folder / "train.tsv")], "dev": str(folder / "dev.tsv"), "header": "no"}
    return [Files(files, str(folder / "test.tsv"))]


def _treebank(runs: Path) -> list[Files]:
    """The dependency trees of UD English-EWT as constituents; sentences with crossing arcs are left out."""
    folder = runs / "treebank"
    folder.mkdir(parents=True, exist_ok=True)
    for part in ("train", "dev", "test"):
        with gzip.open(data("tagging/UD_English-EWT") / f"en_ewt-ud-{part}.conllu.gz", "rt", encoding="utf-8") as file:
            trees = [constituents(sentence) for sentence in sentences(file)]
        (folder / f"{part}.trees").write_text("".join(f"{tree}\n" for tree in trees if tree), encoding="utf-8")
    return [
        Files({"train": [str(folder / "train.trees")], "dev": str(folder / "dev.trees")}, str(folder / "test.trees"))
    ]


def sentences(lines: Iterator[str]) -> Iterator[list[list[str]]]:
    """The words of each sentence of a CoNLL-U file, as columns."""
    words: list[list[str]] = []
    for line in lines:
        columns = line.rstrip("\n").split("\t")
        if columns[0].isdigit():
            words.append(columns)
        elif not line.strip() and words:
            yield words
            words = []


def constituents(words: list[list[str]]) -> Tree | None:
    """A dependency tree as constituents: a word with its dependents is one, labelled by its relation.

    None where arcs cross, so that a word and all that depends on it are not next to each other.

    >>> words = [["1", "Dogs", "", "NOUN", "", "", "2", "nsubj"], ["2", "bark", "", "VERB", "", "", "0", "root"]]
    >>> print(constituents(words))
    (root (NOUN Dogs) (VERB bark))
    """
    below: dict[int, list[int]] = {place: [] for place in range(len(words) + 1)}
    for place, columns in enumerate(words, 1):
        below[int(columns[6])].append(place)

    def build(place: int) -> tuple[Tree, list[int]]:
        columns = words[place - 1]
        tag = Tree(columns[3], (columns[1].replace("(", "-LRB-").replace(")", "-RRB-"),))
        parts = sorted([(place, tag, [place]), *((each, *build(each)) for each in below[place])], key=lambda p: p[2][0])
        covered = [each for part in parts for each in part[2]]
        children = tuple(part[1] for part in parts)
        return (tag if len(parts) == 1 else Tree(columns[7].partition(":")[0], children)), covered

    tree, covered = build(below[0][0])
    return tree if covered == list(range(1, len(words) + 1)) else None


@dataclass(frozen=True)
class Claim:
    """Recipes that differ in one thing, and what the decks say of it."""

    says: str
    task: str
    files: Callable[[Path], list[Files]]
    arms: dict[str, tuple[str, ...]]
    common: tuple[str, ...] = ()


def both(*settings: str) -> tuple[str, ...]:
    """For encoder and decoder alike."""
    return tuple(f"model.{side}.{each}" for side in ("encoder", "decoder") for each in settings)


G2P = (
    "model.head=text",
    "model.encoder.layers=1",
    "model.decoder.size=128",
    "train.epochs=15",
    "train.auto=[]",
    *both("dropout=0.1", "embedding.dropout=0.1"),
    "model.decoder.readout.dropout=0.1",
)
ATTENTION = "model.decoder.context={{kind: attention, query: previous, score: {}}}"
PREFIX = ("model.encoder=prefix", "vocabulary=joint", "model.decoder.context=none", "model.decoder.start=zeros")
ALONE = ("model.head.svm=null", "model.head.wide=null", "source.ngrams=0", "source.sparse=[]")
SELF = "{{kind: attention, size: {0}, hidden: {1}, layers: {2}, positions: rotary, dropout: 0.3, {3}}}"
CONVOLUTION = "{{kind: convolution, widths: [3], layers: {2}, connect: residual, size: {0}, dropout: 0.3, {3}}}"
WORDS = "embedding: {kind: learned, size: 128, dropout: 0.5, spread: 0.1, blank: 0.1}"
SHARED = "embedding: {kind: learned, size: 256, dropout: 0.3}"
SLOW = "train.optimiser.lr=0.0005"  # a quarter of the recipe's rate, as self-attention may need
CLAIMS = {
    "stacks": Claim(
        "stacks are better; do residual or highway connections help?",
        "pronounce",
        _pronunciation,
        {
            "1 layer": (),
            "2 layers": both("layers=2"),
            "3 layers": both("layers=3"),
            "3 layers, residual": both("layers=3", "connect=residual"),
            "3 layers, highway": both("layers=3", "connect=highway"),
        },
        G2P,
    ),
    "cells": Claim(
        "gates keep what a vanilla RNN forgets; a leaky cell is a running average",
        "pronounce",
        _pronunciation,
        {"lstm": (), "gru": both("cell=gru"), "rnn": both("cell=rnn")}
        | {"leaky": ("model.encoder.cell=leaky",), "leaky, both sides": both("cell=leaky")},
        G2P,
    ),
    "parallel": Claim(
        "are cells of today better?",
        "pronounce",
        _pronunciation,
        {
            "lstm": (),
            **{cell: both(f"cell={cell}") for cell in ("min_gru", "min_lstm", "sru", "mlstm", "slstm")},
        },
        (*G2P, *both("layers=2", "connect=residual"), ATTENTION.format("additive").replace("previous", "current")),
    ),
    "start": Claim(
        "s_0 may be zeros, learned, or the summary of the source",
        "pronounce",
        _pronunciation,
        {
            "zeros": (),
            "learned": ("model.encoder.start=learned", "model.decoder.start=learned"),
            "summary": ("model.encoder.start=zeros", "model.decoder.start=summary"),
        },
        G2P,
    ),
    "delayed": Claim(
        "one network may read the source and then write, with and without its last output; two are better",
        "text",
        _letters,
        {
            "attention": (),
            "encoder and decoder, no attention": ("model.decoder.context=none", "model.decoder.start=summary"),
            "encoder and decoder, no feedback": ("model.decoder.feedback=false", "model.decoder.readout=state"),
            "one network": PREFIX,
            "one network, no feedback": (*PREFIX, "model.decoder.feedback=false", "model.decoder.readout=state"),
        },
        tuple(each for each in G2P if "decoder.embedding" not in each and "decoder.size" not in each),
    ),
    "scores": Claim(
        "any function of query and key may be the score",
        "pronounce",
        _pronunciation,
        {
            "additive": (),
            "mlp": (ATTENTION.format("{kind: mlp, size: 128}"),),
            "dot": (ATTENTION.format("dot"),),
            "scaled dot": (ATTENTION.format("scaled_dot"),),
            "bilinear": (ATTENTION.format("bilinear"),),
            "cosine": (ATTENTION.format("cosine"),),
        },
        (*G2P, "model.encoder.size=64"),  # of both directions: keys as long as queries, which products need
    ),
    "sampling": Claim(
        "does training on one's own outputs help?",
        "pronounce",
        _pronunciation,
        {
            "teacher forcing": (),
            "scheduled sampling to 0.1": ("train.sampling={kind: linear, first: 0, last: 0.1, epochs: 10}",),
            "scheduled sampling to 0.3": ("train.sampling={kind: linear, first: 0, last: 0.3, epochs: 10}",),
        },
        G2P,
    ),
    "optimisers": Claim(
        "Adam or SGD with momentum?",
        "pronounce",
        _pronunciation,
        {
            "Adam, 0.003": (),
            "SGD with momentum, 0.03": ("train.optimiser={kind: sgd, lr: 0.03, momentum: 0.9}",),
            "SGD with momentum, 0.1": ("train.optimiser={kind: sgd, lr: 0.1, momentum: 0.9}",),
            "SGD with momentum, 0.3": ("train.optimiser={kind: sgd, lr: 0.3, momentum: 0.9}",),
            "SGD with momentum, 1.0": ("train.optimiser={kind: sgd, lr: 1.0, momentum: 0.9}",),
            "SGD with momentum, 3.0": ("train.optimiser={kind: sgd, lr: 3.0, momentum: 0.9}",),
            "SGD, 1.0": ("train.optimiser={kind: sgd, lr: 1.0, momentum: 0}",),
        },
        G2P,
    ),
    "questions": Claim(
        "self-attention and convolution encode a sequence too",
        "classify",
        _questions,
        {
            "recurrent": (),
            "self-attention": (f"model.encoder={SELF.format(128, 256, 2, WORDS)}",),
            "self-attention, lr 0.0005": (f"model.encoder={SELF.format(128, 256, 2, WORDS)}", SLOW),
            "convolution": (f"model.encoder={CONVOLUTION.format(128, 0, 3, WORDS)}",),
        },
        ALONE,
    ),
    "tags": Claim(
        "self-attention and convolution encode a sequence too",
        "tag",
        _english,
        {
            "recurrent": (),
            "self-attention": (f"model.encoder={SELF.format(192, 384, 2, WORDS + ', spelling: recurrent')}",),
            "self-attention, lr 0.0005": (
                f"model.encoder={SELF.format(192, 384, 2, WORDS + ', spelling: recurrent')}",
                SLOW,
            ),
            "convolution": (f"model.encoder={CONVOLUTION.format(192, 0, 3, WORDS + ', spelling: recurrent')}",),
        },
        ("train.epochs=5", "train.auto=[]"),
    ),
    "translation": Claim(
        "self-attention and convolution encode a sequence too",
        "translate",
        _german,
        {
            "recurrent": (),
            "self-attention": (f"model.encoder={SELF.format(256, 512, 3, SHARED)}",),
            "self-attention, lr 0.0005": (f"model.encoder={SELF.format(256, 512, 3, SHARED)}", SLOW),
            "convolution": (f"model.encoder={CONVOLUTION.format(256, 0, 4, SHARED)}",),
        },
        (
            "model.decoder={kind: recurrent, size: 256}",
            "train.epochs=4",
            "train.auto=[]",
            "train.precision=bfloat16",
            "search=greedy",
        ),
    ),
    "documents": Claim(
        "attention over words and sentences is better than the last states of a hierarchical RNN",
        "classify-document",
        _posts,
        {
            "attention at both levels (HAN)": (),
            "last states at both levels": ("model.encoder.words.pool=summary", "model.head.pool=summary"),
            "mean at both levels": ("model.encoder.words.pool=mean", "model.head.pool=mean"),
        },
        (*ALONE, "source.most_sentences=null", "train.epochs=4", "train.auto=[]"),
    ),
    "hypothesis": Claim(
        "a hypothesis can be written from its premise",
        "summarise",
        _entailed,
        {
            name: ("model.decoder.copying=false", *(f"model.decoder.{key}={value}" for key, value in over.items()))
            for name, over in CONTEXTS.items()
        }
        | {"attention and copying": ()},
        ("loss.coverage=0",),
    ),
    "trees": Claim(
        "a tree can be written like a sentence",
        "parse",
        _treebank,
        {
            "attention": (),
            "no attention": ("model.decoder.context=none", "model.decoder.start=summary"),
        },
        ("train.epochs=5", "train.auto=[]", "search=greedy"),
    ),
}


def trained_as(name: str, arm: tuple[str, ...]) -> str:
    """The name of an arm's runs: what changes nothing is the same run for every claim."""
    return name if arm else "as it is"


def candidates(claim: Claim, runs: Path, test: bool, settings: list[str]) -> list[Candidate]:
    """Every arm of a claim on every set of data."""
    usual = {"train": {"threads": 1, "processes": 1}}
    return assign_groups(
        [
            Candidate(
                trained_as(name, arm),
                compose(
                    claim.task, None, [{"data": files.data}, usual, *map(setting, [*claim.common, *arm, *settings])]
                ),
                test=files.test if test else None,
            )
            for files in claim.files(runs)
            for name, arm in claim.arms.items()
        ]
    )


def rows(name: str, claim: Claim, found: Any) -> list[dict[str, Any]]:
    """A row for each arm: means over the sets of data, then mean and deviation over seeds."""
    made = []
    for arm, over in claim.arms.items():
        own = [trial for trial in found.trials if trial.name == trained_as(arm, over)]
        seeds = sorted({trial.seed for trial in own})
        row: dict[str, Any] = {"claim": name, "arm": arm, "metric": own[0].metric, "seeds": len(seeds)}
        for part in ("dev", "test"):
            if all(getattr(trial, part) for trial in own):
                row[part] = spread(
                    [
                        {m: fmean(getattr(t, part)[m] for t in own if t.seed == seed) for m in getattr(own[0], part)}
                        for seed in seeds
                    ]
                )
        made.append(
            row | {"parameters": own[0].parameters, "minutes": round(fmean(trial.seconds for trial in own) / 60, 2)}
        )
    return made


def baselines(name: str, runs: Path) -> dict[str, Any]:
    """What the best simple baseline on dev scores there and on test: means over the sets of data."""
    claim, made = CLAIMS[name], []
    for files in claim.files(runs):
        recipe = compose(claim.task, None, [{"data": files.data}, *map(setting, claim.common)])
        given = read_data(recipe)
        best = choose_baseline(recipe, given, print, fit_sides(recipe, given.train))
        test = read_examples(recipe, files.test).examples
        made.append((best.name, *(baseline_metrics(best, claim.task, part) for part in (given.dev, test))))
    means = [{m: fmean(each[part][m] for each in made) for m in made[0][part]} for part in (1, 2)]
    return {"claim": name, "baseline": ", ".join(sorted({each[0] for each in made})), "dev": means[0], "test": means[1]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="the folder for the models")
    parser.add_argument("--only", nargs="+", choices=list(CLAIMS), default=list(CLAIMS))
    parser.add_argument("--arms", nargs="+", help="only these models of a claim")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--set", nargs="*", default=[], dest="settings", metavar="KEY=VALUE")
    parser.add_argument("--test", action="store_true", help="score on test and write the result")
    parser.add_argument("--baselines", action="store_true", help="score the baselines on dev and test; train nothing")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.baselines:
        beside = [baselines(name, options.runs) for name in options.only]
        report("claims-baselines", {"rows": [*kept_rows("claims-baselines", beside, ("claim",)), *beside]})
        return
    for name in options.only:
        before, claim = load(), CLAIMS[name]
        if options.arms:
            claim = replace(claim, arms={arm: over for arm, over in claim.arms.items() if arm in options.arms})
        named = candidates(claim, options.runs, options.test, options.settings)
        found = run_all(named, options.seeds, options.runs / claim.task, options.jobs)
        made = [row | {"load": before} for row in rows(name, claim, found)]
        for row in made:
            part = row["test" if options.test else "dev"][row["metric"]]
            print(
                f"{name:12} {row['arm']:36} {row['metric']:10} {part['mean']:7.2f} ± {part['deviation']:.2f}"
                f"  {row['parameters'] / 1e6:.2f} M  {row['minutes']:.1f} min",
                flush=True,
            )
        if options.test:
            whole = [*kept_rows("claims", made, ("claim", "arm")), *made]
            whole.sort(
                key=lambda row: (list(CLAIMS).index(row["claim"]), list(CLAIMS[row["claim"]].arms).index(row["arm"]))
            )
            report("claims", {"rows": whole, "says": {each: claim.says for each, claim in CLAIMS.items()}})


if __name__ == "__main__":
    main()
