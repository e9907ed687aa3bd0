"""Labels and tags, in little: an odd one out, an order that a bag of words cannot see, and names in a sentence."""

from __future__ import annotations

import random

import pytest

import windlass

SMALL = {
    "model.encoder.cell": "gru",
    "model.encoder.size": 16,
    "model.encoder.dropout": 0.0,
    "model.encoder.embedding": {"kind": "learned", "size": 16, "dropout": 0.0},
    "train.optimiser.lr": 0.01,
    "train.schedule": {"kind": "cosine", "warmup": 5},
    "train.average": "none",
    "train.threads": 1,
}


def orders() -> list[tuple[str, str]]:
    """Which of two animals stands first, among words that mean nothing: a bag of words cannot tell."""
    chance = random.Random(4)
    found = []
    for _ in range(330):
        words = [chance.choice(["so", "it", "is", "very", "and"]) for _ in range(chance.randint(3, 7))]
        first, second = chance.sample(["cat", "dog"], 2)
        places = sorted(chance.sample(range(len(words)), 2))
        words[places[0]], words[places[1]] = first, second
        found.append((" ".join(words), first))
    return found


POOLS = {
    "ends": {},
    "last": {"model.encoder.bidirectional": False},
    "max": {},
    "mean": {},
    "attention": {},
}


@pytest.mark.parametrize("pool", POOLS)
def test_classify_learns_what_a_bag_of_words_cannot(pool):
    pairs = orders()
    settings = SMALL | POOLS[pool] | {"train.epochs": 8, "train.batch_tokens": 200, "loss.label_smoothing": 0.0}
    settings |= {"model.head": {"kind": "label", "pool": pool}}
    model = windlass.fit(pairs[60:], pairs[:60], task="classify", settings=settings, quiet=True)
    assert model.dev is not None
    assert model.dev.metrics["accuracy"] >= 95
    assert model.baseline is not None
    found = model.predict("so the dog and the cat", nbest=2)[0]
    assert found.text == "dog"
    assert found.alternatives[0].text == "cat"
    assert sum(found.answer.labels.values()) == pytest.approx(1)
    assert (found.attention is not None) == (pool == "attention")


PLACES, PEOPLE = ["Ulm", "Bonn", "Kiel", "Gera"], ["Ann", "Bob", "Eve", "Tim"]


def names() -> list[tuple[tuple[str, ...], str]]:
    """People of one or two names, and places: what a name is, the word before it tells."""
    chance = random.Random(5)
    found = []
    for _ in range(260):
        who = chance.sample(PLACES + PEOPLE, chance.randint(1, 2))
        where = chance.choice(PLACES + PEOPLE)
        tags = ["B-person", *["I-person"] * (len(who) - 1)]
        found.append((("so", "says", *who, "from", where), " ".join(["O", "O", *tags, "O", "B-place"])))
    return found


@pytest.mark.parametrize("output", ["softmax", "crf"])
@pytest.mark.parametrize("scheme", ["auto", "BIOES"])
def test_tag_learns_spans(output, scheme):
    data = names()
    settings = SMALL | {"train.epochs": 12, "train.batch_tokens": 150, "model.head.output": output}
    settings |= {"model.encoder.spelling": {"kind": "convolution", "size": 8, "embedding": 8}, "target.scheme": scheme}
    model = windlass.fit(data[50:], data[:50], task="tag", settings=settings, quiet=True)
    assert model.dev is not None
    assert model.dev.metrics["span_f1"] >= 95
    text = "so says Kiel Bob  from Eve"
    found = model.predict(text)[0]
    assert found.text == "O O B-person I-person O B-place"
    assert [(span.label, span.text) for span in found.answer.spans] == [("person", "Kiel Bob"), ("place", "Eve")]
    assert all(text[span.begin : span.end] == span.text for span in found.answer.spans)
