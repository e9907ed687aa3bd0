import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.errors import DataError
from windlass.metrics.edit import (
    accuracy,
    character_error_rate,
    edit_distance,
    phone_error_rate,
    word_error_rate,
    wrong_words,
)

REFERENCES = [["k æ t"], ["d ɒ g", "d ɔ g"], ["b ɜː d z"]]


def by_table(a: str, b: str) -> int:
    """The textbook table, cell by cell."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        left = [i]
        for j, y in enumerate(b, 1):
            left.append(min(row[j] + 1, left[-1] + 1, row[j - 1] + (x != y)))
        row = left
    return row[-1]


@pytest.mark.parametrize(
    ("a", "b", "distance"),
    [
        ("", "", 0),
        ("", "abc", 3),
        ("abc", "", 3),
        ("kitten", "sitting", 3),
        ("ab", "ba", 2),
        ("flaw", "lawn", 2),
    ],
)
def test_edit_distance_of_known_pairs(a, b, distance):
    assert edit_distance(a, b) == distance


@given(st.text("abc", max_size=12), st.text("abc", max_size=12))
def test_edit_distance_equals_the_textbook_table(a, b):
    assert edit_distance(a, b) == by_table(a, b)


def test_edit_distance_of_texts_longer_than_a_machine_word():
    assert edit_distance("ab" * 100, "b" + "ab" * 99) == 1
    assert edit_distance("a" * 70, "b" * 90) == 90


def test_tokens_are_whole_symbols():
    assert edit_distance(["tʃ", "a"], ["ʃ", "a"]) == 1


def test_thirteen_thousand_names_take_less_than_a_second():
    start = time.perf_counter()
    for i in range(13_000):
        edit_distance(f"{i:010d}", f"{i * 7:010d}")
    assert time.perf_counter() - start < 1


def test_wrong_words_are_items_that_match_no_reference():
    predictions = ["k æ t", "d ɔ g", "b ɜː d"]  # correct, the second of two references, wrong
    assert wrong_words(predictions, REFERENCES)["wer"] == pytest.approx(100 / 3)
    assert accuracy(predictions, REFERENCES)["accuracy"] == pytest.approx(200 / 3)


def test_phone_error_rate_sums_before_it_divides():
    predictions = [
        "k a t s",
        "d ɔ g",
        "b ɜː d",
    ]  # 2 edits of 3, 0 of 3, 1 of 4: a mean of rates would differ
    assert phone_error_rate(predictions, REFERENCES)["per"] == pytest.approx(100 * 3 / 10)


def test_word_error_rate_sums_the_edits_of_words_before_it_divides():
    said, right = ["the cat sat", "a dog"], [["the cat sat down"], ["a big dog", "two very different words"]]
    assert word_error_rate(said, right)["word_error_rate"] == pytest.approx(100 * 2 / 7)  # a mean of rates: 29.2
    assert word_error_rate(["The cat."], [["the cat"]])["word_error_rate"] == 100


def test_the_length_is_that_of_the_closest_reference():
    assert phone_error_rate(["a b c"], [["x y", "a b c d"]])["per"] == pytest.approx(25)  # not 3 of 2
    assert character_error_rate(["abc"], [["xy", "abcd"]])["cer"] == pytest.approx(25)


def test_ties_go_to_the_first_reference():
    assert phone_error_rate(["a b"], [["a", "a b c"]])["per"] == pytest.approx(100)
    assert phone_error_rate(["a b"], [["a b c", "a"]])["per"] == pytest.approx(100 / 3)


def test_an_error_rate_may_exceed_a_hundred():
    assert phone_error_rate(["a b c d"], [["x"]])["per"] == pytest.approx(400)


def test_an_empty_prediction_misses_everything():
    assert wrong_words([""], [["k a t"]]) == {"wer": 100.0}
    assert word_error_rate([""], [["k a t"]]) == {"word_error_rate": 100.0}
    assert phone_error_rate([""], [["k a t"]]) == {"per": 100.0}
    assert character_error_rate([""], [["kat"]]) == {"cer": 100.0}
    assert accuracy([""], [["", "kat"]]) == {"accuracy": 100.0}
    assert phone_error_rate([""], [[""]]) == {"per": 0.0}


def test_characters_are_counted_with_the_spaces_between_words():
    assert character_error_rate(["New Yrk"], [["New York"]])["cer"] == pytest.approx(100 / 8)


@pytest.mark.parametrize("text", ["Málaga", "서울", "क़िला"])
def test_the_unicode_form_makes_no_difference(text):
    nfc, nfd = unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text)
    assert accuracy([nfd], [[nfc]]) == {"accuracy": 100.0}
    assert accuracy([nfc], [[nfd]]) == {"accuracy": 100.0}
    assert character_error_rate([nfd], [[nfc]]) == {"cer": 0.0}


def test_characters_are_counted_composed():
    decomposed = unicodedata.normalize("NFD", "서울")  # 5 jamo, but 2 syllables
    assert character_error_rate(["서"], [[decomposed]]) == {"cer": 50.0}


def test_runs_of_whitespace_are_one_space():
    assert wrong_words([" k a  t "], [["k a t"]]) == {"wer": 0.0}
    assert wrong_words(["ka t"], [["k a t"]]) == {"wer": 100.0}


@pytest.mark.parametrize(
    ("predictions", "references", "message"),
    [
        (["a"], [], "1 predictions but 0 references"),
        ([], [], "nothing to score"),
        (["a"], [[]], r"references\[0\] is empty"),
        (["a"], ["a"], r"references\[0\] is a string"),
    ],
)
@pytest.mark.parametrize("metric", [accuracy, wrong_words, word_error_rate, phone_error_rate, character_error_rate])
def test_what_cannot_be_scored_is_refused(metric, predictions, references, message):
    with pytest.raises(DataError, match=message):
        metric(predictions, references)


def test_phones_without_spaces_are_characters_and_those_with_spaces_stay():
    spaced, joined = [["tʃ æ t"], ["d ɔ g", "d ɒ g"]], [["tʃæt"], ["dɔg", "dɒg"]]
    assert phone_error_rate(["t æ t", "d ɒ g"], spaced) == {"per": pytest.approx(100 / 6)}
    assert phone_error_rate(["tæt", "dɒg"], joined) == {"per": pytest.approx(100 / 7)}
    some = [*joined, ["a tʃ"]]  # a phrase among words
    assert phone_error_rate(["tæt", "dɒg", "a t"], some) == {"per": pytest.approx(100 * 2 / 11)}
