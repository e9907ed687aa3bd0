import math
import sys

import pytest

from windlass.core.errors import DataError, RecipeError, WindlassError
from windlass.metrics import METRICS, higher_is_better, score
from windlass.metrics.text import bleu, bleu_moses_lowercased, chrf, signatures


def test_bleu_equals_hand_arithmetic():
    # matches of 1 to 4 words: 6/7, 4/6, 3/5, 2/4; 7 words against 6, so nothing is taken off for shortness
    by_hand = 100 * (6 / 7 * 4 / 6 * 3 / 5 * 2 / 4) ** (1 / 4)
    assert bleu(["a b c d e x f"], [["a b c d e f"]])["bleu"] == pytest.approx(by_hand)


def test_bleu_takes_off_for_short_output():
    assert bleu(["a b c d"], [["a b c d e f"]])["bleu"] == pytest.approx(100 * math.exp(1 - 6 / 4))


def test_bleu_takes_matches_from_every_reference():
    assert bleu(["a b c d e"], [["a b c d x", "y b c d e"]])["bleu"] == pytest.approx(
        100 * (5 / 5 * 4 / 4 * 3 / 3 * 2 / 2) ** (1 / 4)
    )


def test_items_may_have_unequal_numbers_of_references():
    said = ["a b c d", "e f g h"]
    assert bleu(said, [["x", "a b c d"], ["e f g h"]])["bleu"] == pytest.approx(100)
    assert chrf(said, [["x", "a b c d"], ["e f g h"]])["chrf"] == pytest.approx(100)


def test_case_counts_for_bleu_but_not_for_its_lowercased_form():
    figures = bleu(["A B C D"], [["a b c d"]])
    assert figures["bleu"] == pytest.approx(0)
    assert figures["bleu_lc"] == pytest.approx(100)


def test_punctuation_is_split_off_before_counting():
    assert bleu(["a b c, d."], [["a b c , d ."]])["bleu"] == pytest.approx(100)


def test_chrf_equals_hand_arithmetic():
    # "ab" against "ac": of single characters 1 of 2, of pairs 0 of 1, longer ones do not exist
    precision = recall = (1 / 2 + 0) / 2
    assert chrf(["ab"], [["ac"]])["chrf"] == pytest.approx(100 * 5 * precision * recall / (4 * precision + recall))


def test_chrf_weighs_recall_double():
    # "a" against "ab": singles precision 1 recall 1/2; the pair is in the reference alone and so is left out
    assert chrf(["a"], [["ab"]])["chrf"] == pytest.approx(100 * 5 * 1 * 0.5 / (4 * 1 + 0.5))


def test_an_empty_prediction_scores_nothing():
    assert bleu([""], [["a b c d"]]) == {"bleu": 0.0, "bleu_lc": 0.0}
    assert chrf([""], [["a b c d"]]) == {"chrf": 0.0}


def test_signatures_say_what_was_measured():
    found = signatures(["a"], [["a", "b"]])
    assert found["bleu"].startswith("nrefs:2|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert "case:lc" in found["bleu_lc"]
    assert "nc:6|nw:0" in found["chrf"]


def test_text_that_cannot_be_scored_is_refused():
    for metric in (bleu, chrf):
        with pytest.raises(DataError, match="is a string"):
            metric(["a"], ["a"])


def test_moses_bleu_splits_and_lowercases_and_nothing_more():
    pytest.importorskip("sacremoses", reason="Moses-tokenised BLEU is for benchmarks: pip install 'windlass[moses]'")
    said, answer = "Two Dogs, running 3.5 km.", "two dogs , running 3.5 km ."
    assert bleu_moses_lowercased([said], [[answer]])["bleu_moses_lc"] == pytest.approx(100)
    # Moses splits a word from "'s", which sacreBLEU leaves whole: 3 of 4, 2 of 3, 1 of 2, 0 of 1 match
    by_hand = 100 * (3 / 4 * 2 / 3 * 1 / 2 * 0.5 / 1) ** (1 / 4)  # the 0 is smoothed to a half
    assert bleu_moses_lowercased(["a man's b"], [["a man's c"]])["bleu_moses_lc"] == pytest.approx(by_hand)


def test_moses_bleu_without_its_package_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    with pytest.raises(WindlassError, match="needs sacremoses"):
        bleu_moses_lowercased(["a"], [["a"]])


def test_every_metric_in_the_table_gives_the_figure_it_is_named_after():
    best = {"pearson": 1, "spearman": 1, "mse": 0, "cider": 10}
    texts_of = {name: ["1", "2"] for name in ("pearson", "spearman", "mse")} | {"cider": ["a b c d", "e f g h"]}
    for name, metric in METRICS.items():
        texts = texts_of.get(name, ["(a b c d)"])
        perfect = metric.function(texts, [[text] for text in texts])[name]
        assert perfect == pytest.approx(best.get(name, 100 if higher_is_better(name) else 0))


def test_error_rates_are_better_low():
    assert {name for name in METRICS if not higher_is_better(name)} == {"wer", "per", "word_error_rate", "cer", "mse"}


def test_score_gives_what_was_asked_in_that_order():
    assert list(score(["chrf", "bleu_lc", "wer"], ["a"], [["a"]])) == ["chrf", "bleu_lc", "wer"]


def test_an_unknown_metric_is_named_with_the_nearest():
    with pytest.raises(RecipeError, match="unknown metric 'blue': did you mean 'bleu'"):
        score(["blue"], ["a"], [["a"]])
