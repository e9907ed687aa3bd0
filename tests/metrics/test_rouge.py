"""ROUGE and distinct-n against hand counts."""

import random

import pytest

from windlass.core.errors import DataError
from windlass.metrics import METRICS, score
from windlass.metrics.rouge import _lcs_length, rouge
from windlass.metrics.text import distinct


def test_rouge_by_hand():
    said, right = "The cat sat on the mat.", "the cat was on the mat today"
    # 6 and 7 words; shared: the cat on the mat = 5 words, pairs "the cat", "on the", "the mat" = 3 of 5 and of 6.
    found = rouge([said], [[right]])
    assert found["rouge_1"] == pytest.approx(100 * 2 * 5 / 13)
    assert found["rouge_2"] == pytest.approx(100 * 2 * 3 / 11)
    assert found["rouge_l"] == pytest.approx(100 * 2 * 5 / 13)


def test_word_order_counts_for_bigrams_and_the_longest_common_subsequence():
    found = rouge(["b a"], [["a b"]])
    assert found == {"rouge_1": 100.0, "rouge_2": 0.0, "rouge_l": 50.0}


def test_counts_are_clipped_to_those_of_the_reference():
    assert rouge(["a a a a"], [["a b"]])["rouge_1"] == pytest.approx(100 * 2 * 1 / 6)


def test_words_are_not_stemmed_and_punctuation_and_case_do_not_count():
    assert rouge(["model"], [["models"]])["rouge_1"] == 0
    assert rouge(["Pre-trained, MODELS!"], [["pre trained models"]])["rouge_1"] == 100


def test_letters_of_every_script_are_words():
    assert rouge(["Großer Gott"], [["großer gott"]])["rouge_l"] == 100


def test_a_score_is_the_mean_over_items_of_the_best_reference():
    assert rouge(["a b", "c"], [["x", "a b"], ["d"]])["rouge_1"] == 50


def test_an_empty_summary_has_nothing():
    assert rouge([""], [["a b"]]) == {"rouge_1": 0.0, "rouge_2": 0.0, "rouge_l": 0.0}
    with pytest.raises(DataError):
        rouge([], [])


def test_the_longest_common_subsequence_is_that_of_the_table():
    draw = random.Random(3)
    for _ in range(200):
        a, b = ([draw.choice("abcd") for _ in range(draw.randint(0, 9))] for _ in range(2))
        table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
        for i, x in enumerate(a):
            for j, y in enumerate(b):
                table[i + 1][j + 1] = table[i][j] + 1 if x == y else max(table[i][j + 1], table[i + 1][j])
        assert _lcs_length(a, b) == table[-1][-1]


def test_distinct_by_hand():
    found = distinct(["I do not know", "i do"], [["x"], ["x"]])
    assert found["distinct_1"] == pytest.approx(100 * 4 / 6)
    assert found["distinct_2"] == pytest.approx(100 * 3 / 4)  # "do" and the next "i" are no pair
    assert distinct([""], [["x"]]) == {"distinct_1": 0.0, "distinct_2": 0.0}


def test_they_are_registered_and_higher_is_better():
    assert list(score(["rouge_2", "distinct_1"], ["a"], [["a"]])) == ["rouge_2", "distinct_1"]
    assert all(METRICS[name].higher_is_better for name in ("rouge_1", "rouge_2", "rouge_l", "distinct_1", "distinct_2"))
