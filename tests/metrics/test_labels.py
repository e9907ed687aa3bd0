"""Labels, spans and schemes: figures by hand, and as the field's scorer counts them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.errors import DataError
from windlass.data.schemes import convert, fault, follows, spans, told
from windlass.metrics.labels import confusion, f1, macro_f1
from windlass.metrics.spans import span_f1, tag_accuracy


def test_macro_f1_counts_every_label_alike():
    right = [["a"]] * 8 + [["b"]] * 2
    given = ["a"] * 9 + ["b"]
    assert f1(given, right) == pytest.approx({"a": 16 / 17, "b": 2 / 3})
    assert macro_f1(given, right)["macro_f1"] == pytest.approx(100 * (16 / 17 + 2 / 3) / 2)


def test_a_label_that_is_only_predicted_lowers_the_mean():
    assert macro_f1(["a", "c"], [["a"], ["a"]])["macro_f1"] == pytest.approx(100 * (2 / 3) / 2)


def test_any_of_several_references_is_correct():
    assert confusion(["b"], [["a", "b"]]) == {("b", "b"): 1}


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("B-x I-x O", [(0, 2, "x")]),
        ("I-x I-x O", [(0, 2, "x")]),  # no B: it begins all the same
        ("B-x I-y", [(0, 1, "x"), (1, 2, "y")]),  # another label: another span
        ("B-x B-x", [(0, 1, "x"), (1, 2, "x")]),
        ("O I-x O I-x", [(1, 2, "x"), (3, 4, "x")]),
        ("S-x S-x", [(0, 1, "x"), (1, 2, "x")]),
        ("B-x E-x I-x", [(0, 2, "x"), (2, 3, "x")]),  # after an end, another begins
        ("E-x", [(0, 1, "x")]),
        ("B-a-b I-a-b", [(0, 2, "a-b")]),
        ("O O", []),
    ],
)
def test_spans_are_read_as_conlleval_reads_them(tags, expected):
    assert spans(tags.split()) == expected


def test_span_scores_are_over_all_sentences():
    found = ["B-x O", "B-x B-y"]
    right = [["B-x O"], ["O B-x"]]
    assert span_f1(found, right) == pytest.approx({"span_f1": 40.0, "span_precision": 100 / 3, "span_recall": 50.0})
    assert tag_accuracy(found, right) == {"tag_accuracy": 50.0}


def test_a_span_counts_only_whole():
    assert span_f1(["B-x I-x O"], [["B-x I-x I-x"]])["span_f1"] == 0


def test_no_spans_are_no_division_by_zero():
    assert span_f1(["O O"], [["O O"]])["span_f1"] == 0


def test_tags_of_other_words_are_refused():
    with pytest.raises(DataError, match="sentence 2: 1 predicted tags, but 2 gold tags"):
        tag_accuracy(["A", "A"], [["A"], ["A B"]])


TAGS = st.lists(st.sampled_from(["O", "B-x", "I-x", "E-x", "S-x", "B-y", "I-y", "E-y", "S-y"]), max_size=8)


@given(TAGS, st.sampled_from(["BIO", "BIOES"]))
def test_converting_keeps_the_spans_and_makes_them_well_formed(tags, scheme):
    converted = convert(tags, scheme)
    assert spans(converted) == spans(tags)
    assert fault(scheme, converted) is None


@given(TAGS)
def test_there_and_back_is_where_one_began(tags):
    bio = convert(tags, "BIO")
    assert convert(convert(bio, "BIOES"), "BIO") == bio


@pytest.mark.parametrize(
    ("scheme", "tags", "said"),
    [
        ("BIO", "O I-x", "tag 2, 'I-x', does not follow 'O'"),
        ("BIO", "I-x", "tag 1, 'I-x', cannot be the first"),
        ("BIO", "B-x I-y", "tag 2, 'I-y', does not follow 'B-x'"),
        ("BIO", "S-x", "tag 1, 'S-x', is none of BIO"),
        ("BIOES", "B-x", "the end does not follow 'B-x'"),
        ("BIOES", "B-x O", "tag 2, 'O', does not follow 'B-x'"),
        ("BIOES", "B-x I-x E-x S-y O", None),
        ("none", "NOUN I-x", None),
    ],
)
def test_what_is_ill_formed_is_named(scheme, tags, said):
    assert fault(scheme, tags.split()) == said


def test_a_scheme_is_recognised_by_its_tags():
    assert told(["B-x", "O"]) == "BIO"
    assert told(["B-x", "E-x"]) == "BIOES"
    assert told(["O", "NOUN"]) == "none"
    assert told(["O"]) == "none"
    assert follows("none", "I-x", "I-y")
