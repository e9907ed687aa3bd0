"""Subword regularisation and character noise: what they draw and how often, and that a resumed run draws the same."""

from __future__ import annotations

import json
import math
from collections import Counter
from itertools import pairwise, product
from random import Random

import pytest

from windlass.bundle import Bundle
from windlass.core.errors import RecipeError
from windlass.core.marks import EOS
from windlass.data.augment import Augmentation, BpeDropout, CharacterNoise, UnigramSampling
from windlass.data.sides import Sides
from windlass.data.tokenizer import Tokenizer
from windlass.data.tokens import TextOptions
from windlass.experiment.data import as_data
from windlass.experiment.loaders import fit_sides, training_loader
from windlass.recipe import compose, override

TEXTS = ["the lowest of the low, lower than the others", "others lower the rest: the lowest rests"]
BPE = Tokenizer.fit(TextOptions(tokens={"kind": "bpe", "size": 60}), TEXTS)
UNIGRAM = Tokenizer.fit(TextOptions(tokens={"kind": "unigram", "size": 40}), TEXTS)
LETTERS = Tokenizer.fit(TextOptions(), ["abcdefgh"])


def test_without_dropout_the_cut_is_the_tokenizers_own_unknown_characters_and_all():
    keep = BpeDropout(BPE, 0.0)
    for text in (*TEXTS, "lower! (the) lowQest", "Q", " the  low "):
        assert keep(BPE.encode(text), Random(1)) == BPE.encode(text)


def test_with_dropout_the_text_is_the_same_and_the_cut_another():
    some = BpeDropout(BPE, 0.3)
    for text in TEXTS:
        cuts = {tuple(some(BPE.encode(text), Random(n))) for n in range(20)}
        assert len(cuts) > 10
        assert {BPE.decode(cut) for cut in cuts} == {text}
        assert min(map(len, cuts)) >= len(BPE.encode(text))


def test_a_merge_is_left_out_with_the_probability_that_is_set():
    tokenizer = Tokenizer.fit(TextOptions(tokens={"kind": "bpe", "size": 7}), ["a a a a"])  # one merge: space and a
    whole = tokenizer.encode("a")
    assert len(whole) == 1
    drawn = Counter(len(BpeDropout(tokenizer, 0.25)(whole, Random(n))) for n in range(2000))
    assert drawn[2] / 2000 == pytest.approx(0.25, abs=0.03)
    assert set(drawn) == {1, 2}


@pytest.mark.parametrize("alpha", [0.3, 1.0])
def test_a_cut_of_unigram_is_drawn_by_the_power_of_its_probability(alpha):
    scores = dict(json.loads(UNIGRAM.model)["model"]["vocab"])
    word, weights = " lowest", {}
    for ends in product((False, True), repeat=len(word) - 1):
        places = [0, *(n for n, end in enumerate(ends, 1) if end), len(word)]
        pieces = [word[begin:end] for begin, end in pairwise(places)]
        if all(piece in UNIGRAM.index for piece in pieces):
            weights[tuple(pieces)] = math.exp(alpha * sum(scores[piece] for piece in pieces))
    assert len(weights) > 3
    whole, draw = UNIGRAM.encode("lowest"), UnigramSampling(UNIGRAM, alpha)
    found = Counter(tuple(UNIGRAM.token(n).replace("▁", " ") for n in draw(whole, Random(k))) for k in range(4000))
    assert set(found) <= set(weights)
    for pieces, weight in weights.items():
        assert found[pieces] / 4000 == pytest.approx(weight / sum(weights.values()), abs=0.03)


def test_whatever_is_drawn_is_the_same_text():
    draw = UnigramSampling(UNIGRAM, 0.1)
    for text in (*TEXTS, "lower! (the) lowQest", "Q", " the  low "):
        ids = UNIGRAM.encode(text)
        assert {UNIGRAM.decode(draw(ids, Random(n))) for n in range(10)} == {UNIGRAM.decode(ids)}


