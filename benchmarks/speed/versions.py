"""Two versions of Windlass side by side: did a change make anything slower?

    git clone . before && git -C before checkout COMMIT
    python benchmarks/speed/versions.py before                   everything: about 15 minutes on two free cores
    python benchmarks/speed/versions.py before --what train --models S --threads 1

Both versions run their own benchmark scripts on the same batches: training of S, M and LM, in turns at every step;
decoding, and training and use of a tagger, in turns at every run. A ratio is the median of the rounds' ratios of time,
new to old: above 1 is slower. Results go to benchmarks/results/versions.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # for `common`, which all benchmarks share

import batches
from common import data, report
from contest import Job
from environments import PEERS
from process import busy, outcome, take_turns
from tag_contest import TagJob
from tagging import sentences

HERE = Path(__file__).parents[2]


def start(checkout: Path, script: str, job: Job | TagJob, errors: Any) -> subprocess.Popen[str]:
    """Start a script of a version's own benchmark, with that version's code."""
    speed = checkout / "benchmarks" / "speed"
    threads = {name: str(job.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    cores = sorted(os.sched_getaffinity(0))[-job.threads :]
    return subprocess.Popen(
        [sys.executable, speed / "contestants" / script, json.dumps(asdict(job))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        env={**os.environ, **threads, "PYTHONPATH": os.pathsep.join([str(checkout / "src"), str(speed)])},
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
    )


def alternate(starts: list[Callable[[Any], subprocess.Popen[str]]]) -> list[dict[str, Any]]:
    """Run one after the other."""
    found = []
    for begin in starts:
        before = busy()
        process = begin(subprocess.PIPE)
        said, wrong = process.communicate()
        found.append({**outcome(said, wrong, process.returncode), **before})
    return found


def rates(run: dict[str, Any]) -> dict[str, float]:
    """Every rate in an outcome by its name: tokens or sentences a second."""
    if "failed" in run:
        raise SystemExit(f"a run failed: {run['failed']}")
    found: dict[str, float] = {}
    for name in ("tokens_per_second", "sentences_per_second", "train", "predict"):
        value = run.get(name)
        if isinstance(value, dict):
            found |= {str(key): float(rate) for key, rate in value.items()}
        elif value is not None:
            found[name] = float(value)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, help="a checkout of the version to compare with")
    parser.add_argument("--what", nargs="+", default=["train", "decode", "tag"], choices=["train", "decode", "tag"])
    parser.add_argument("--models", nargs="+", default=["S", "M", "LM"], choices=["S", "M", "LM"])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each measurement of decoding")
    options = parser.parse_args()
    files = batches.make(data("translation/multi30k-en-de"), PEERS / "batches")
    jobs: list[tuple[str, str, Job | TagJob]] = []
    for model in options.models:
        steps = options.steps * (5 if model == "LM" else 1)
        if "train" in options.what:
            jobs += [(f"train {model}, {t} threads", "ours.py", Job(model, "train", t, str(files[model]), 2, steps))
                     for t in options.threads]  # fmt: skip
        if "decode" in options.what and model != "LM":
            searches = ((1, 1), (1, 64), (5, 1), (5, 64))
            job = Job(model, "decode", 1, str(files[model]), seconds=options.seconds, searches=searches)
            jobs += [(f"decode {model}", "ours.py", job), (f"decode {model}, 8 bits", "ours_8bit.py", job)]
    if "tag" in options.what:
        jobs += [("tagger", "ours_tagger.py", TagJob(1, str(sentences())))]
    runs = []
    for number in range(options.rounds):
        for name, script, job in jobs:
            versions = [("before", options.before.resolve()), ("after", HERE)]
            versions = versions[number % 2 :] + versions[: number % 2]
            turned = isinstance(job, Job) and job.what == "train"
            asked = replace(job, turns=True) if turned else job
            starts = [partial(start, checkout, script, asked) for _, checkout in versions]
            found = take_turns(starts, job) if turned and isinstance(job, Job) else alternate(starts)
            both = {version: rates(run) for (version, _), run in zip(versions, found, strict=True)}
            for key, before in both["before"].items():
                runs.append({"work": name, "of": key, "round": number, "before": before, "after": both["after"][key],
                             "ratio": before / both["after"][key], "load": found[0]["load"]})  # fmt: skip
                print(json.dumps(runs[-1]), flush=True)
    rows = []
    for name, key in dict.fromkeys((run["work"], run["of"]) for run in runs):
        same = [run for run in runs if (run["work"], run["of"]) == (name, key)]
        rows.append({"work": name, "of": key, **{part: median(run[part] for run in same)
                                                 for part in ("before", "after", "ratio")}})  # fmt: skip
        print(f"{name:24} {key:24} {rows[-1]['before']:9.1f} {rows[-1]['after']:9.1f}  ratio {rows[-1]['ratio']:.3f}")
    report("versions", {"rows": rows, "runs": runs})


if __name__ == "__main__":
    main()
