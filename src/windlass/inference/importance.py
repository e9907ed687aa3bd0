"""How far attention can be trusted: its entropy, and its agreement with leave-one-out importance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
import torch
from numpy.typing import NDArray

from windlass.bundle import Bundle
from windlass.core.errors import DataError
from windlass.data.encoded import Encoded
from windlass.data.examples import Example, Value
from windlass.inference.predict import BATCH_TOKENS, score
from windlass.metrics.numbers import rank_correlation


def leave_one_out(bundle: Bundle, source: Value, target: str) -> NDArray[np.float64]:
    """By how much the log probability of every output token drops without a source token: (T, S).

    The output is forced, so that all that changes is the source. End marks are left in.

    >>> from windlass.data import Sides
    >>> from windlass.recipe import Recipe
    >>> leave_one_out(Bundle.new(Recipe(), Sides.tiny()), "cab", "ab").shape
    (2, 3)
    """
    sides = bundle.sides
    value = sides.read(source)
    rows = [sides.encode(value, target)]
    for place in range(sides.source.length(rows[0].source)):
        arrays = sides.source.without(value, place)
        if arrays is None:
            raise DataError("leave-one-out importance needs a source of tokens, which can be left out one by one")
        if "copy" in rows[0].source:
            arrays["copy"] = np.delete(rows[0].source["copy"], place)
        rows.append(Encoded(arrays, rows[0].target))
    logprobs: list[tuple[float, ...]] = [()] * len(rows)
    bundle.model.eval()
    for batch in sides.loader(rows, BATCH_TOKENS).epoch(0):
        moved = batch.to(bundle.device)
        with torch.no_grad():
            forced = bundle.model.head.force(bundle.model.encode(moved), moved)
        for key, hypothesis in zip(batch.keys.tolist(), forced, strict=True):
            logprobs[key] = hypothesis.logprobs[: len(hypothesis.ids)]
    found = np.array(logprobs, dtype=np.float64)
    drops: NDArray[np.float64] = (found[0] - found[1:]).T
    return drops


@dataclass(frozen=True)
class AttentionReport:
    """What attention is worth on a set of examples.

    `entropy` is relative: 0 is all weight on one place, 1 the same on all. `correlation` is Spearman's rho of the
    weights of an output token and the leave-one-out importance of the source tokens, averaged over output tokens.
    `agreement` is the percentage of output tokens that attend most to the source token whose absence hurts most;
    `chance` is what a random choice would have.

    >>> AttentionReport(10, 50, 0.4, 0.6, 70.0, 10.0).metrics()["attention_agreement"]
    70.0
    """

    examples: int
    tokens: int
    entropy: float
    correlation: float
    agreement: float
    chance: float

    def metrics(self) -> dict[str, float]:
        """The figures by name."""
        return {
            "attention_entropy": self.entropy,
            "attention_correlation": self.correlation,
            "attention_agreement": self.agreement,
        }

    def sentence(self) -> str:
        """In words."""
        return (
            f"attention of {self.tokens:,} output tokens of {self.examples:,} examples, forced: entropy "
            f"{self.entropy:.2f} of that of uniform weights; Spearman's rho with leave-one-out importance "
            f"{self.correlation:.2f}; looks most at the most important token {self.agreement:.1f}% of the time "
            f"(at random: {self.chance:.1f}%)"
        )


def attention_report(bundle: Bundle, examples: Sequence[Example], most: int = 100) -> AttentionReport:
    """Compare attention with leave-one-out importance on at most `most` examples, evenly spread over the data.

    Sources of one token say nothing and are left out.

    >>> from windlass.data import Sides
    >>> from windlass.data.examples import Place
    >>> from windlass.recipe import Recipe
    >>> bundle = Bundle.new(Recipe(), Sides.tiny())
    >>> attention_report(bundle, [Example("cab", ("ab",), None, Place("pairs.tsv", 1))]).tokens
    2
    """
    chosen = sorted({round(n) for n in np.linspace(0, len(examples) - 1, min(most, len(examples))).tolist()})
    pairs = [(examples[n].source, examples[n].target) for n in chosen]
    entropies, correlations, hits, chances, used = [], [], [], [], 0
    for (source, target), forced in zip(pairs, score(bundle, pairs, refuse=True), strict=True):
        if forced.attention is None:
            raise DataError("this model has no attention to measure")
        importance = leave_one_out(bundle, source, target)
        tokens, places = importance.shape
        if places < 2:
            continue
        used += 1
        for weights, drops in zip(np.array(forced.attention)[:tokens], importance, strict=False):
            shares = weights[weights > 0]
            entropies.append(float(-(shares * np.log(shares)).sum() / np.log(len(weights))))
            correlations.append(rank_correlation(weights[:places], drops))
            hits.append(100.0 * (int(weights[:places].argmax()) == int(drops.argmax())))
            chances.append(100.0 / places)
    if not used:
        raise DataError("no example has a source of two tokens or more, whose attention could be measured")
    return AttentionReport(used, len(hits), fmean(entropies), fmean(correlations), fmean(hits), fmean(chances))
