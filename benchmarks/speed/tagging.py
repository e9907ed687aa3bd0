"""Tagging speed: the CRF's loss and Viterbi against loops in Python, and whole taggers against flair's BiLSTM-CRF.

    python benchmarks/speed/tagging.py --what crf                   a minute on one free core
    python benchmarks/speed/tagging.py --setup                      install flair, once, outside the repository
    python benchmarks/speed/tagging.py                              all of it, about three minutes

All take turns, and the median counts; of one thread, its own time on the processor. The CRF: 32 and 64 sentences of 20
to 25 words, with 17 tags (universal parts of speech), 13 and 25 (BIO and BIOES of WNUT17's six kinds of names); the
loss with its gradient. A turn is five calls: the first, after those of others, is told by itself.
Taggers: sentences of UD English-EWT; a vector a word (128) and a two-way LSTM over its letters (25), a two-way LSTM
(192), a CRF; a step of Adam on each of 12 batches of 32 sentences, the same for all, then the tags of each batch.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # for `common`, which all benchmarks share

import crf_loops
import torch
from common import data, load, report
from environments import PEERS, TAGGERS, missing, set_up, versions
from process import run_one
from tag_contest import TagJob

from windlass.data.readers import read
from windlass.data.sides import SideOptions
from windlass.nn.crf import Chain

TAGS = SideOptions(source="words", target="tags")

SHAPES = {"WNUT17 BIO": 13, "UPOS": 17, "WNUT17 BIOES": 25}
SENTENCES, SHORTEST, LONGEST = (32, 64), 20, 25
CALLS = 5
"""A turn: the first call finds what others left in the caches, and is told apart."""


def crf_batch(tags: int, sentences: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, crf_loops.Scores]:
    torch.manual_seed(1)
    emissions = torch.randn(sentences, LONGEST, tags)
    lengths = torch.randint(SHORTEST, LONGEST + 1, (sentences,))
    lengths[0] = LONGEST
    mask = torch.arange(LONGEST) < lengths[:, None]
    gold = torch.randint(tags, (sentences, LONGEST))
    return emissions, gold, mask, (torch.randn(tags), torch.randn(tags, tags), torch.randn(tags))


def our_loss(emissions: torch.Tensor, tags: torch.Tensor, mask: torch.Tensor, scores: crf_loops.Scores) -> torch.Tensor:
    return Chain(*scores).loss(emissions, tags, mask).sum()


def our_best(emissions: torch.Tensor, mask: torch.Tensor, scores: crf_loops.Scores) -> list[list[int]]:
    tags = Chain(*scores).viterbi(emissions, mask)[0].tolist()
    return [row[:length] for row, length in zip(tags, mask.sum(1).tolist(), strict=True)]


LOSSES = {"windlass": our_loss, "loop over steps": crf_loops.loop_loss, "tutorial": crf_loops.tutorial_loss}
BESTS = {
    "windlass": our_best,
    "loop over steps": crf_loops.loop_best,
    "loop, back at once": crf_loops.gathered_best,
    "tutorial": crf_loops.tutorial_best,
}


def crf(rounds: int, slow: bool) -> list[dict[str, Any]]:
    """Milliseconds a batch of every way, and how many times as fast ours is."""
    rows = []
    for (shape, tags), sentences in product(SHAPES.items(), SENTENCES):
        emissions, gold, mask, scores = crf_batch(tags, sentences)
        inputs = (emissions.requires_grad_(), *(part.requires_grad_() for part in scores))
        work: dict[tuple[str, str], Callable[[], Any]] = {}
        for name, loss in LOSSES.items():
            work["loss and gradient", name] = partial(_step, loss, inputs, gold, mask)
        for name, best in BESTS.items():
            work["Viterbi", name] = torch.no_grad()(partial(best, emissions, mask, scores))
        first: dict[tuple[str, str], list[float]] = {key: [] for key in work if slow or key[1] != "tutorial"}
        spent: dict[tuple[str, str], list[float]] = {key: [] for key in first}
        clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter  # others use the machine too
        for turn, key in product(range(rounds + 1), first):  # the first turn only warms up
            if key[1] == "tutorial" and turn > 1:
                continue
            for call in range(2 if key[1] == "tutorial" else CALLS):
                began = clock()
                work[key]()
                if turn:
                    (spent if call else first)[key].append(1000 * (clock() - began))
        for (what, name), ms in spent.items():
            row = {"shape": shape, "tags": tags, "sentences": sentences, "what": what, "way": name}
            for figure, of, mid in (("ms", spent, median), ("fastest_ms", spent, min), ("first_ms", first, median)):
                theirs, ours = mid(of[what, name]), mid(of[what, "windlass"])
                row |= {figure: round(theirs, 3), f"ours_is_faster_by_{figure}": round(theirs / ours, 2)}
            rows.append(row | {"calls": len(ms)})
            print(rows[-1], flush=True)
    return rows


def _step(loss: Callable[..., torch.Tensor], inputs: tuple[torch.Tensor, ...], gold: Any, mask: Any) -> None:
    torch.autograd.grad(loss(inputs[0], gold, mask, inputs[1:]), inputs)


def sentences(batches: int = 12, peers: Path = PEERS) -> Path:
    """Write the sentences that taggers train on to a file."""
    wanted = (batches + 1) * TagJob.batch  # the first batch warms up
    examples = read(data("tagging/UD_English-EWT") / "en_ewt-ud-train.conllu.gz", sides=TAGS).examples[:wanted]
    file = peers / "sentences.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps([[list(e.source), e.target.split()] for e in examples]))
    return file


def taggers(rounds: int, batches: int, threads: int, peers: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Words a second of whole taggers, in processes of their own, in turns."""
    file = sentences(batches, peers)
    runs: list[dict[str, Any]] = []
    absent = {c.name: why for c in TAGGERS if (why := missing(c, peers))}
    for turn in range(rounds):
        for contestant in TAGGERS:
            if contestant.name not in absent:
                outcome = run_one(contestant, TagJob(threads, str(file)), peers)
                runs.append({"contestant": contestant.name, "round": turn, **outcome})
                print(runs[-1], flush=True)
    rows = []
    for name in dict.fromkeys(run["contestant"] for run in runs):
        mine = [run for run in runs if run["contestant"] == name and "failed" not in run]
        figures = ("train", "predict", "loss", "parameters") if mine else ()
        rows.append(
            {"contestant": name, "runs": len(mine), **{key: median(run[key] for run in mine) for key in figures}}
        )
    return rows, {"absent": absent, "runs": runs, "versions": {c.name: versions(c, peers) for c in TAGGERS if c.peer}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--setup", action="store_true", help="install flair and end")
    parser.add_argument("--peers", type=Path, default=PEERS, help="where its environment is")
    parser.add_argument("--what", nargs="+", default=["crf", "taggers"], choices=["crf", "taggers"])
    parser.add_argument("--rounds", type=int, default=30, help="of the CRF; of taggers a tenth")
    parser.add_argument("--batches", type=int, default=12, help="that a tagger trains on and tags")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--no-tutorial", action="store_true", help="leave the slowest loop out")
    options = parser.parse_args()
    if options.setup:
        print(set_up(options.peers, [c.name for c in TAGGERS], TAGGERS) or "installed")
        return
    torch.set_num_threads(options.threads)
    content: dict[str, Any] = {"load": load()}
    if "crf" in options.what:
        content["crf"] = crf(options.rounds, not options.no_tutorial)
    if "taggers" in options.what:
        rounds = max(1, options.rounds // 10)
        content["taggers"], more = taggers(rounds, options.batches, options.threads, options.peers)
        print(content["taggers"], more["absent"])
        content |= more
    report("tagging", content)


if __name__ == "__main__":
    main()
