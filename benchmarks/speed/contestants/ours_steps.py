"""Windlass with every fast path off: the same model on plain torch operations, step by step."""

from __future__ import annotations

import contest
import ours
from contest import Job, Watch

from windlass.nn import fast


def train(job: Job, batches: list[contest.Batch], watch: Watch) -> None:
    with fast.disabled():
        ours.train(job, batches, watch)


if __name__ == "__main__":
    contest.run(train)
