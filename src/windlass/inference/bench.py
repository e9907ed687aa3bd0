"""How fast a bundle is on this machine: sentences and tokens a second, latency, memory, as it is and in 8 bits."""

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

MADE_UP = 200
"""How many inputs are made up where none are given."""


@dataclass(frozen=True)
class Figure:
    """What was measured of one way to use a model.

    >>> Figure("float32", "greedy", 1, 100, 1.0, 700, (0.01,) * 99 + (0.05,)).p99
    0.01
    """

    numbers: str  # float32 or int8
    search: str
    batch: int  # texts at once
    sentences: int
    seconds: float
    tokens: int  # of the outputs, the end marks with them
    latencies: tuple[float, ...]  # seconds of every batch

    @property
    def per_second(self) -> float:
        """Sentences a second."""
        return self.sentences / self.seconds

    @property
    def tokens_per_second(self) -> float:
        """Tokens of output a second."""
        return self.tokens / self.seconds

    @property
    def p50(self) -> float:
        """Half of the batches took no longer than this: seconds."""
        return quantile(self.latencies, 0.5)

    @property
    def p99(self) -> float:
        """99 in 100 of the batches took no longer than this: seconds."""
        return quantile(self.latencies, 0.99)


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that is not exceeded by a share of all.

    >>> quantile([3.0, 1.0, 2.0], 0.5), quantile([3.0, 1.0, 2.0], 0.99)
    (2.0, 3.0)
    """
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def bench(
    bundle: Bundle, texts: Sequence[Value], batches: Sequence[int] = (1, 32), seconds: float = 3.0
) -> list[Figure]:
    """Measure a bundle by greedy search and by its own, in float32 and in 8 bits, with so many texts at once.

    Every figure is taken for about so many seconds, the texts over and over; ways are tried in turn, so that a machine
    that is busy for a while slows them all. A bundle that is in 8 bits is measured in 8 bits alone.

    >>> from windlass.data import Sides
    >>> from windlass.recipe import Recipe
    >>> found = bench(Bundle.new(Recipe(search="greedy"), Sides.tiny()), ["cab", "abba"], [1], 0.01)
    >>> sorted({figure.search for figure in found})
    ['greedy']
    """
    bundles = {"int8" if bundle.int8 else "float32": bundle}
    if not bundle.int8 and levels() and bundle.device.type == "cpu":
        bundles["int8"] = quantise(bundle)
    own = bundle.recipe.search
    searches: dict[str, SearchOptions | None] = {"none": None}
    if own is not None:
        searches = {"greedy": Greedy(length_factor=own.length_factor, length_plus=own.length_plus)}
    if own is not None and own.kind != "greedy":
        searches[f"beam {own.size}" if own.kind == "beam" else own.kind] = own
    given = sorted((text for text in texts if as_text(text).strip()), key=lambda text: len(as_text(text)))
    found: list[Figure] = []
    for batch in batches:
        parts = [given[n : n + batch] for n in range(0, len(given), batch)]
        for search, options in searches.items():
            ways = {numbers: _Run(each, options, parts) for numbers, each in bundles.items()}
            while any(run.spent < seconds for run in ways.values()):
                for run in ways.values():
                    run.go_on()
            found += [run.figure(numbers, search, batch) for numbers, run in ways.items()]
    return found


class _Run:
    """One way to use a model, measured a little at a time."""

    def __init__(self, bundle: Bundle, options: SearchOptions | None, parts: Sequence[Sequence[Value]]):
        self.bundle, self.options, self.parts = bundle, options, parts
        self.next = self.sentences = self.tokens = 0
        self.latencies: list[float] = []
        self._predict(parts[0])  # what is laid out at first use is not counted

    @property
    def spent(self) -> float:
        """Seconds so far."""
        return sum(self.latencies)

    def _predict(self, part: Sequence[Value]) -> int:
        every = predict([self.bundle], part, self.options, batch_tokens=sys.maxsize)
        return sum(len(prediction.answer.probabilities) for prediction in every)

    def go_on(self) -> None:
        """Predict the next batch."""
        part = self.parts[self.next % len(self.parts)]
        started = perf_counter()
        tokens = self._predict(part)
        self.latencies.append(perf_counter() - started)
        self.next += 1
        self.sentences += len(part)
        self.tokens += tokens

    def figure(self, numbers: str, search: str, batch: int) -> Figure:
        """What was found."""
        return Figure(numbers, search, batch, self.sentences, self.spent, self.tokens, tuple(self.latencies))


def peak_memory() -> float | None:
    """The most memory that this process has held, in MB; None where the system does not say.

    >>> (peak_memory() or 1) > 0
    True
    """
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return held / (1 << 20 if sys.platform == "darwin" else 1 << 10)
