"""How likely a text is under a model, as papers print it."""

from __future__ import annotations

import math

LIKELIHOODS = {
    "nats": "minus the mean log probability of a token",
    "perplexity": "exp of it: among how many tokens the model wavers",
    "bpc": "bits a character, whatever the tokens are",
}
"""Figures of a text that is scored and not predicted; the lower, the better."""


def format_metric(name: str, value: float) -> str:
    """Return a score as text: nats, correlations and squared errors with more digits than percentages.

    >>> format_metric("nats", 1.23456), format_metric("pearson", 0.76443), format_metric("bleu", 31.4159)
    ('1.2346', '0.7644', '31.42')
    """
    return f"{value:.4f}" if name in ("nats", "bpc", "pearson", "spearman", "mse") else f"{value:.2f}"


shown = format_metric


def likelihood(logprob: float, tokens: int, characters: int | None) -> dict[str, float]:
    """The figures of a text by its log probability; bits a character where its characters can be counted.

    >>> {name: round(value, 3) for name, value in likelihood(-4 * math.log(8), tokens=4, characters=6).items()}
    {'nats': 2.079, 'perplexity': 8.0, 'bpc': 2.0}
    """
    nats = -logprob / max(1, tokens)
    figures = {"nats": nats, "perplexity": math.exp(min(nats, 700.0))}
    if characters:
        figures["bpc"] = -logprob / math.log(2) / characters
    return figures
