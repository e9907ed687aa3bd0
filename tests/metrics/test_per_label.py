"""Precision, recall and F1 of every label, and the tables that show them."""

from __future__ import annotations

import random

import pytest

from windlass.commands.tables import MAX_LABELS, labels_table, metrics_table
from windlass.metrics.labels import f1, macro_f1, set_f1
from windlass.metrics.per_label import LabelScore, label_scores
from windlass.metrics.spans import span_f1


@pytest.fixture
def drawn() -> tuple[list[str], list[list[str]]]:
    chance = random.Random(3)
    return chance.choices("abcd", k=200), [[label] for label in chance.choices("abce", k=200)]


def test_the_f1_of_labels_is_that_of_the_macro_mean(drawn):
    scores = label_scores("label", *drawn)
    assert {label: score.f1 / 100 for label, score in scores.items()} == pytest.approx(f1(*drawn))
    assert sum(score.f1 for score in scores.values()) / len(scores) == pytest.approx(macro_f1(*drawn)["macro_f1"])
    assert sum(score.count for score in scores.values()) == 200
    counts = [score.count for score in scores.values()]
    assert counts == sorted(counts, reverse=True)
    assert (scores["d"].count, scores["d"].precision, scores["e"].recall) == (0, 0.0, 0.0)


def test_any_of_several_references_is_right():
    assert label_scores("label", ["b"], [["a", "b"]]) == {"b": LabelScore(100.0, 100.0, 100.0, 1)}


def test_sets_of_labels():
    scores = label_scores("labels", ["a,b", "a", ""], [["a"], ["a"], ["b"]])
    assert scores["a"] == LabelScore(100.0, 100.0, 100.0, 2)
    assert scores["b"] == LabelScore(0.0, 0.0, 0.0, 1)
    both = set_f1(["a,b", "a", ""], [["a"], ["a"], ["b"]])
    assert sum(score.f1 for score in scores.values()) / 2 == pytest.approx(both["label_macro_f1"])


def test_tags_count_one_by_one_and_spans_as_spans():
    tags = label_scores("tags", ["DET NOUN NOUN"], [["DET NOUN VERB"]])
    assert tags["NOUN"] == LabelScore(50.0, 100.0, pytest.approx(200 / 3), 1)
    predictions, references = ["B-x I-x O B-y"], [["B-x I-x O B-x"]]
    spans = label_scores("tags", predictions, references)
    assert spans == {"x": LabelScore(100.0, 50.0, pytest.approx(200 / 3), 2), "y": LabelScore(0.0, 0.0, 0.0, 0)}
    assert span_f1(predictions, references)["span_recall"] == 50.0


def test_tables_are_as_wide_as_their_contents():
    lines = list(metrics_table({"accuracy": 100.0, "bracket_precision": 7.5}, {"accuracy": 50.0}))
    assert lines == ["accuracy           100.00   (baseline 50.00)", "bracket_precision    7.50"]
    score = LabelScore(50.0, 100.0, 66.7, 3)
    lines = list(labels_table({"日本": score, "a label of very many words that goes on and on": score}))
    assert lines[3].startswith("a label of very many words that goes ...  ")
    assert lines[2].index("50.00") == lines[3].index("50.00") - 2  # wide characters take two columns
    assert list(labels_table({})) == []


def test_many_labels_are_counted():
    score = LabelScore(50.0, 100.0, 66.7, 3)
    lines = list(labels_table({f"label {n}": score for n in range(MAX_LABELS + 12)}))
    assert len(lines) == MAX_LABELS + 3  # a blank line, the heading, the count
    assert lines[-1] == "and 12 more labels: see --json"
