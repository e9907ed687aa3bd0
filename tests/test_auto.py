"""What is picked from the data fits the data."""

from __future__ import annotations

import pytest

from windlass.experiment.auto import suggest_settings
from windlass.experiment.data import as_data
from windlass.experiment.run import apply_suggestions
from windlass.recipe import Recipe, compose, setting

LETTERS = [("cat", "tac"), ("horse", "esroh"), ("cow", "woc")]
PHONES = [("cat", "k a t"), ("dog", "d o g"), ("shoe", "ʃ uː")]
SENTENCES = [(f"the man number {n} sees a house", f"der Mann Nummer {n} sieht ein Haus") for n in range(2100)]


def picked(pairs, *settings):
    said: list[str] = []
    recipe = compose("text", None, [setting(text) for text in settings])
    data = as_data(pairs, pairs[:1], recipe)
    return apply_suggestions(recipe, data, [setting(text) for text in settings], said.append), said


@pytest.mark.parametrize(
    ("pairs", "source", "target"),
    [(LETTERS, "characters", "characters"), (PHONES, "characters", "words"), (SENTENCES, "bpe", "bpe")],
)
def test_tokens_fit_the_data(pairs, source, target):
    recipe, said = picked(pairs)
    assert (recipe.source.tokens.kind, recipe.target.tokens.kind) == (source, target)
    assert said[0] == "picked from the data:"


def test_few_sentences_are_not_cut_into_pieces():
    assert picked(SENTENCES[:100])[0].source.tokens.kind == "characters"


def test_larger_data_bears_a_larger_network_and_fewer_passes():
    small, large = picked(LETTERS)[0], picked(LETTERS * 1000)[0]
    assert small.model.encoder.size < large.model.encoder.size
    assert small.train.epochs > large.train.epochs


def test_a_short_run_is_not_all_warm_up():
    schedule = picked(LETTERS)[0].train.schedule
    assert schedule.warmup <= 6  # 60 steps in all
    assert picked(LETTERS * 1000)[0].train.schedule.warmup == 200


def test_the_users_word_is_the_last_and_is_said():
    recipe, said = picked(LETTERS, "train.epochs=3", "source.tokens=graphemes", "seed=5")
    assert (recipe.train.epochs, recipe.source.tokens.kind, recipe.seed) == (3, "graphemes", 5)
    assert said[-1] == "  but as you set it: train.epochs=3, source.tokens=graphemes"


def test_what_is_picked_makes_a_recipe():
    for over, _ in suggest_settings(as_data(SENTENCES, SENTENCES[:1], Recipe()).train):
        assert compose("text", None, [over])
