"""Windlass searching in 8 bits: the same head, made ready with `int8=True`. Only decoding; training is in 32."""

from __future__ import annotations

from collections.abc import Callable

import contest
import ours
from contest import Batch, Job, Watch


def train(job: Job, batches: list[Batch], watch: Watch) -> None:
    raise NotImplementedError("8 bits are for decoding")


def decoder(job: Job) -> Callable[[list[list[int]], int], list[list[int]]]:
    return ours.decoder(job, int8=True)


if __name__ == "__main__":
    contest.run(train, decoder)
