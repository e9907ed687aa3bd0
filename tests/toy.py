"""Toy tasks that a model can only do by looking at its source, and one way to train on them in seconds."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import windlass

Pairs = list[tuple[str, str]]

SMALL: dict[str, Any] = {
    "model.tie": "none",
    "model.encoder.embedding": {"kind": "learned", "size": 16, "dropout": 0.0},
    "model.encoder.cell": "gru",
    "model.encoder.size": 32,
    "model.encoder.dropout": 0.0,
    "model.decoder.embedding": {"kind": "learned", "size": 16, "dropout": 0.0},
    "model.decoder.cell": "gru",
    "model.decoder.size": 32,
    "model.decoder.dropout": 0.0,
    "model.decoder.context": {"kind": "attention", "score": {"kind": "additive", "size": 16}},
    "model.decoder.readout": {"kind": "joined", "size": 32},
    "loss.label_smoothing": 0.0,
    "train.optimiser.lr": 0.01,
    "train.schedule": {"kind": "cosine", "warmup": 5},
    "train.average": "none",
    "train.batch_tokens": 150,
    "train.epochs": 12,
    "train.threads": 1,
    "search": "greedy",
}


def strings(letters: str, shortest: int, longest: int) -> list[str]:
    """All strings of some letters, in an order that is always the same and follows no rule."""
    found = ["".join(word) for n in range(shortest, longest + 1) for word in product(letters, repeat=n)]
    random.Random(1).shuffle(found)
    return found


def reversals(letters: str = "abcd", shortest: int = 2, longest: int = 4) -> Pairs:
    """abc -> cba."""
    return [(word, word[::-1]) for word in strings(letters, shortest, longest)]


def learn(pairs: Pairs, held: int = 50, task: str = "text", **parts: Any) -> windlass.Trained:
    """Train on all but the first `held` pairs, which are the dev set; `parts` are settings with _ for a dot."""
    settings = SMALL | {name.replace("__", "."): value for name, value in parts.items()}
    return windlass.fit(pairs[held:], pairs[:held], task=task, settings=settings, quiet=True)


def accuracy(model: windlass.Trained, pairs: Pairs) -> float:
    """How many outputs are right, in per cent."""
    found = model.predict([source for source, _ in pairs])
    return 100 * sum(p.text == target for p, (_, target) in zip(found, pairs, strict=True)) / len(pairs)
