"""The likelihood of a text under a model: nats, perplexity, bits per character."""

from __future__ import annotations

import math

LIKELIHOODS = {
    "nats": "cross-entropy: negative log probability per token",
    "perplexity": "exp of the cross-entropy",
    "bpc": "bits per character, comparable between tokenisations",
}
"""Metrics of a text that is scored, not predicted; lower is better."""


def format_metric(name: str, value: float) -> str:
    """Return a score as text: nats, correlations, squared errors and CIDEr with more digits than percentages.

    >>> format_metric("nats", 1.23456), format_metric("pearson", 0.76443), format_metric("bleu", 31.4159)
    ('1.2346', '0.7644', '31.42')
    """
    return f"{value:.4f}" if name in ("nats", "bpc", "pearson", "spearman", "mse", "cider") else f"{value:.2f}"


def likelihood(logprob: float, tokens: int, characters: int | None) -> dict[str, float]:
    """Return the metrics of a text from its log probability; bits per character if `characters` is known.

    >>> {name: round(value, 3) for name, value in likelihood(-4 * math.log(8), tokens=4, characters=6).items()}
    {'nats': 2.079, 'perplexity': 8.0, 'bpc': 2.0}
    """
    nats = -logprob / max(1, tokens)
    metrics = {"nats": nats, "perplexity": math.exp(min(nats, 700.0))}
    if characters:
        metrics["bpc"] = -logprob / math.log(2) / characters
    return metrics
