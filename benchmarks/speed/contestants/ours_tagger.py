"""Windlass's own tagger: a recipe as a user would write it."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch

from windlass.bundle import Bundle
from windlass.data.examples import Example, Place
from windlass.evaluate import predict
from windlass.experiment import encode, fit_codecs
from windlass.recipe import compose
from windlass.training.team import Alone

OVER: dict[str, Any] = {
    "model": {
        "encoder": {
            "embedding": {"size": 128, "dropout": 0.5},
            "spelling": {"kind": "recurrent", "embedding": 25, "size": 25, "dropout": 0.5},
            "size": 192,
        },
        "head": {"output": "crf"},
    }
}


def main() -> None:
    job = json.loads(sys.argv[1])
    torch.set_num_threads(job["threads"])
    rows = json.loads(Path(job["data"]).read_text())
    here = Place("rows", 1)
    examples = [Example(tuple(words), (" ".join(tags),), None, here) for words, tags in rows]
    recipe = compose("tag", None, [OVER])
    bundle = Bundle.new(recipe, fit_codecs(recipe, examples))
    parts = [examples[n : n + job["batch"]] for n in range(0, len(examples), job["batch"])]
    optimiser = torch.optim.Adam(bundle.model.parameters())
    bundle.model.train()

    def step(part: list[Example]) -> None:
        encoded = encode(bundle.codecs, part)
        Alone(bundle.model)(bundle.codecs.collate(encoded, range(len(part))), 0.0, 0)
        optimiser.step()

    found = {"train": _rate(step, parts, job["seconds"])}
    bundle.model.eval()
    found["predict"] = _rate(lambda part: predict([bundle], [e.source for e in part]), parts, job["seconds"])
    print("OUTCOME " + json.dumps(found))


def _rate(work: Any, parts: list[list[Example]], seconds: float) -> float:
    """Words a second, after one batch that warms up; of one thread, its own time on the processor."""
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    work(parts[0])
    words, began, n = 0, clock(), 1
    while (spent := clock() - began) < seconds:
        part = parts[n % len(parts)]
        work(part)
        words, n = words + sum(len(e.source) for e in part), n + 1
    return words / spent


if __name__ == "__main__":
    main()
