"""Pairs, and the encoders that are not recurrent, in little: each learns what it is there for."""

from __future__ import annotations

import random

import pytest

import windlass
from toy import learn, reversals

WORDS = ["red", "green", "blue", "cat", "dog", "bird", "tree", "house", "sun", "moon", "star", "road"]
QUICK = {
    "train.optimiser.lr": 0.01,
    "train.schedule": {"kind": "cosine", "warmup": 5},
    "train.average": "none",
    "train.batch_tokens": 60,
    "train.threads": 1,
    "loss.label_smoothing": 0.0,
}
SMALL = QUICK | {
    "model.encoder.reader": {
        **{"kind": "convolution", "widths": [1], "activation": "tanh", "size": 24},
        "embedding": {"kind": "learned", "size": 24, "dropout": 0.0},
    },
    "model.encoder.attention": {"score": {"kind": "cosine", "scale": 10}, "size": 24, "dropout": 0.0, "compose": None},
    "model.head": {"kind": "label", "pool": "max", "hidden": [], "dropout": 0.0},
    "train.epochs": 7,
}


def inclusions() -> list[tuple[tuple[str, str], str]]:
    """Whether all words of the second text are in the first: a matter of finding each again."""
    chance = random.Random(6)
    found = []
    for _ in range(400):
        first = chance.sample(WORDS, 4)
        second = chance.sample(first, 2)
        yes = chance.random() < 0.5
        if not yes:
            second[chance.randrange(2)] = chance.choice([word for word in WORDS if word not in first])
        found.append(((" ".join(first), " ".join(second)), "yes" if yes else "no"))
    return found


def test_entail_learns_to_find_words_again_and_shows_where():
    data = inclusions()
    model = windlass.fit(data[60:], data[:60], task="entail", settings=SMALL, quiet=True)
    assert model.dev is not None
    assert model.dev.metrics["accuracy"] >= 95
    found = model.predict([("cat sun red dog", "sun dog"), ("cat sun red dog", "sun moon")])
    assert [p.text for p in found] == ["yes", "no"]
    assert found[0].places.parts["second"].names == ("sun", "dog")
    assert [max(range(4), key=lambda n, row=row: row[n]) for row in found[0].attention] == [1, 3]
    assert model.predict(["cat sun red dog\tsun dog"])[0].text == "yes"


def test_entail_learns_without_attention_and_with_two_networks():
    chance = random.Random(7)
    pairs = [(chance.choice(WORDS[:4]), chance.choice(WORDS[:4])) for _ in range(300)]
    data = [(pair, "same" if pair[0] == pair[1] else "other") for pair in pairs]
    reader = {"kind": "recurrent", "cell": "gru", "size": 16, "embedding": {"kind": "learned", "size": 16}}
    encoder = {"kind": "pair", "reader": reader, "shared": False, "attention": None}
    over = {"model.encoder": encoder, "train.epochs": 8, "train.batch_tokens": 16}
    over |= {"model.head": {"kind": "label", "pool": "ends", "hidden": [16], "dropout": 0.0}}
    model = windlass.fit(data[50:], data[:50], task="entail", settings=QUICK | over, quiet=True)
    assert model.dev is not None
    assert model.dev.metrics["accuracy"] >= 95
    assert model.predict([("cat", "cat")])[0].attention is None


ENCODERS = {
    "convolution": {"kind": "convolution", "widths": [3], "layers": 2, "connect": "residual", "size": 24},
    "attention": {"kind": "attention", "size": 24, "heads": 2, "hidden": 32, "layers": 1},
    "attention over a recurrence": {
        **{"kind": "attention", "size": 24, "heads": 2, "hidden": 32, "layers": 1, "positions": "none"},
        "below": {"cell": "gru", "size": 12},
    },
}


@pytest.mark.parametrize("name", ENCODERS)
def test_every_encoder_learns_tags_that_the_word_before_decides(name):
    chance = random.Random(8)
    data = []
    for _ in range(300):
        words = [chance.choice("abcd") for _ in range(chance.randint(2, 6))]
        tags = ["X" if n and words[n - 1] == "a" else "O" for n in range(len(words))]
        data.append((tuple(words), " ".join(tags)))
    over = {"source.characters": False, "train.epochs": 8, "train.optimiser.lr": 0.005}
    over |= {"model.encoder": ENCODERS[name] | {"embedding": {"kind": "learned", "size": 16}}}
    model = windlass.fit(data[50:], data[:50], task="tag", settings=QUICK | over, quiet=True)
    assert model.dev is not None
    assert model.dev.metrics["tag_accuracy"] >= 95


@pytest.mark.parametrize("name", ["convolution", "attention"])
def test_a_decoder_reads_every_encoder(name):
    given = ENCODERS[name] | {"embedding": {"kind": "learned", "size": 16}}
    over = {"train__epochs": 10, "train__batch_tokens": 60, "train__optimiser__lr": 0.005}
    model = learn(reversals(), model__encoder=given, model__decoder__start="summary", **over)
    assert model.dev is not None
    assert model.dev.metrics["accuracy"] >= 60
