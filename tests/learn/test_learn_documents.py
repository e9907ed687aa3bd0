"""Documents in little: what one sentence among others says, and acts that only the turns before tell."""

from __future__ import annotations

import random

import pytest

import windlass

LEVEL = {"cell": "gru", "size": 16, "dropout": 0.0}
SMALL = {
    "model.encoder.embedding": {"kind": "learned", "size": 16, "dropout": 0.0},
    "model.encoder.words": LEVEL,
    "model.encoder.sentences": LEVEL,
    "model.head.dropout": 0.0,
    "source.tokens.min_count": 1,
    "train.optimiser.lr": 0.01,
    "train.schedule": {"kind": "cosine", "warmup": 5},
    "train.average": "none",
    "train.batch_tokens": 400,
    "train.threads": 1,
    "train.processes": 1,
}


def orders() -> list[tuple[tuple[str, ...], str]]:
    """Who comes first within the one sentence that has both; others name one of them. No bag of words can tell."""
    chance = random.Random(4)
    found = []
    for _ in range(330):
        first, second = chance.sample(["cat", "dog"], 2)
        sentences = [f"so {chance.choice([first, second])} is {chance.choice(['big', 'red'])}" for _ in range(2)]
        sentences.insert(chance.randrange(3), f"then {first} beats {second}")
        found.append((tuple(sentences), first))
    return found


HAN = {"words": {"pool": "attention"}, "sentences": {}, "head": "attention"}
ENDS = {"words": {"pool": "ends"}, "sentences": {}, "head": "ends"}


@pytest.mark.parametrize("levels", [HAN, ENDS], ids=["attention", "ends"])
def test_classify_document_learns_what_one_sentence_says(levels):
    pairs = orders()
    settings = SMALL | {"train.epochs": 10, "loss.label_smoothing": 0.0}
    settings |= {f"model.encoder.{name}": {**LEVEL, **levels[name]} for name in ("words", "sentences")}
    settings |= {"model.head": {"kind": "label", "pool": levels["head"]}}
    model = windlass.fit(pairs[60:], pairs[:60], task="classify-document", settings=settings, quiet=True)
    assert model.dev is not None
    assert model.dev.metrics["accuracy"] >= 95
    found = model.predict([("so cat is red", "then dog beats cat", "so cat is big")])[0]
    assert found.text == "dog"
    if levels is HAN:  # the sentence that tells counts most
        assert max(range(3), key=lambda n: found.attention[0][n]) == 1
        assert [round(sum(weights), 4) for weights in found.word_attention] == [1, 1, 1]
    else:
        assert found.attention is None
        assert not found.word_attention


def dialogs() -> list[tuple[tuple[str, ...], str]]:
    """A yes after an offer accepts, after a question it answers: the turn alone does not tell."""
    chance = random.Random(5)
    found = []
    for _ in range(300):
        turns, acts = [], []
        for _ in range(chance.randint(1, 3)):
            offer = chance.random() < 0.5
            thing = chance.choice(["tea", "milk", "soup"])
            turns += [
                f"do you {'want' if offer else 'see'} the {thing}",
                chance.choice(["yes", "yes please", "oh yes"]),
            ]
            acts += ["OFFER", "ACCEPT"] if offer else ["ASK", "ANSWER"]
        found.append((tuple(turns), " ".join(acts)))
    return found


@pytest.mark.parametrize("output", ["softmax", "crf"])
def test_tag_document_learns_acts_from_the_turns_before(output):
    data = dialogs()
    settings = SMALL | {"train.epochs": 8, "model.head.output": output}
    model = windlass.fit(data[50:], data[:50], task="tag-document", settings=settings, quiet=True)
    assert model.dev is not None
    assert model.dev.metrics["tag_accuracy"] >= 95
    assert model.baseline is not None
    cheap = model.baseline.predict([source for source, _ in data[:50]])
    right = sum(
        a == b
        for found, (_, tags) in zip(cheap, data, strict=False)
        for a, b in zip(found.split(), tags.split(), strict=True)
    )
    assert right / sum(len(source) for source, _ in data[:50]) < 0.9  # each turn by itself is not enough
    assert model.predict([("do you want the tea", "yes", "do you see the milk", "yes")])[0].answer.tokens == (
        "OFFER", "ACCEPT", "ASK", "ANSWER",
    )  # fmt: skip
