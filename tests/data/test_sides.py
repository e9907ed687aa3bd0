"""The sides of an example: contracts that every kind holds, and what is special about each."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from windlass.core.errors import BundleError, DataError
from windlass.core.records import Hypothesis, Places
from windlass.data.cutting import cut as cut_words
from windlass.data.encoded import Encoded, EncodedStore
from windlass.data.examples import Example, Place, frozen
from windlass.data.readers import DataOptions, read
from windlass.data.recognise_file import recognise_file
from windlass.data.sides import SOURCES, TARGETS, CellError, SideOptions, Sides
from windlass.data.sides.labels import LabelOptions, LabelTarget
from windlass.data.sides.number import NumberOptions, NumberTarget
from windlass.data.sides.numbers import NumbersOptions, NumbersSource
from windlass.data.sides.tags import TagsOptions, TagsTarget
from windlass.data.sides.text import TextSource, TextTarget
from windlass.data.sides.words import WordsOptions, WordsSource

SENTENCES = [("The", "cat", "ran"), ("the", "dog", "10 000")]
WORDS = WordsSource.fit(WordsOptions(min_count=1), SENTENCES)
TAGGED = Sides(WORDS, TagsTarget.fit(TagsOptions(), ["DET NOUN VERB", "DET NOUN NUM"]))

sources = pytest.mark.parametrize("kind", SOURCES.values(), ids=SOURCES)
targets = pytest.mark.parametrize("kind", TARGETS.values(), ids=TARGETS)
both = pytest.mark.parametrize("kind", [*SOURCES.values(), *TARGETS.values()], ids=[*SOURCES, *TARGETS])


def stored(value):
    """A value that has been to disk and back."""
    return frozen(json.loads(json.dumps(value)))


def equal(one, other) -> bool:
    return one.keys() == other.keys() and all(
        torch.equal(one[name].values, other[name].values) and torch.equal(one[name].mask, other[name].mask)
        for name in one
    )


# -- contracts


@both
def test_a_side_survives_json_and_is_found_by_its_options(kind):
    side, _ = kind.tiny()
    assert kind.from_json(side.options, json.loads(json.dumps(side.to_json()))) == side
    if kind in SOURCES.values():
        assert SideOptions(source=side.options).source_side is kind
    else:
        assert SideOptions(target=side.options).target_side is kind


@both
def test_values_are_hashable_survive_a_store_and_are_read_as_they_are(kind):
    side, values = kind.tiny()
    assert len(values) >= 2
    for value in values:
        assert hash(value) == hash(stored(value))
        assert stored(value) == value == kind.read(side.options, value)


@both
def test_digests_are_stable_and_tell_values_apart(kind):
    _, values = kind.tiny()
    assert [kind.digest(value) for value in values] == [json.dumps(value).encode() for value in values]
    assert len({kind.digest(value) for value in values}) == len(set(values))


@both
def test_nothing_in_the_values_of_training_data_is_blank(kind):
    _, values = kind.tiny()
    if any(values):  # a source that is nothing is blank itself
        assert not any(kind.blank(value) for value in values)
    # An empty set of labels is an answer.
    assert "" in values or kind.blank("  " if not isinstance(values[0], tuple) else (" ", ""))


@sources
def test_a_batch_of_stored_arrays_is_the_batch_of_the_arrays(kind):
    side, values = kind.tiny()
    rows = [side.encode(value) for value in values]
    for disk in (False, True):
        store = EncodedStore((Encoded(row, None) for row in rows), lambda row: (1, 0), disk)
        assert equal(side.collate([row.source for row in store]), side.collate(rows))


@sources
def test_a_batch_of_one_is_a_row_of_the_batch(kind):
    side, values = kind.tiny()
    whole = side.collate([side.encode(value) for value in values])
    for n, value in enumerate(values):
        for name, one in side.collate([side.encode(value)]).items():
            assert torch.equal(whole[name].values[n][whole[name].mask[n]], one.values[one.mask])


@sources
def test_ids_are_below_the_sizes_and_places_are_those_of_the_main_input(kind):
    side, values = kind.tiny()
    inputs = side.collate([side.encode(value) for value in values])
    if (front := side.front()) is not None:
        inputs = {"source": front(inputs["source"])}
    for name, size in side.sizes.items():
        if inputs[name].values.is_floating_point():
            assert inputs[name].values.size(-1) == size
        else:
            assert int(inputs[name].values.max()) < size
    for n, value in enumerate(values):
        places = side.places(value)
        assert isinstance(places, Places)
        if "source" in inputs:  # a question has the places of its picture
            places_of = inputs.get("picture", inputs["source"])
            assert len(places.lowest.names) == int(places_of.mask[n].sum()) <= side.cost(side.encode(value))


@sources
def test_new_symbols_of_a_source_move_no_id(kind):
    side, values = kind.tiny()
    grown, new = side.extend(values)
    assert bool(new) == bool([n for value in values for n in side.unknown(value)])
    for value in values:
        assert grown.unknown(value) == ()
        if not side.unknown(value):
            before, after = side.encode(value), grown.encode(value)
            assert all(np.array_equal(before[name], after[name]) for name in before)


@sources
def test_a_line_is_read_into_the_value_that_its_columns_were_written_from(kind):
    side, values = kind.tiny()
    for value in values:
        if isinstance(value, str) or len(side.columns(value)) > 1 or not side.textual:
            assert side.from_line(side.options, "\t".join(side.columns(value))) == value


@targets
def test_a_batch_of_stored_targets_is_the_batch_of_the_targets(kind):
    side, values = kind.tiny()
    rows = [side.encode(value) for value in values]
    store = EncodedStore((Encoded({}, row) for row in rows), lambda row: (0, 1))
    one, other = side.collate([row.target for row in store]), side.collate(rows)
    assert equal({"target": one}, {"target": other})
    assert all(cost <= places for cost, places in zip(map(side.cost, rows), one.mask.sum(1).tolist(), strict=True))
    assert one.values.is_floating_point() or int(one.values.max()) < len(side)


@targets
def test_what_was_encoded_is_answered(kind):
    side, values = kind.tiny()
    words = ("the", "cat", "runs", "away")
    for value in values:
        if not side.unknown(value):
            array = side.encode(value)
            hypothesis = encoded_hypothesis(kind, side, array)
            source = words[: len(array) if kind.per_place else value.count(" _") or 4]
            text, answer = side.answer(hypothesis, WORDS, source)
            assert isinstance(answer, type(kind.no_answer))
            assert side.encode(text).tolist() == pytest.approx(array.tolist(), abs=1e-4)


def encoded_hypothesis(kind, side, array):
    """What a head would say of a value: ids, or, of a target that is no ids, a number or the labels that are set."""
    if array.dtype.kind == "f":
        assigned = tuple(array.nonzero()[0].tolist()) if len(side) > 1 else ()
        return Hypothesis(assigned, -1.0, (), distribution=torch.from_numpy(array), value=float(array[0]))
    distribution = torch.full((len(array), len(side)), 1 / len(side)) if kind.per_place else torch.rand(len(side))
    return Hypothesis(tuple(array.tolist()), -1.0, (-0.5,) * len(array), distribution=distribution)


@targets
def test_new_symbols_of_a_target_move_no_id(kind):
    side, values = kind.tiny()
    grown, new = side.extend([*values, values[0]])
    assert len(grown) == len(side) + len(new)
    assert all(np.array_equal(grown.encode(value), side.encode(value)) for value in values if not side.unknown(value))


@targets
def test_baselines_of_a_target_are_known(kind):
    from windlass.baseline import BASELINES

    assert kind.baselines
    names = {other.instead.get(name, name) for other in SOURCES.values() for name in kind.baselines}
    beside = {name for other in SOURCES.values() for name in other.beside}
    assert (names | beside) - {None, "nearest", "most frequent tag"} <= BASELINES.keys()


# -- both sides together


@pytest.mark.parametrize(
    "sides",
    [
        TAGGED,
        Sides(WORDS, TagsTarget.fit(TagsOptions(scheme="BIOES"), ["O B-x I-x"])),
        Sides(TextSource.fit(WORDS.tokenizer.options, ["a b"]), LabelTarget(LabelOptions(), ("x",))),
        Sides(SOURCES["none"].tiny()[0], TextTarget.fit(WORDS.letters.options, ["abc"])),
        Sides(WORDS, TARGETS["tree"].tiny()[0]),
    ],
    ids=["tags", "bioes", "label", "nothing", "tree"],
)
def test_sides_of_every_kind_survive_json(sides):
    assert Sides.from_json(json.loads(json.dumps(sides.to_json()))) == sides


def test_a_damaged_side_is_refused():
    content = TAGGED.to_json()
    with pytest.raises(BundleError, match="damaged codec"):
        Sides.from_json(content | {"target": {"options": {"kind": "tags"}, "symbols": "ab"}})
    with pytest.raises(BundleError, match="damaged codec"):
        Sides.from_json(content | {"target": {"options": {"kind": "gags"}}})


# -- words


def test_words_are_looked_up_in_lower_case_and_letters_keep_theirs():
    upper, lower = WORDS.encode(("THE",)), WORDS.encode(("the",))
    assert upper["source"].tolist() == lower["source"].tolist() != [1]
    assert upper["characters"].tolist() != lower["characters"].tolist()


def test_a_word_with_a_space_in_it_is_one_word():
    found = WORDS.encode(("10 000",))
    assert found["source"].tolist() != [1]
    assert found["characters_lengths"].tolist() == [6]


def test_of_a_long_word_both_ends_are_read():
    side = WordsSource.fit(WordsOptions(longest=4), [("abcdefgh",)])
    assert [side.letters.token(n) for n in side.encode(("abcdefgh",))["characters"]] == ["a", "b", "g", "h"]


def test_an_unknown_word_with_known_letters_is_nothing_new():
    assert WORDS.unknown(("cart",)) == ()
    assert WORDS.unknown(("caß",)) == ("ß",)
    assert WORDS.unknown(("cart", "ca!", "c~t!")) == ("!", "~")
    plain = WordsSource.fit(WordsOptions(min_count=1, characters=False), SENTENCES)
    assert plain.unknown(("cart", "cat")) == ("cart",)
    assert "characters" not in plain.encode(("cat",))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("I can't.", ["I", "ca", "n't", "."]),
        ("It's John's", ["It", "'s", "John", "'s"]),
        ("state-of-the-art", ["state-of-the-art"]),
        ("at 10:30, $3.50!", ["at", "10:30", ",", "$", "3.50", "!"]),
        ("see http://a.b/c?d now", ["see", "http://a.b/c?d", "now"]),
        ("@ann #win a@b.de", ["@ann", "#win", "a@b.de"]),
        ("wait...", ["wait", "..."]),
        ("नमस्ते दुनिया।", ["नमस्ते", "दुनिया", "।"]),
        ("", []),
    ],
)
def test_a_text_is_cut_around_punctuation_and_every_word_is_where_it_was(text, words):
    places = cut_words(text, "punctuation")
    assert [text[a:b] for a, b in places] == words
    assert not "".join(
        text[end:begin] for (_, end), (begin, _) in zip([(0, 0), *places], [*places, (len(text), 0)], strict=True)
    ).strip()


def test_a_batch_of_words_holds_letters_and_no_end_marks():
    rows = [TAGGED.encode(("The", "cat"), "DET NOUN"), TAGGED.encode(("ran",), "VERB")]
    batch = TAGGED.collate(rows, [0, 1])
    assert batch.inputs["source"].values.shape == (2, 2)
    assert batch.inputs["characters"].values.shape == (2, 2, 3)
    assert torch.equal(batch.inputs["characters"].mask.any(-1), batch.inputs["source"].mask)
    assert batch.target is not None
    assert torch.equal(batch.target.mask, batch.inputs["source"].mask)


def test_a_label_that_was_never_seen_is_named_with_the_nearest():
    codec = LabelTarget.fit(LabelOptions(), ["spam", "ham"])
    assert codec.unknown("spma") == ("spma",)
    with pytest.raises(DataError, match="no label 'spma' in the training data: did you mean 'spam'"):
        codec.encode("spma")


def test_new_labels_and_tags_go_behind_the_old():
    codec, new = LabelTarget.fit(LabelOptions(), ["a", "b"]).extend(["c", "a"])
    assert (codec.symbols, new) == (("a", "b", "c"), ("c",))
    tags, more = TagsTarget.fit(TagsOptions(), ["O B-x"]).extend(["B-y"])
    assert tags.symbols[:3] == ("B-x", "O", "I-x")
    assert set(more) == {"B-y", "I-y"}


def test_a_scheme_for_tags_that_mark_no_spans_is_refused():
    with pytest.raises(DataError, match="set none"):
        TagsTarget.fit(TagsOptions(scheme="BIO"), ["NOUN VERB"])


def test_ill_formed_tags_are_learned_as_the_spans_they_stand_for():
    codec = TagsTarget.fit(TagsOptions(), ["O I-x I-x", "B-x"])
    assert codec.decode(codec.encode("O I-x I-x")) == "O B-x I-x"
    first, after, _ = codec.transitions
    index = codec.symbols.index
    assert not first[index("I-x")]
    assert after[index("B-x")][index("I-x")]
    assert not after[index("O")][index("I-x")]


def test_words_and_tags_must_be_as_many():
    with pytest.raises(CellError, match="2 words but 1 tag: both are separated by spaces"):
        SideOptions(source="words", target="tags").match(Example("a cat", ("DET",), None, Place("a.tsv", 3)))
    with pytest.raises(CellError, match="2 words but 3 tags: give every word a tag"):
        SideOptions(source="words", target="tags").match(Example(("a", "cat"), ("A B C",), None, Place("train", 3)))


@pytest.mark.parametrize(("known", "read"), [(["0", "1"], ["0.0", "1.0"]), (["0.0", "1.0"], ["0", "1"])])
def test_labels_that_are_the_same_number_are_one(known, read):
    side = LabelTarget.fit(LabelOptions(), known)
    assert [side.respell(label) for label in read] == known
    assert side.unknown(read[0]) == ()
    assert [*side.encode(read[1])] == [*side.encode(known[1])]
    assert side.extend(read)[1] == ()
    assert len(LabelTarget.fit(LabelOptions(), known + read)) == 2


def test_labels_that_only_look_like_numbers_stay_as_they_are():
    side = LabelTarget.fit(LabelOptions(), ["v1", "1.5", "01"])
    assert [side.respell(label) for label in ("v1.0", "1.50", "1")] == ["v1.0", "1.50", "1"]
    assert SideOptions(target="label").read_target("1.0") == "1.0"
    assert SideOptions(target="label").read_target(1.0) == "1"


@pytest.mark.parametrize(
    ("cell", "read"),
    [("0,07", "0.07"), ("-3,5", "-3.5"), ("12,50", "12.50"), ("7%", "7"), (0.5, "0.5"), ("1e3", "1e3")],
)
def test_a_decimal_comma_is_a_point(cell, read):
    assert NumberTarget.read(NumberOptions(), cell) == NumberTarget.read(NumberOptions(), read) == read


@pytest.mark.parametrize(
    ("cell", "said"), [("1,234", "may be 1234 or 1.234: write '1,234' with"), ("1,2,3", "not a number"), ("a,b", "3.5")]
)
def test_a_comma_that_may_mark_thousands_is_refused(cell, said):
    with pytest.raises(CellError, match=said):
        NumberTarget.read(NumberOptions(), cell)


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("0.5 1,101 2", "'1,101' may be 1101 or 1.101: write it with a point or without a comma"),
        ("0.5, 1,101, 2", "'1,101' may be 1101 or 1.101"),
        ("0.5 1,234,567 2", "'1,234,567' may be 1234567 or several numbers"),
        ("0,5 1,5", "'0,5' may be 0.5 or 0 and 5: write it with a point, or with a space"),
    ],
)
def test_a_comma_in_a_vector_that_has_two_readings_is_refused(cell, said):
    with pytest.raises(CellError, match=said):
        NumbersSource.read(NumbersOptions(), cell)


@pytest.mark.parametrize("cell", ["0.5 1 2", "0.5, 1, 2", "0.5,1,2", "0.5, 1,2", "0.5,1 2", "[0.5, 1, 2]"])
def test_spaces_and_commas_separate_the_numbers_of_a_vector(cell):
    assert NumbersSource.read(NumbersOptions(), cell) == (0.5, 1, 2)


@pytest.mark.parametrize("second", ["1,101", "1,409"])
def test_a_comma_that_may_mark_thousands_is_refused_in_columns_that_are_a_vector(tmp_path, second):
    path = tmp_path / "a.csv"
    path.write_text("".join(f"0,{n};1.{n};{'ab'[n % 2]}\n" for n in range(10, 40)) + f"0,5;{second};a\n")
    found = recognise_file(path, DataOptions())
    assert (found.task, found.data) == ("classify-numbers", {"source": "1-2", "target": 3})
    result = read(path, DataOptions(source="1-2", target=3), SideOptions(source="numbers", target="label"))
    assert result.examples[0].source == (0.1, 1.1)
    told = f"{second!r} may be {second.replace(',', '')} or {second.replace(',', '.')}"
    assert [finding.what[: len(told)] for finding in result.findings] == [told]


def test_columns_whose_commas_may_all_mark_thousands_are_still_numbers(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("".join(f"{n % 7};1,{n}0;{'ab'[n % 2]}\n" for n in range(10, 40)))
    assert recognise_file(path, DataOptions()).task == "classify-numbers"
