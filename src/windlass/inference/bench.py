"""Benchmark a bundle on this machine: throughput, latency and memory, in float32 and in 8 bits."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

from windlass.bundle import Bundle
from windlass.data.examples import Value, as_text
from windlass.decoding.options import Greedy, SearchOptions
from windlass.inference.predict import predict
from windlass.inference.quantise import quantise
from windlass.nn.fast.int8 import levels

SYNTHETIC = 200
"""Synthetic inputs to measure with if no file is given."""


@dataclass(frozen=True)
class Measurement:
    """The speed of one combination of precision, search and batch size.

    >>> Measurement("float32", "greedy", 1, 100, 1.0, 700, (0.01,) * 99 + (0.05,)).p99
    0.01
    """

    numbers: str  # float32 or int8
    search: str
    batch: int  # inputs per batch
    sentences: int
    seconds: float
    tokens: int  # of output, end marks included
    latencies: tuple[float, ...]  # seconds per batch

    @property
    def per_second(self) -> float:
        """Sentences per second."""
        return self.sentences / self.seconds

    @property
    def tokens_per_second(self) -> float:
        """Output tokens per second."""
        return self.tokens / self.seconds

    @property
    def p50(self) -> float:
        """Median latency of a batch, in seconds."""
        return quantile(self.latencies, 0.5)

    @property
    def p99(self) -> float:
        """99th percentile of the latency of a batch, in seconds."""
        return quantile(self.latencies, 0.99)


def quantile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of the values do not exceed.

    >>> quantile([3.0, 1.0, 2.0], 0.5), quantile([3.0, 1.0, 2.0], 0.99)
    (2.0, 3.0)
    """
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def bench(
    bundle: Bundle, texts: Sequence[Value], batches: Sequence[int] = (1, 32), seconds: float = 3.0
) -> list[Measurement]:
    """Measure greedy search and the bundle's own, in float32 and in 8 bits, at every batch size.

    Each measurement takes about `seconds`, cycling through the texts; precisions take turns batch by batch, so that
    other load on the machine slows them alike. A bundle in 8 bits is measured in 8 bits only.

    >>> from windlass.data import Sides
    >>> from windlass.recipe import Recipe
    >>> measured = bench(Bundle.new(Recipe(search="greedy"), Sides.tiny()), ["cab", "abba"], [1], 0.01)
    >>> sorted({m.search for m in measured})
    ['greedy']
    """
    bundles = {"int8" if bundle.int8 else "float32": bundle}
    if not bundle.int8 and levels() and bundle.device.type == "cpu":
        bundles["int8"] = quantise(bundle)
    own = bundle.recipe.search
    searches: dict[str, SearchOptions | None] = {"none": None}
    if own is not None:
        searches = {"greedy": Greedy(length_factor=own.length_factor, length_plus=own.length_plus)}
    if own is not None and not own.single:
        searches[own.label] = own
    ordered = sorted((text for text in texts if as_text(text).strip()), key=lambda text: len(as_text(text)))
    measured: list[Measurement] = []
    for batch in batches:
        parts = [ordered[n : n + batch] for n in range(0, len(ordered), batch)]
        for search, options in searches.items():
            runs = {numbers: _Run(each, options, parts) for numbers, each in bundles.items()}
            while any(run.seconds < seconds for run in runs.values()):
                for run in runs.values():
                    run.step()
            measured += [run.measurement(numbers, search, batch) for numbers, run in runs.items()]
    return measured


class _Run:
    """One measurement, taken batch by batch."""

    def __init__(self, bundle: Bundle, options: SearchOptions | None, parts: Sequence[Sequence[Value]]):
        self.bundle, self.options, self.parts = bundle, options, parts
        self.next = self.sentences = self.tokens = 0
        self.latencies: list[float] = []
        self._predict(parts[0])  # warm-up: weights are packed at first use

    @property
    def seconds(self) -> float:
        return sum(self.latencies)

    def _predict(self, part: Sequence[Value]) -> int:
        every = predict([self.bundle], part, self.options, batch_tokens=sys.maxsize)
        return sum(len(prediction.answer.probabilities) for prediction in every)

    def step(self) -> None:
        part = self.parts[self.next % len(self.parts)]
        started = perf_counter()
        tokens = self._predict(part)
        self.latencies.append(perf_counter() - started)
        self.next += 1
        self.sentences += len(part)
        self.tokens += tokens

    def measurement(self, numbers: str, search: str, batch: int) -> Measurement:
        return Measurement(numbers, search, batch, self.sentences, self.seconds, self.tokens, tuple(self.latencies))


def peak_memory() -> float | None:
    """Return the peak memory of this process in MB; None if the system does not report it.

    >>> (peak_memory() or 1) > 0
    True
    """
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return held / (1 << 20 if sys.platform == "darwin" else 1 << 10)
