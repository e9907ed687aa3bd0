import json
from dataclasses import asdict

import pytest

from windlass.baseline import (
    BagOfWords,
    BagOfWordsTagger,
    Baseline,
    HiddenMarkov,
    TooLargeError,
    best_baseline,
    fit,
    letter_by_letter,
    load_baseline,
    most_frequent,
    most_frequent_tag,
    save_baseline,
)
from windlass.core.errors import DataError, RecipeError
from windlass.data.sides import SideOptions

GREEK = [("ab", "αβ"), ("ba", "βα"), ("bab", "βαβ"), ("ca", "γα")]


def test_copy_repeats_the_source():
    assert Baseline("copy").predict(["a b", ""]) == ["a b", ""]


def test_most_frequent_says_the_commonest_target_whatever_it_is_asked():
    assert most_frequent([("a", "x"), ("b", "y"), ("c", "y")]).predict(["a", "zzz"]) == ["y", "y"]


def test_letter_by_letter_spells_words_it_has_never_seen():
    assert letter_by_letter(GREEK).predict(["abc", "aax"]) == ["αβγ", "ααx"]


def test_letter_by_letter_keeps_phones_apart():
    train = [("cat", "k a t"), ("tac", "t a k"), ("at", "a t")]
    assert letter_by_letter(train).predict(["tat"]) == ["t a t"]


def test_a_silent_letter_leaves_no_hole():
    train = [("thin", "θ ɪ n"), ("thin", "θ ɪ n"), ("nit", "n ɪ t"), ("in", "ɪ n")]
    baseline = letter_by_letter(train)
    assert baseline.table["h"] == ""  # three phones over four letters: θ falls to t, ɪ to i, n to n
    assert baseline.predict(["hin"]) == ["ɪ n"]


def test_words_are_not_taken_for_phones():
    assert letter_by_letter([("ab cd", "αβ γδ")]).predict(["ab"]) == ["αβ"]


def test_an_empty_source_gets_an_output_too():
    assert all(len(baseline.predict([""])) == 1 for baseline in fit([*GREEK, ("", "x")]))


@pytest.mark.parametrize(("metric", "name"), [("accuracy", "letter by letter"), ("cer", "letter by letter")])
def test_the_best_baseline_is_best_whichever_way_the_metric_is_up(metric, name):
    assert best_baseline(GREEK, ["acb"], [["αγβ"]], metric).name == name


def test_of_equally_good_baselines_the_simplest_is_taken():
    assert best_baseline([("a", "a"), ("b", "b")], ["a"], [["a"]], "accuracy").name == "copy"


def test_long_sources_are_not_written_letter_by_letter():
    sentence = "a man in a blue shirt is standing on a ladder"
    assert "letter by letter" not in [baseline.name for baseline in fit([(sentence, "ein Mann")])]


def test_a_baseline_survives_json():
    for baseline in fit(GREEK):
        again = Baseline(**json.loads(json.dumps(asdict(baseline))))
        assert again.predict(["ab", "cc"]) == baseline.predict(["ab", "cc"])


def test_no_training_data_and_unknown_metrics_are_refused():
    with pytest.raises(DataError, match="training examples"):
        fit([])
    with pytest.raises(RecipeError, match="unknown metric"):
        best_baseline(GREEK, ["a"], [["α"]], "acuracy")


FILMS = [("a good film", "yes"), ("a bad film", "no"), ("good fun", "yes"), ("bad luck", "no"), ("good", "yes")]


def test_a_bag_of_words_goes_by_its_words_and_survives_json(tmp_path):
    bag = BagOfWords.fit(FILMS)
    assert bag.predict(["so good a day", "bad bad", "?"]) == ["yes", "no", "yes"]
    save_baseline(tmp_path, bag)
    assert load_baseline(tmp_path) == bag


def test_of_labels_the_bag_is_taken_where_it_is_better():
    chosen = best_baseline(FILMS, ["bad film", "good film"], [["no"], ["yes"]], "accuracy", SideOptions(target="label"))
    assert chosen.name == "bag of words"
    assert best_baseline(FILMS, ["x"], [["yes"]], "accuracy", SideOptions(target="label")).name == "most frequent"


CANS = [(("the", "can"), "DET NOUN"), (("we", "can"), "PRON VERB"), (("we", "can"), "PRON VERB")]


def test_the_most_frequent_tag_of_a_word_knows_no_neighbours():
    assert most_frequent_tag(CANS).predict([("the", "can"), ("we", "cow")]) == ["DET VERB", "PRON PRON"]


def test_a_hidden_markov_model_knows_neighbours_and_looks(tmp_path):
    model = HiddenMarkov.fit([*CANS, (("the", "Talking"), "DET NOUN"), (("we", "ran"), "PRON VERB")])
    assert model.predict([("the", "can"), ("we", "can")]) == ["DET NOUN", "PRON VERB"]
    assert model.predict([("the", "Walking"), ("we", "pan")]) == ["DET NOUN", "PRON VERB"]
    save_baseline(tmp_path, model)
    again = load_baseline(tmp_path)
    assert again == model
    assert again.predict(["the can"]) == ["DET NOUN"]


def test_a_baseline_that_does_not_fit_is_left_out_and_said():
    notes: list[str] = []
    many = [(f"text {n}", f"label {n}") for n in range(6000)]
    fitted = fit(many, SideOptions(target="label"), note=notes.append)
    assert [one.name for one in fitted] == ["most frequent"]
    tagged = [((f"word{n}",), f"T{n}") for n in range(1200)]
    assert [one.name for one in fit(tagged, SideOptions(source="words", target="tags"), note=notes.append)] == [
        "most frequent tag of a word"
    ]
    assert notes == [
        "the baseline bag of words is left out: 6,000 labels of 6,000 texts are too many for it",
        "the baseline hidden Markov model is left out: 1,200 tags are too many for it",
    ]
    with pytest.raises(TooLargeError):
        BagOfWordsTagger.fit([(tuple(source for source, _ in many), " ".join(f"T{n}" for n in range(6000)))])
