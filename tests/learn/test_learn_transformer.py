"""A transformer decoder learns: to reverse words over any encoder, and to go on with a text."""

from __future__ import annotations

import windlass
from toy import SMALL, accuracy, reversals
from windlass.decoding.options import Beam

DECODER = {"kind": "transformer", "size": 32, "heads": 2, "hidden": 64, "embedding": {"kind": "learned", "size": 16}}
TRAINING = {key: value for key, value in SMALL.items() if not key.startswith("model.decoder")}


def learn(pairs, **parts):
    settings = TRAINING | {"train.optimiser.lr": 0.005} | {n.replace("__", "."): v for n, v in parts.items()}
    return windlass.fit(pairs[50:], pairs[:50], task="text", settings=settings, quiet=True)


def test_over_a_recurrent_encoder_it_learns_to_reverse_and_attends_to_what_it_writes(tmp_path):
    model = learn(reversals(), model__decoder=DECODER, train__epochs=20)
    assert accuracy(model, reversals()[:50]) >= 95
    explained = model.explain("abcd")
    assert len(explained.attention) == 5
    assert all(abs(sum(row) - 1) < 1e-4 for row in explained.attention)
    model.save(tmp_path / "model")
    again = windlass.load(tmp_path / "model")
    words = [word for word, _ in reversals()[:20]]
    one, other = (m.predict(words, search=Beam(size=4), nbest=2) for m in (model, again))
    assert one == other
    assert [p.text for p in one] == [word[::-1] for word in words]


def test_over_a_transformers_encoder_with_rotary_positions_it_learns_too():
    size = {"size": 32, "heads": 2, "hidden": 64, "positions": "rotary"}
    encoder = {"kind": "attention", **size, "embedding": {"kind": "learned", "size": 16}}
    parts = {key: value for key, value in TRAINING.items() if not key.startswith("model.encoder")}
    parts |= {"model.encoder": encoder, "model.decoder": DECODER | size, "train.optimiser.lr": 0.005}
    pairs = reversals()
    model = windlass.fit(pairs[50:], pairs[:50], task="text", settings=parts | {"train.epochs": 30}, quiet=True)
    assert accuracy(model, pairs[:50]) >= 90


def test_as_a_language_model_it_goes_on_with_a_text_beyond_its_chunks():
    text = "the cat sat on the mat; " * 150
    decoder = {**DECODER, "context": "none", "positions": "rotary", "window": 20}
    settings = {
        "model.decoder": decoder,
        "train.optimiser.lr": 0.005,
        "train.schedule": {"kind": "cosine", "warmup": 20},
        "train.chunk": 20,
        "train.batch_tokens": 160,
        "train.epochs": 8,
        "train.threads": 1,
        "samples": None,
    }
    model = windlass.fit([text], task="lm", settings=settings, quiet=True)
    assert model.dev.metrics["nats"] < 0.1
    assert text.startswith("the cat" + model.generate("the cat", length=60, temperature=0.1))
