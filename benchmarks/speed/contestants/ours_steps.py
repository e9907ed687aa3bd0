"""Windlass step by step, as it trains what is not fused: the same model with the fused ways switched off."""

from __future__ import annotations

import contest
import ours
from contest import Job, Watch

from windlass.heads import text
from windlass.nn import library
from windlass.nn.cells import GRU, LSTM


def train(job: Job, batches: list[contest.Batch], watch: Watch) -> None:
    text.fused = lambda *given: None  # as for a decoder that has no fused way
    GRU.whole = LSTM.whole = lambda *given: None  # and a cell
    library.fits = lambda *given, **options: False
    ours.train(job, batches, watch)


if __name__ == "__main__":
    contest.run(train)
