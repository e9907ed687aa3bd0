"""A transformer decoder learns: to reverse words over any encoder, and to go on with a text."""

from __future__ import annotations

import windlass
from toy import SMALL, accuracy, reversals
from windlass.decoding.options import Beam
from windlass.inference.predict import predict

LAYERS = {"size": 32, "heads": 2, "hidden": 64, "layers": 1, "embedding": {"kind": "learned", "size": 32}}
DECODER = {"kind": "transformer", **LAYERS}
TRAINING = {key: value for key, value in SMALL.items() if not key.startswith("model.decoder")}


def learn(pairs, **parts):
    settings = TRAINING | {"train.optimiser.lr": 0.005} | {n.replace("__", "."): v for n, v in parts.items()}
    return windlass.fit(pairs[50:], pairs[:50], task="text", settings=settings, quiet=True)


def test_over_a_recurrent_encoder_it_learns_to_reverse_and_attends_to_what_it_writes(tmp_path):
    model = learn(reversals(), model__decoder=DECODER, train__epochs=14)
    assert accuracy(model, reversals()[:50]) >= 90
    explained = model.explain("abcd")
    assert len(explained.attention) == 5
    assert all(abs(sum(row) - 1) < 1e-4 for row in explained.attention)
    model.save(tmp_path / "model")
    again = windlass.load(tmp_path / "model")
    words = [word for word, _ in reversals()[:20]]
    one, other = (m.predict(words, search=Beam(size=4), nbest=2) for m in (model, again))
    assert one == other
    assert sum(p.text == word[::-1] for p, word in zip(one, words, strict=True)) >= 18
    recurrent = learn(reversals(), train__epochs=1, model__decoder={"size": 8})
    both = predict([model.bundle, recurrent.bundle], words)  # an ensemble of unlike decoders
    assert [p.text for p in both] != [p.text for p in recurrent.predict(words)]
    assert len(both[0].attention) == len(both[0].answer.probabilities)


def test_over_a_transformers_encoder_with_rotary_positions_it_learns_too():
    turned = {**LAYERS, "positions": "rotary"}
    parts = {key: value for key, value in TRAINING.items() if not key.startswith("model.encoder")}
    parts |= {"model.encoder": {"kind": "attention", **turned}, "model.decoder": {"kind": "transformer", **turned}}
    parts |= {"train.optimiser.lr": 0.005, "train.epochs": 18}
    pairs = reversals()
    model = windlass.fit(pairs[50:], pairs[:50], task="text", settings=parts, quiet=True)
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
        "train.epochs": 6,
        "train.threads": 1,
        "samples": None,
    }
    model = windlass.fit([text], task="lm", settings=settings, quiet=True)
    assert model.dev.metrics["nats"] < 0.1
    assert text.startswith(text[:31] + model.generate(text[:31], length=60, temperature=0.1))
