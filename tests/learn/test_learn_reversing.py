"""Every way a decoder can see its source learns to reverse words that it has never seen."""

from __future__ import annotations

import pytest

import windlass
from toy import SMALL, accuracy, learn, reversals, strings
from windlass.decoding.options import Greedy
from windlass.inference.predict import predict
from windlass.nn.embedding import Learned

NO_READOUT = {"model__decoder__readout": "state"}
SHORT = reversals("abcdef", 2, 3)


@pytest.fixture(scope="module")
def reverser() -> windlass.Trained:
    return learn(reversals(), train__epochs=16)


def test_attention_learns_to_reverse(reverser):
    assert accuracy(reverser, reversals()[:50]) >= 95
    assert reverser.baseline is not None
    cheap = reverser.baseline.predict([source for source, _ in reversals()[:50]])
    assert sum(c == t for c, (_, t) in zip(cheap, reversals()[:50], strict=True)) < 15  # it is no trivial task


def test_a_model_that_is_asked_about_another_source_gives_another_answer(reverser):
    sources = [source for source, _ in reversals()[:50]]
    assert accuracy(reverser, list(zip(sources[1:], [s[::-1] for s in sources], strict=False))) < 10


def test_the_summary_at_the_start_is_enough_for_short_words():
    parts = {"model__decoder__context": "none", "model__decoder__start": "summary"} | NO_READOUT
    model = learn(reversals(), train__epochs=30, model__decoder__size=64, **parts)
    assert accuracy(model, reversals()[:50]) >= 90
    assert model.explain("abc").attention is None


def test_the_summary_at_every_step_is_enough_for_short_words():
    assert accuracy(learn(SHORT, train__epochs=20, model__decoder__context="summary"), SHORT[:50]) >= 90


def test_one_network_over_source_separator_and_target_learns_to_reverse():
    parts = {
        "model__encoder": {"kind": "prefix"},
        "model__decoder__context": "none",
        "model__decoder__cell": "lstm",
        "model__decoder__size": 64,
        "vocabulary": "joint",
    }
    assert accuracy(learn(SHORT, train__epochs=30, **parts, **NO_READOUT), SHORT[:50]) >= 90


def test_without_feedback_a_decoder_learns_what_needs_none():
    table = str.maketrans("abcd", "wxyz")
    coded = [(word, word.translate(table)) for word in strings("abcd", 2, 4)]
    unused = Learned().model_dump()  # an embedding that is not used must be as it comes
    model = learn(coded, train__epochs=14, model__decoder__feedback=False, model__decoder__embedding=unused)
    assert accuracy(model, coded[:50]) >= 95


@pytest.mark.parametrize(
    "parts",
    [
        {"train__sampling": {"kind": "linear", "last": 0.3, "epochs": 8}},
        {"train__average": {"kind": "ema", "decay": 0.9}},
        {"train__average": {"kind": "checkpoints", "count": 3}},
    ],
    ids=["scheduled sampling", "ema", "checkpoints"],
)
def test_other_ways_to_train_learn_too(parts):
    assert accuracy(learn(reversals(), train__epochs=16, **parts), reversals()[:50]) >= 95


def test_new_symbols_are_learned_by_training_further_and_the_old_are_kept(reverser):
    new = [pair for pair in reversals("abcdx", 2, 3) if "x" in pair[0]]
    assert accuracy(reverser, new[:20]) == 0  # it cannot write an x
    mixed = new[20:] + reversals()[50:200]
    further = windlass.fit(mixed, new[:20], base=reverser, settings={"train.epochs": 12}, quiet=True)
    assert accuracy(further, new[:20]) >= 90
    assert accuracy(further, reversals()[:50]) >= 90
    assert further.bundle.sides.source.sizes["source"] == reverser.bundle.sides.source.sizes["source"] + 1


def test_coverage_goes_the_whole_road():
    score = {"kind": "additive", "size": 16, "coverage": True}
    context = {"kind": "attention", "score": score}
    model = learn(reversals(), train__epochs=16, model__decoder__context=context, loss__coverage=0.1)
    assert accuracy(model, reversals()[:50]) >= 95
    for found in model.predict([source for source, _ in reversals()[:20]]):
        assert found.attention is not None
        received = [sum(row[j] for row in found.attention) for j in range(len(found.places.names))]
        assert sum(received) == pytest.approx(len(found.attention), abs=1e-4)
        assert sum(min(1.0, r) for r in received) >= 0.8 * len(received)  # little is seen twice or left out


def test_two_different_models_make_an_ensemble(reverser):
    context = {"kind": "attention", "score": "dot", "query": "current"}
    parts = {"model__decoder__cell": "lstm", "model__encoder__cell": "lstm", "model__encoder__size": 16, "seed": 2}
    other = learn(reversals(), train__epochs=12, model__decoder__context=context, **parts)
    sources = [source for source, _ in reversals()[:50]]
    joined = predict([reverser.bundle, other.bundle], sources, Greedy())
    assert sum(p.text == s[::-1] for p, s in zip(joined, sources, strict=True)) >= 45
    alone = zip(reverser.predict(sources, Greedy()), other.predict(sources, Greedy()), strict=True)
    for together, (a, b) in zip(joined, alone, strict=True):
        if a.answer.tokens[0] == b.answer.tokens[0]:
            each = [one.answer.probabilities[0] for one in (a, b)]
            assert together.answer.probabilities[0] == pytest.approx(sum(each) / 2, abs=1e-5)


@pytest.mark.parametrize("step", ["writing", "reading"])
def test_gold_links_teach_attention_where_to_look_and_dev_chooses_by_them(tmp_path, step):
    for name, words in (("train", strings("abcd", 2, 4)[50:]), ("dev", strings("abcd", 2, 4)[:50])):
        links = [" ".join(f"{i}-{len(w) - 1 - i}" for i in range(len(w))) for w in words]
        rows = [f"{w}\t{w[::-1]}\t{link}\n" for w, link in zip(words, links, strict=True)]
        (tmp_path / f"{name}.tsv").write_text("".join(rows))
    settings = SMALL | {"data.alignment": 3, "loss.alignment": 1.0, "choose_by": "aer", "train.epochs": 6}
    if step == "reading":
        context = {"kind": "attention", "query": "current", "links": "reading"}
        settings |= {"model.decoder.context": context, "model.decoder.readout": "deep", "train.epochs": 10}
    model = windlass.fit(tmp_path / "train.tsv", tmp_path / "dev.tsv", task="text", settings=settings, quiet=True)
    assert model.bundle.scores["aer"] <= 5
    for found in model.predict(["abc", "dcba"]):
        assert found.attention is not None
        looked = [row.index(max(row)) for row in found.attention[step == "reading" :][: len(found.answer.tokens)]]
        assert looked == list(range(len(looked)))[::-1]
