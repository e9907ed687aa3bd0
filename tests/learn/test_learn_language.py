"""A language model learns: what repeats to nearly no entropy, whatever the cell and the tokens."""

from __future__ import annotations

import math
import random

import pytest

import windlass

SMALL = {
    "model.decoder.size": 32,
    "model.decoder.embedding": {"kind": "learned", "size": 16},
    "model.decoder.dropout": 0.0,
    "train.optimiser.lr": 0.01,
    "train.schedule": {"kind": "cosine", "warmup": 5},
    "train.chunk": 20,
    "train.batch_tokens": 160,
    "train.epochs": 8,
    "train.threads": 1,
    "samples": None,
}
PERIODIC = "the cat sat on the mat; " * 150


def learn(texts, dev=None, **over):
    settings = SMALL | {name.replace("__", "."): value for name, value in over.items()}
    return windlass.fit(texts, dev, task="lm", settings=settings, quiet=True)


@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn", {"kind": "convolution", "width": 8}])
def test_a_text_that_repeats_is_learned_to_nearly_no_entropy(cell):
    model = learn([PERIODIC], model__decoder__cell=cell)
    assert model.dev.metrics["nats"] < 0.1
    assert model.dev.metrics["bpc"] == pytest.approx(model.dev.metrics["nats"] / math.log(2))
    assert PERIODIC.startswith("the cat" + model.generate("the cat", length=40, temperature=0.1))


def test_words_and_pieces_are_learned_as_well_as_characters():
    for tokens in ({"kind": "words"}, {"kind": "bpe", "size": 30}):
        model = learn([PERIODIC * 3], target__tokens=tokens, train__epochs=5)
        assert model.dev.metrics["perplexity"] < 1.2
        assert " sat on the mat; the cat sat".startswith(model.generate("the cat", length=4, temperature=0.1)[:16])
        assert ("bpc" in model.dev.metrics) == (tokens["kind"] != "words")


def test_lines_are_learned_as_texts_of_their_own_that_end():
    model = learn(["one two", "three four five"] * 60, train__chunk=None, train__epochs=25)
    assert model.dev.metrics["nats"] < 0.15  # which of the two it is cannot be known: log 2 a line
    found = {model.generate(seed=seed, length=50, temperature=0.3) for seed in range(12)}
    assert found == {"one two", "three four five"}


def test_tied_weights_and_locked_dropout_between_layers_learn_too():
    over = {"model__tie": "target", "model__decoder__embedding": {"kind": "learned", "size": 32}}
    model = learn(
        [PERIODIC], **over, model__decoder__layers=2, model__decoder__dropout=0.1, model__decoder__locked=True
    )
    assert model.dev.metrics["nats"] < 0.2


def test_a_model_beats_its_baselines_where_the_past_matters_for_long():
    chance = random.Random(2)
    text = "".join(letter + "." * 10 + letter + "\n" for letter in chance.choices("ab", k=500))
    model = learn([text], train__epochs=14, model__decoder__size=48)
    assert model.baseline is not None
    best = max(model.baseline.logprobs([model.bundle.sides.tokenizer.encode(text[-1300:])]).values()) / -1300
    assert model.evaluate([text[-1300:]]).metrics["nats"] < 0.75 * best
