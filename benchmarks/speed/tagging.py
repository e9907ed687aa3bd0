"""Tagging speed: the CRF's loss and Viterbi against loops in Python, and whole taggers against flair's BiLSTM-CRF.

    python benchmarks/speed/tagging.py --what crf                   a minute on one free core
    python benchmarks/speed/tagging.py --setup                      install flair, once, outside the repository
    python benchmarks/speed/tagging.py                              all of it, some minutes

All take turns, and the median counts; of one thread, its own time on the processor. The CRF: 32 sentences of 20 to 25
words, with 17 tags (universal parts of speech) and 13 (BIO of WNUT17's six kinds of names); the loss with its gradient.
Taggers: sentences of UD English-EWT; a vector a word (128) and a two-way LSTM over its letters (25), a two-way LSTM
(192), a CRF; steps and predictions of 32 sentences.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # for `common`, which all benchmarks share

import crf_loops
import torch
from common import data, load, report
from environments import PEERS, TAGGERS, missing, set_up, versions
from process import run_one

from windlass.data.readers import read
from windlass.nn.crf import Chain

SHAPES = {"UPOS": 17, "WNUT17 BIO": 13}
SENTENCES, SHORTEST, LONGEST = 32, 20, 25


@dataclass(frozen=True)
class TagJob:
    """What a tagger is asked to do."""

    threads: int
    data: str  # a file of sentences: words and tags
    seconds: float
    batch: int = 32


def crf_batch(tags: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, crf_loops.Scores]:
    torch.manual_seed(1)
    emissions = torch.randn(SENTENCES, LONGEST, tags)
    lengths = torch.randint(SHORTEST, LONGEST + 1, (SENTENCES,))
    lengths[0] = LONGEST
    mask = torch.arange(LONGEST) < lengths[:, None]
    gold = torch.randint(tags, (SENTENCES, LONGEST))
    return emissions, gold, mask, (torch.randn(tags), torch.randn(tags, tags), torch.randn(tags))


def our_loss(emissions: torch.Tensor, tags: torch.Tensor, mask: torch.Tensor, scores: crf_loops.Scores) -> torch.Tensor:
    chain = Chain(*scores)
    return (chain.partition(emissions, mask) - chain.path(emissions, tags, mask)).sum()


def our_best(emissions: torch.Tensor, mask: torch.Tensor, scores: crf_loops.Scores) -> list[list[int]]:
    tags = Chain(*scores).best(emissions, mask)[0].tolist()
    return [row[:length] for row, length in zip(tags, mask.sum(1).tolist(), strict=True)]


LOSSES = {"windlass": our_loss, "loop over steps": crf_loops.loop_loss, "tutorial": crf_loops.tutorial_loss}
BESTS = {"windlass": our_best, "loop over steps": crf_loops.loop_best, "tutorial": crf_loops.tutorial_best}


def crf(rounds: int, slow: bool) -> list[dict[str, Any]]:
    """Milliseconds a batch of every way, and how many times as fast ours is."""
    rows = []
    for shape, tags in SHAPES.items():
        emissions, gold, mask, scores = crf_batch(tags)
        emissions.requires_grad_()
        pairs = tuple(part.requires_grad_() for part in scores)

        def step(way: Callable[..., torch.Tensor]) -> None:
            torch.autograd.grad(way(emissions, gold, mask, pairs), (emissions, *pairs))  # noqa: B023

        work: dict[tuple[str, str], Callable[[], Any]] = {}
        for name in LOSSES:
            if slow or name != "tutorial":
                work["loss and gradient", name] = lambda way=LOSSES[name]: step(way)  # type: ignore[misc]
                work["Viterbi", name] = lambda way=BESTS[name]: _free(way, emissions, mask, pairs)  # type: ignore[misc]  # noqa: B023
        spent: dict[tuple[str, str], list[float]] = {key: [] for key in work}
        clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter  # others use the machine too
        for turn in range(rounds + 1):  # the first only warms up
            for key, one in work.items():
                if key[1] == "tutorial" and turn > 2:
                    continue
                began = clock()
                one()
                if turn:
                    spent[key].append(clock() - began)
        for (what, name), seconds in spent.items():
            ours = median(spent[what, "windlass"])
            row = {"shape": shape, "tags": tags, "what": what, "way": name, "ms": round(1000 * median(seconds), 3)}
            rows.append(row | {"ours_is_faster_by": round(median(seconds) / ours, 2)})
            print(rows[-1], flush=True)
    return rows


def _free(way: Callable[..., Any], *given: Any) -> None:
    with torch.no_grad():
        way(*given)


def taggers(rounds: int, seconds: float, threads: int, peers: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Words a second of whole taggers, in processes of their own, in turns."""
    examples = read(data("tagging/UD_English-EWT") / "en_ewt-ud-train.conllu.gz", target="tags").examples[:2000]
    file = peers / "sentences.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps([[list(e.source), e.target.split()] for e in examples]))
    runs: list[dict[str, Any]] = []
    absent = {c.name: why for c in TAGGERS if (why := missing(c, peers))}
    for turn in range(rounds):
        for contestant in TAGGERS:
            if contestant.name not in absent:
                outcome = run_one(contestant, TagJob(threads, str(file), seconds), peers)  # type: ignore[arg-type]
                runs.append({"contestant": contestant.name, "round": turn, **outcome})
                print(runs[-1], flush=True)
    rows = []
    for name in dict.fromkeys(run["contestant"] for run in runs):
        mine = [run for run in runs if run["contestant"] == name and "failed" not in run]
        figures = {key: round(median(r[key] for r in mine)) for key in ("train", "predict")} if mine else {}
        rows.append({"contestant": name, "words_a_second": figures, "runs": len(mine)})
    return rows, {"absent": absent, "runs": runs, "versions": {c.name: versions(c, peers) for c in TAGGERS if c.peer}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--setup", action="store_true", help="install flair and end")
    parser.add_argument("--peers", type=Path, default=PEERS, help="where its environment is")
    parser.add_argument("--what", nargs="+", default=["crf", "taggers"], choices=["crf", "taggers"])
    parser.add_argument("--rounds", type=int, default=30, help="of the CRF; of taggers a tenth")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each measurement of a tagger")
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
        content["taggers"], more = taggers(rounds, options.seconds, options.threads, options.peers)
        print(content["taggers"], more["absent"])
        content |= more
    report("tagging-speed", content)


if __name__ == "__main__":
    main()
