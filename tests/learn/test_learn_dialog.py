"""Dialogs, in little: what was said some turns ago is found again, at both levels, and copied."""

from __future__ import annotations

import random

import pytest

import windlass

LEVEL = {"cell": {"kind": "gru", "reset": "after"}, "size": 16}
SMALL = {
    "model.tie": "none",
    "model.encoder.embedding": {"kind": "learned", "size": 16, "dropout": 0.0},
    "model.encoder.words": {**LEVEL, "pool": {"kind": "attention", "score": {"kind": "additive", "size": 16}}},
    "model.encoder.sentences": LEVEL,
    "model.decoder.embedding": {"kind": "learned", "size": 16, "dropout": 0.0},
    "model.decoder.size": 32,
    "model.decoder.dropout": 0.0,
    "model.decoder.readout": {"kind": "deep", "size": 24, "dropout": 0.0},
    "source.tokens.min_count": 3,
    "target.tokens": {"kind": "words", "cut": "punctuation", "min_count": 3},
    "train.optimiser.lr": 0.01,
    "train.schedule": {"kind": "cosine", "warmup": 5},
    "train.average": "none",
    "train.batch_tokens": 500,
    "train.epochs": 16,
    "train.threads": 1,
    "search": {"kind": "greedy", "length_factor": 0, "length_plus": 10},
}
SAID = ["it is cold today", "the train is late", "my cat is {other}", "we met {other} once", "so it goes"]


def dialogs(count: int, seed: int) -> list[tuple[tuple[str, ...], str]]:
    """Somebody tells a name early on, and others are spoken of; then the name is asked for."""
    chance = random.Random(seed)

    def name() -> str:
        return "".join(chance.choice("bdgklmnrst") + chance.choice("aeiou") for _ in range(3))

    found = []
    for _ in range(count):
        who = name()
        turns = [chance.choice(SAID).format(other=name()) for _ in range(chance.randint(1, 3))]
        turns.insert(chance.randrange(len(turns) + 1), f"my name is {who}.")
        found.append(((*turns, "who am i?"), f"you are {who}."))
    return found


@pytest.fixture(scope="module")
def model() -> windlass.Trained:
    return windlass.fit(dialogs(300, 1), dialogs(40, 2), task="reply", settings=SMALL, quiet=True)


def test_a_name_of_some_turns_ago_is_found_and_copied(model):
    held = dialogs(60, 3)
    found = model.predict([turns for turns, _ in held])
    assert sum(p.text == reply for p, (_, reply) in zip(found, held, strict=True)) >= 54
    assert set(model.dev.metrics) == {"perplexity", "bleu", "distinct_1", "distinct_2"}
    assert model.dev.metrics["perplexity"] < 2


def test_the_attention_is_on_the_turn_that_tells_and_on_the_word_in_it(model):
    turns = ("it is cold today", "my name is zuzuzu.", "we met kikiki once", "who am i?")
    found = model.predict([turns])[0]
    assert found.text == "you are zuzuzu."
    row = found.attention[found.answer.tokens.index("zuzuzu")]
    assert len(row) == len(found.places.names) == 4 + 5 + 4 + 4
    assert found.places.names[row.index(max(row))] == "zuzuzu"
    assert sum(row) == pytest.approx(1, abs=1e-4)


def test_what_is_said_is_what_is_scored(model):
    turns = ("my name is zuzuzu.", "so it goes", "who am i?")
    found = model.predict([turns])[0]
    again = model.score([(turns, found.text)])[0]
    assert again.answer.tokens == found.answer.tokens
    assert again.confidence == pytest.approx(found.confidence, rel=1e-3)
