"""Training and decoding speed, side by side with what people would pick instead, in one command.

    python benchmarks/speed/run.py --setup            install the peers, once (a few GB, outside the repository)
    python benchmarks/speed/run.py                    everything: about 40 minutes on two free cores
    python benchmarks/speed/run.py --what train --models S M           about 25 minutes
    python benchmarks/speed/run.py --what decode                       about 12 minutes
    python benchmarks/speed/run.py --only windlass JoeyNMT --models S --threads 1 --rounds 1

All contestants get the same batches as ids, the same model shape, Adam (dense), and the same number of threads, each in
a process and an environment of its own. They take turns, so that a busy minute of the machine hits all alike. The limit
is one of them: the time of the model's matrix products alone. Results go to benchmarks/results/.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # for `common`, which all benchmarks share

import batches
from common import data, report
from contest import Job
from environments import CONTESTANTS, PEERS, Contestant, missing, set_up, versions
from picture import draw
from process import run_in_turns, run_one
from summary import summarise, table

HERE = Path(__file__).parent


def left_out(contestant: Contestant, job: Job, peers: Path) -> str:
    """Why a contestant has no part in a job, or nothing."""
    if job.model not in contestant.models:
        return contestant.absent.get(job.model, "not made for this model")
    if not (contestant.trains if job.what == "train" else contestant.decodes):
        return f"does not {job.what}"
    if contestant.several and job.threads == 1:
        return "only where there are several cores"
    return missing(contestant, peers)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [c.name for c in CONTESTANTS]
    parser.add_argument("--setup", action="store_true", help="install the peers and end")
    parser.add_argument("--peers", type=Path, default=PEERS, help="where their environments are")
    parser.add_argument("--only", nargs="+", default=names, choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--models", nargs="+", default=["S", "M", "LM"], choices=["S", "M", "LM"])
    parser.add_argument("--what", nargs="+", default=["train", "decode"], choices=["train", "decode"])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2], help="for training; decoding takes one")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warmup", type=int, default=2, help="steps before the clock starts")
    parser.add_argument(
        "--steps", type=int, default=8, help="steps that are timed; five times as many of LM's, which are short"
    )
    parser.add_argument(
        "--by-step", action="store_true", help="in training, take turns at every step: for a machine that is shared"
    )
    parser.add_argument("--seconds", type=float, default=1.0, help="for each measurement of decoding")
    parser.add_argument("--name", default="speed", help="of the result in benchmarks/results")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    if options.setup:
        for name, reason in set_up(options.peers, options.only).items():
            print(f"{name} does not install: {reason}")
        return
    files = batches.make(data("translation/multi30k-en-de"), options.peers / "batches")
    chosen = [c for c in CONTESTANTS if c.name in options.only or c.name == "limit"]
    jobs = [Job(m, "train", t, str(files[m]), options.warmup, options.steps * (5 if m == "LM" else 1))
            for m in options.models for t in options.threads if "train" in options.what]  # fmt: skip
    jobs += [Job(m, "decode", 1, str(files[m]), seconds=options.seconds)
             for m in options.models if m != "LM" and "decode" in options.what]  # fmt: skip
    runs: list[dict[str, Any]] = []
    absent: dict[str, dict[str, str]] = {}  # work -> contestant -> why it is not there
    began = time.monotonic()
    for turn in range(options.rounds):
        for job in jobs:
            turned = chosen[turn % len(chosen) :] + chosen[: turn % len(chosen)]
            whys = {c.name: left_out(c, job, options.peers) for c in turned}
            absent.setdefault(f"{job.what} {job.model}", {}).update({name: why for name, why in whys.items() if why})
            taking_part = [c for c in turned if not whys[c.name]]
            outcomes = (
                run_in_turns(taking_part, job, options.peers)
                if options.by_step and job.what == "train"
                else (run_one(c, job, options.peers) for c in taking_part)
            )
            for contestant, outcome in zip(taking_part, outcomes, strict=True):
                runs.append({"contestant": contestant.name, "model": job.model, "what": job.what,
                             "threads": job.threads, "round": turn, **outcome})  # fmt: skip
                _say(runs[-1], time.monotonic() - began)
    rows = summarise(runs)
    print(table(rows, absent))
    about = {c.name: versions(c, options.peers) for c in chosen if c.peer and not missing(c, options.peers)}
    content = {"rows": rows, "absent": absent, "versions": about, "options": _plain(options), "runs": runs}
    report(options.name, content)
    draw(rows, HERE.parent / "results" / f"{options.name}.png")


def _plain(options: argparse.Namespace) -> dict[str, Any]:
    return {
        name: str(value).replace(str(Path.home()), "~") if isinstance(value, Path) else value
        for name, value in vars(options).items()
    }


def _say(run: dict[str, Any], seconds: float) -> None:
    found = run.get("failed") or run.get("sentences_per_second") or round(run.get("tokens_per_second", 0))
    what = f"{run['what']} {run['model']}, {run['threads']} threads, round {run['round'] + 1}"
    shown = found if isinstance(found, str) else json.dumps(found)
    print(
        f"{seconds:5.0f} s  {what}: {run['contestant']}: {shown}  (load {run['load'][0]}; {run['others']})", flush=True
    )


if __name__ == "__main__":
    main()
