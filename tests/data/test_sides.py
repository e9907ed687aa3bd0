"""The sides of an example: labels, tags and words with their letters, to ids and back, and through JSON."""

from __future__ import annotations

import json

import pytest
import torch

from windlass.core.errors import BundleError, DataError
from windlass.data.examples import Example, Place, cut
from windlass.data.sides.label import LabelOptions, LabelTarget
from windlass.data.sides.tags import TagsOptions, TagsTarget
from windlass.data.sides.nothing import NoSource, NothingOptions
from windlass.data.sides import Sides, fit_source, fit_target
from windlass.data.sides.words import WordsOptions, WordsSource
from windlass.data.words import cut as cut_words

SENTENCES = [("The", "cat", "ran"), ("the", "dog", "10 000")]
WORDS = WordsSource.fit(WordsOptions(min_count=1), SENTENCES)
TAGGED = Sides(WORDS, TagsTarget.fit(TagsOptions(), ["DET NOUN VERB", "DET NOUN NUM"]))


@pytest.mark.parametrize(
    "sides",
    [
        TAGGED,
        Sides(WORDS, TagsTarget.fit(TagsOptions(scheme="BIOES"), ["O B-x I-x"])),
        Sides(fit_source(WORDS.words.options, ["a b"]), LabelTarget(LabelOptions(), ("x",))),
        Sides(NoSource(NothingOptions()), fit_target(WORDS.letters.options, ["abc"])),
    ],
    ids=["tags", "bioes", "label", "nothing"],
)
def test_codecs_of_every_kind_survive_json(sides):
    assert Sides.from_json(json.loads(json.dumps(sides.to_json()))) == sides


def test_a_damaged_codec_is_refused():
    content = TAGGED.to_json()
    with pytest.raises(BundleError, match="damaged codec"):
        Sides.from_json(content | {"target": {"options": {"kind": "tags"}, "symbols": "ab"}})
    with pytest.raises(BundleError, match="damaged codec"):
        Sides.from_json(content | {"target": {"options": {"kind": "gags"}}})


def test_words_are_looked_up_in_lower_case_and_letters_keep_theirs():
    upper, lower = WORDS.inputs(("THE",)), WORDS.inputs(("the",))
    assert upper["source"] == lower["source"] != [1]
    assert upper["characters"] != lower["characters"]


def test_a_word_with_a_space_in_it_is_one_word():
    (number,) = WORDS.inputs(("10 000",))["source"]
    assert number != 1
    assert len(WORDS.inputs(("10 000",))["characters"][0]) == 6


def test_of_a_long_word_both_ends_are_read():
    codec = WordsSource.fit(WordsOptions(longest=4), [("abcdefgh",)])
    assert [codec.letters.token(n) for n in codec.inputs(("abcdefgh",))["characters"][0]] == ["a", "b", "g", "h"]


def test_an_unknown_word_with_known_letters_is_nothing_new():
    assert WORDS.unknown(("cart",)) == ()
    assert WORDS.unknown(("caß",)) == ("ß",)
    assert WORDS.unknown(("cart", "ca!", "c~t!")) == ("!", "~")
    plain = WordsSource.fit(WordsOptions(min_count=1, characters=False), SENTENCES)
    assert plain.unknown(("cart", "cat")) == ("cart",)
    assert "characters" not in plain.inputs(("cat",))


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
    rows = TAGGED.examples(
        [Example(("The", "cat"), ("DET NOUN",), None, Place("a", 1)), Example(("ran",), ("VERB",), None, Place("a", 2))]
    )
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
    first, after, _ = codec.allowed()
    index = codec.symbols.index
    assert not first[index("I-x")]
    assert after[index("B-x")][index("I-x")]
    assert not after[index("O")][index("I-x")]


def test_words_and_tags_must_be_as_many():
    with pytest.raises(DataError, match=r"a\.tsv:3: 2 words but 1 tags"):
        cut(Example("a cat", ("DET",), None, Place("a.tsv", 3)), "tags")
