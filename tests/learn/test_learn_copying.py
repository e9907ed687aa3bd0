"""Copying, in little: a name that was never seen comes through, and without copying it cannot."""

from __future__ import annotations

import random

import pytest

import windlass
from windlass.decoding.options import Beam, Greedy, Sample

SMALL = {
    "vocabulary": "separate",
    "model.tie": "none",
    "source.tokens": {"kind": "words", "cut": "punctuation", "min_count": 3},
    "target.tokens": {"kind": "words", "cut": "punctuation", "min_count": 3},
    "model.encoder.embedding": {"kind": "learned", "size": 16, "dropout": 0.0},
    "model.encoder.size": 24,
    "model.encoder.dropout": 0.0,
    "model.decoder.embedding": {"kind": "learned", "size": 16, "dropout": 0.0},
    "model.decoder.size": 24,
    "model.decoder.dropout": 0.0,
    "model.decoder.context.score": {"kind": "additive", "size": 16, "coverage": True},
    "model.decoder.readout": {"kind": "deep", "size": 24, "dropout": 0.0},
    "loss": {"label_smoothing": 0.0, "coverage": 0.1},
    "train.optimiser.lr": 0.01,
    "train.schedule": {"kind": "cosine", "warmup": 5},
    "train.average": "none",
    "train.batch_tokens": 300,
    "train.epochs": 14,
    "train.threads": 1,
    "search": {"kind": "greedy", "length_factor": 1, "length_plus": 5},
}


def news(count: int, seed: int) -> list[tuple[str, str]]:
    """A piece of news and its headline: who does what, with names that no other piece has."""
    chance = random.Random(seed)

    def name() -> str:
        return "".join(chance.choice("bdgklmnrst") + chance.choice("aeiou") for _ in range(3))

    found = []
    for _ in range(count):
        who, whom, what = name(), name(), chance.choice(["met", "beat", "sued"])
        day = chance.choice(["monday", "friday"])
        found.append((f"on {day}, as all know, {who} {what} {whom} in the end.", f"{who} {what} {whom}."))
    return found


def learned(copying: bool) -> windlass.Trained:
    settings = SMALL | {"model.decoder.copying": copying}
    return windlass.fit(news(300, 1), news(40, 2), task="summarise", settings=settings, quiet=True)


@pytest.fixture(scope="module")
def model() -> windlass.Trained:
    return learned(copying=True)


def test_names_never_seen_come_through(model):
    held = news(60, 3)
    assert len(model.bundle.sides.target) < 20  # not one name is in the vocabulary
    found = model.predict([source for source, _ in held])
    right = sum(p.text == target for p, (_, target) in zip(found, held, strict=True))
    assert right >= 57
    assert model.dev.metrics["rouge_1"] > 95
    assert model.baseline.name == "first 8 words"


def test_what_is_written_is_what_is_scored_on_every_path(model):
    text = "on friday, as all know, zuzuzu beat kikiki in the end."
    assert model.predict(text)[0].text == "zuzuzu beat kikiki."
    for search in (Greedy(), Beam(size=4), Sample(seed=1, temperature=0.3)):
        for found in model.predict(text, search, nbest=1 if search.kind == "greedy" else 3):
            assert "zuzuzu" in found.answer.tokens
            again = model.score([(text, found.text)])[0]
            assert again.answer.tokens == found.answer.tokens
            assert again.confidence == pytest.approx(found.confidence, rel=1e-3)


def test_an_ensemble_copies_and_one_that_does_not_copy_is_refused(model):
    from windlass.core.errors import DataError
    from windlass.inference.predict import predict

    text = "on friday, as all know, zuzuzu beat kikiki in the end."
    assert predict([model.bundle, model.bundle], [text])[0].text == "zuzuzu beat kikiki."
    plain = learned(copying=False)
    with pytest.raises(DataError, match="copy alike"):
        predict([model.bundle, plain.bundle], [text])
    assert "zuzuzu" not in plain.predict(text)[0].text


def test_a_model_in_8_bits_and_one_that_was_saved_copy_too(model, tmp_path):
    from windlass.inference.quantise import quantise

    text = "on monday, as all know, lalala sued momomo in the end."
    assert windlass.Trained(quantise(model.bundle)).predict(text)[0].text == "lalala sued momomo."
    model.save(tmp_path / "model")
    assert windlass.load(tmp_path / "model").predict(text)[0].text == "lalala sued momomo."


def test_the_attention_that_copies_is_on_the_word_that_is_copied(model):
    found = model.explain("on monday, as all know, lalala sued momomo in the end.")
    row = found.attention[found.answer.tokens.index("momomo")]
    assert found.places.names[row.index(max(row))] == "momomo"