def test_noise_deletes_inserts_replaces_and_swaps_in_equal_shares():
    noise, ids, found = CharacterNoise(LETTERS, 0.1), LETTERS.encode("abcdefgh"), Counter()
    assert CharacterNoise(LETTERS, 0.0)(ids, Random(1)) == ids
    for n in range(4000):
        changed = noise(ids, Random(n))
        if len(changed) == len(ids):
            wrong = [k for k, pair in enumerate(zip(changed, ids, strict=True)) if pair[0] != pair[1]]
            swapped = len(wrong) == 2 and changed[wrong[0]] == ids[wrong[1]]
            found["swap" if swapped else "same" if not wrong else "replace"] += 1
        else:
            found["insert" if len(changed) > len(ids) else "delete"] += 1
    assert found["same"] / 4000 == pytest.approx(0.9**8, abs=0.06)  # and a letter may be replaced by itself
    assert all(found[change] > 300 for change in ("delete", "insert", "replace", "swap"))
    assert CharacterNoise(LETTERS, 0.999)([1, 1], Random(2)) == [1, 1]  # what is unknown stays


def loaded(**settings):
    pairs = [(text, text) for text in TEXTS] * 3
    over = [override(key.replace("__", "."), value) for key, value in settings.items()]
    recipe = compose("text", None, over)
    data = as_data(pairs, pairs[:1], recipe)
    return training_loader(Bundle.new(recipe, fit_sides(recipe, data.train)), data.train)


@pytest.mark.parametrize(("kind", "option"), [("bpe", "train__bpe_dropout"), ("unigram", "train__unigram_sampling")])
def test_an_epoch_is_drawn_anew_and_the_same_after_a_resume(kind, option):
    loader = loaded(train__character_noise=0.3, target__tokens={"kind": kind, "size": 60}, **{option: 0.3})
    first, again, second = (list(loader.epoch(n)) for n in (0, 0, 1))
    rows = [{int(k): b.inputs["source"].values[n].tolist() for b in epoch for n, k in enumerate(b.keys)}
            for epoch in (first, again, second)]  # fmt: skip
    assert rows[0] == rows[1] != rows[2]
    (resumed,) = list(loader.epoch(0, start=len(first) - 1))
    assert resumed.target.values.tolist() == first[-1].target.values.tolist()
    targets = {tuple(row.tolist()) for batch in first for row in batch.target.values}
    assert len(targets) > 2  # the two texts are cut in other ways in every row


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"train.bpe_dropout": 0.1}, "tokens: bpe"),
        ({"train.unigram_sampling": 0.1}, "tokens: unigram"),
        ({"train.unigram_sampling": 1e308}, "less than or equal to 1000"),
        ({"train.character_noise": 0.1, "source.tokens": "words"}, "characters or graphemes"),
        ({"train.character_noise": 0.1, "model.decoder.copying": True}, "copying"),
    ],
)
def test_where_it_would_change_nothing_or_what_others_refer_to_it_is_refused(settings, message):
    with pytest.raises(RecipeError, match=message):
        compose("text", None, [override(key, value) for key, value in settings.items()])


def test_an_example_without_changes_is_as_it_was():
    row = Sides.tiny().encode("ab", "c")
    changed = Augmentation(1)(row, 0, 0)
    assert changed.source["source"].tolist() == row.source["source"].tolist()
    assert changed.target.dtype == row.target.dtype


def test_noise_moves_no_mark():
    noise = CharacterNoise(LETTERS, 0.99)
    assert all(noise([4, EOS], Random(n))[-1] == EOS for n in range(100))


LEARNED = {"size": 8, "heads": 2, "hidden": 8, "layers": 1, "positions": "learned"}


@pytest.mark.parametrize(
    ("longest", "model"),
    [
        (5, {"encoder": {"kind": "attention", "longest": 5} | LEARNED}),
        (9, {"encoder": "prefix", "decoder": {"kind": "transformer", "context": "none", "longest": 9} | LEARNED}),
    ],
)
def test_noise_makes_no_example_longer_than_its_learned_positions(longest, model):
    whole = model["encoder"] == "prefix"
    settings = {"vocabulary": "joint", "source.tokens": "characters", "train.character_noise": 0.5}
    settings["model"] = {"tie": "none"} | model
    recipe = compose("text", None, [override(key, value) for key, value in settings.items()])
    data = as_data([("abcd", "abc"), ("dcba", "cba"), ("ab", "ba")] * 4, [], recipe)
    bundle = Bundle.new(recipe, fit_sides(recipe, data.train))
    loader = training_loader(bundle, data.train)
    lengths = set()
    for epoch in range(30):
        for batch in loader.epoch(epoch):
            lengths |= set((batch.inputs["source"].lengths + whole * batch.target.lengths).tolist())
            bundle.model(batch)
    assert max(lengths) == longest
    assert len(lengths) > 3
