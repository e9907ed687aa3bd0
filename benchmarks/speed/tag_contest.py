"""What taggers share: their job, the clock, the outcome. Needs nothing but the standard library.

A tagger is a script in `contestants/`, run in an environment of its own with a job as its argument. Its `run(make)`
makes one step of training on every batch, of sentences of about one length, the same for all; then tags all sentences,
given at once in the order of the file, in batches of its own; and prints one line of JSON.
"""

from __future__ import annotations

import gc
import json
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

Row = tuple[list[str], list[str]]
"""Words and their tags."""


@dataclass(frozen=True)
class TagJob:
    """What a tagger is asked to do."""

    threads: int
    data: str  # a file of sentences: words and tags
    batch: int = 32


class Tagger(Protocol):
    """A model that has seen the sentences, cut into batches, and prepared what it prepares once."""

    parameters: int

    def step(self, batch: int) -> float:
        """Train on a batch; return the loss a word."""

    def tag(self, words: list[list[str]]) -> list[list[str]]:
        """The tags of sentences that it is given as words."""


def run(make: Callable[[TagJob, list[list[Row]]], Tagger]) -> None:
    job = TagJob(**json.loads(sys.argv[1]))
    rows = [(words, tags) for words, tags in json.loads(Path(job.data).read_text())]
    alike = sorted(rows, key=lambda row: len(row[0]))
    batches = [alike[n : n + job.batch] for n in range(0, len(rows), job.batch)]
    random.Random(1).shuffle(batches)
    tagger = make(job, batches)
    first, *others = range(len(batches))
    losses = [tagger.step(first)]  # warms up
    gc.collect()
    gc.freeze()  # what the libraries brought with them is not swept again and again while the clock runs
    clock = time.process_time if job.threads == 1 else time.perf_counter  # its own time, as others use the machine too
    began = clock()
    losses += [tagger.step(n) for n in others]
    trained, words = clock() - began, [row[0] for row in rows]
    tagger.tag(words[: job.batch])
    began = clock()
    given = tagger.tag(words)
    tagged = clock() - began
    assert [len(tags) for tags in given] == [len(sentence) for sentence in words], "a tag a word"
    found = {
        "train": round(sum(len(row[0]) for n in others for row in batches[n]) / trained),
        "predict": round(sum(map(len, words)) / tagged),
        "loss": round(sum(losses[-4:]) / 4, 3),
        "parameters": tagger.parameters,
    }
    print("OUTCOME " + json.dumps(found))
