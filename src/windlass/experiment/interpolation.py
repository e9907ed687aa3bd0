"""Interpolate a trained language model with its n-gram model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from windlass.bundle import Bundle
from windlass.decoding.interpolation import Interpolation, best_weight
from windlass.decoding.ngram import KneserNey
from windlass.inference.likelihood import ROWS, text_metrics, token_logprobs
from windlass.metrics.likelihood import format_metric
from windlass.training.finetune import Note

LEAST_GAIN = 0.01
"""The share of its nats on dev that `auto` must gain: an n-gram model takes space and time."""
MOST = 0.5
"""The weight above which the network adds less than the n-gram model."""


def interpolate(bundle: Bundle, ngram: KneserNey, dev: Sequence[str], note: Note) -> Bundle:
    """Return the bundle interpolated with an n-gram model, and its scores, as `ngram_weight` says.

    >>> from windlass.inference.likelihood import tiny_lm
    >>> bundle, ngram = tiny_lm(), KneserNey.fit([[4, 5, 6] * 20], vocabulary=7, order=3)
    >>> both = interpolate(bundle, ngram, ["abcabc" * 9], print)
    interpolated with the 3-gram, ngram_weight 1.00: nats 0.01... on dev, ... with the network alone; most of it ...
    """
    weight = bundle.recipe.ngram_weight
    if weight == 0:
        return bundle
    scored = token_logprobs([bundle], dev, ROWS)
    network = torch.cat([logp.double() for _, logp in scored])
    both = Interpolation(ngram, 0.5 if weight == "auto" else weight)
    if weight == "auto":
        logprobs = torch.from_numpy(ngram.logprobs([ids for ids, _ in scored]))
        both = Interpolation(ngram, best_weight(network, logprobs))
    mixed = both.mix(network, [ids for ids, _ in scored])
    before, after = -float(network.mean()), -float(mixed.mean())
    told = f"nats {format_metric('nats', after)} on dev, {format_metric('nats', before)} with the network alone"
    if weight == "auto" and after > (1 - LEAST_GAIN) * before:
        note(
            f"not interpolated with the {ngram.name}, which would gain little (ngram_weight {both.weight:.2f}: {told})"
        )
        return bundle
    mostly = "; most of it is the n-gram model: the network may need more text or more epochs"
    note(f"interpolated with the {ngram.name}, ngram_weight {both.weight:.2f}: {told}{mostly * (both.weight > MOST)}")
    bundle = replace(bundle, interpolation=both)
    return replace(bundle, scores=bundle.scores | text_metrics([bundle], dev))
