"""Sentences of texts, and documents as ids."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from windlass.core.errors import DataError, RecipeError
from windlass.data.readers import read
from windlass.data.sentences import LineSentences, OwnSentences, PatternSentences, RuleSentences, use_splitter
from windlass.data.sides import SideOptions, Sides
from windlass.data.sides.document import DocumentOptions, DocumentSource
from windlass.data.sides.labels import LabelOptions, LabelTarget
from windlass.data.sides.text import hashed_ngrams
from windlass.data.sparse import hashed_features
from windlass.recipe import compose
from windlass.training.data_parallel import shard_batch


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("Mr. Smith met Dr. J. R. Doe. They left.", ["Mr. Smith met Dr. J. R. Doe.", "They left."]),
        ("It is 3.14 or 2.5. See p. 7 of vol. 2. Ok.", ["It is 3.14 or 2.5.", "See p. 7 of vol. 2.", "Ok."]),
        ("Did you? No. I did not.", ["Did you?", "No.", "I did not."]),
        ('He said "Go!" Then he left.', ['He said "Go!"', "Then he left."]),
        ("Some fruit, e.g. Pears, are green. The U.S. Army came.", None),
        ("we met at 5 p.m. We ate.", ["we met at 5 p.m.", "We ate."]),
        ("it was I. Then came you.", ["it was I.", "Then came you."]),
        ("what? he asked. and left", None),
        ("A heading\n\nA line that\nis wrapped. Next.", ["A heading", "A line that\nis wrapped.", "Next."]),
        ("これは文です。次の文！", ["これは文です。", "次の文！"]),
        ("So... Well…  Yes", ["So...", "Well…", "Yes"]),
        ("see http://a.b.c/d.html now. 7 people came", ["see http://a.b.c/d.html now.", "7 people came"]),
        ("...", ["..."]),
        ("  \n ", []),
    ],
)
def test_rules_know_where_a_sentence_ends(text, sentences):
    found = RuleSentences().split(text)
    if sentences is None:
        assert len(found) == (2 if "e.g." in text else 1)
    else:
        assert found == sentences
    assert "".join("".join(found).split()) == "".join(text.split())  # nothing is lost


def test_a_user_adds_abbreviations_or_replaces_the_splitter():
    text = "see Abb. Vier; dort. Ende"
    assert RuleSentences().split(text) == ["see Abb.", "Vier; dort.", "Ende"]
    assert RuleSentences(abbreviations=("Abb.",)).split(text) == ["see Abb. Vier; dort.", "Ende"]
    assert LineSentences().split("a. b\n\n c ") == ["a. b", "c"]
    assert PatternSentences(pattern=";").split(text) == ["see Abb. Vier", "dort. Ende"]
    use_splitter("halves", lambda text: (text[: len(text) // 2], text[len(text) // 2 :]))
    assert OwnSentences(name="halves").split("abcd") == ["ab", "cd"]


@pytest.mark.parametrize("pattern", ["(", "(a)(b)", ""])
def test_a_pattern_that_cannot_be_used_is_refused(pattern):
    with pytest.raises(ValidationError):
        PatternSentences(pattern=pattern)


def test_a_splitter_nobody_made_known_is_named():
    with pytest.raises(DataError, match=r"no sentence splitter 'halfs'.*use_splitter"):
        OwnSentences(name="halfs").split("x")


def fitted(*texts, **options):
    return DocumentSource.fit(DocumentOptions(**{"tokens": "words", **options}), texts or ["a b c. d e"])


def nested(side, value):
    return [list(sentence.ids) for sentence in side.sentences(value)]


def test_ids_are_nested_and_a_list_stays_as_it_is():
    codec = fitted("One cat. Two cats!")
    assert codec.places("One cat. Two cats!").names == ("One cat.", "Two cats!")
    assert codec.encode(("Two cats! One", "cat"))["source_lengths"].tolist() == [4, 1]
    assert codec.unknown(("one Dog", "dog")) == ("Dog", "dog")
    assert nested(codec, ("cat", "one")) == [*nested(codec, ("cat",)), *nested(codec, ("one",))]


def test_a_blank_sentence_that_is_given_keeps_its_place():
    assert nested(fitted(), ("a", " ", "b"))[1] == [1]
    assert nested(fitted(), "") == []


def test_long_sentences_are_broken_or_cut_and_what_is_not_read_is_counted():
    text = "a b c d e. F g"
    broken = fitted(most_words=2)
    assert broken.places(text).names == (
        "a b",
        "c d",
        "e.",
        "F g",
    )
    assert broken.places(text).unread == 0
    short = fitted(most_words=2, longer="cut")
    assert short.places(text).names == (
        "a b",
        "F g",
    )
    assert short.places(text).unread == 4
    few = fitted(most_sentences=1)
    assert few.places(text).names == ("a b c d e.",)
    assert few.places(text).unread == 2


@pytest.mark.parametrize("tokens", ["words", "bpe", "characters", "unigram", "graphemes"])
def test_every_kind_of_token_survives_a_round_trip(tokens):
    codec = fitted("One cat sat. Two cats sat!", tokens=tokens)
    again = DocumentSource.from_json(codec.options, codec.to_json())
    text = "Two cats sat. One?"
    assert again == codec
    assert nested(again, text) == nested(codec, text)
    assert [len(part.names) for part in codec.places(text).within] == codec.encode(text)["source_lengths"].tolist()
    grown, new = codec.extend(["zebra"])
    assert new
    assert nested(grown, text) == nested(codec, text)


def test_where_words_end_is_for_words_alone():
    assert fitted(cut="spaces").sentences("a cat.")[0].words == ("a", "cat.")
    with pytest.raises(ValidationError, match="leave it out"):
        DocumentOptions(tokens="bpe", cut="spaces")


def test_a_batch_costs_as_many_places_as_there_are_words():
    sides = Sides(fitted(), LabelTarget.fit(LabelOptions(), ["x"]))
    rows = [sides.encode(("a b c d e f", "a", "b"), "x"), sides.encode(("a b", "c d"), "x")]
    assert sides.loader(rows, 100).examples.source_costs[:].tolist() == [8, 4]


def test_a_file_holds_documents_as_texts_with_lines_or_as_lists(tmp_path):
    file = tmp_path / "d.jsonl"
    file.write_text('{"a": "one.\\ntwo", "b": "x"}\n{"a": ["one.", " two "], "b": "y"}\n{"a": ["", " "], "b": "y"}\n')
    found = read(file, sides=SideOptions(source={"kind": "document", "splitter": "lines"}, target="label"))
    assert [e.source for e in found.examples] == ["one.\ntwo", ("one.", "two")]
    assert [f.kind for f in found.findings] == ["blank"]
    flat = read(file, sides=SideOptions(target="label"))
    assert [e.source for e in flat.examples] == ["one. two"]  # where a source is no document, nothing has changed
    assert [f.kind for f in flat.findings] == ["line break", "not text", "not text"]


def test_tags_of_sentences_may_be_a_list_and_must_be_as_many(tmp_path):
    file = tmp_path / "d.jsonl"
    file.write_text(
        '{"a": "one\\ntwo", "b": "X Y"}\n{"a": ["one two", ""], "b": ["X", "Y"]}\n{"a": "one", "b": "X Y"}\n'
    )
    found = read(file, sides=SideOptions(source={"kind": "document", "splitter": "lines"}, target="tags"))
    assert [(e.source, e.target) for e in found.examples] == [(("one", "two"), "X Y"), (("one two", ""), "X Y")]
    assert found.findings[0].what.startswith("1 sentence but 2 tags:")


def test_a_batch_of_documents_is_shared_among_processes():
    sides = Sides(fitted(), LabelTarget.fit(LabelOptions(), ["x"]))
    rows = [sides.encode(text, "x") for text in (("a b c", "a", "b"), ("a",), ("b c", "d"))]
    parts = shard_batch(sides.collate(rows, [0, 1, 2]), 2)
    assert [part.batch.inputs["source"].mask.sum().item() for part in parts] == [8, 1]
    assert parts[1].batch.inputs["source"].values.shape[1] == 1


def test_ngrams_of_a_document_are_those_of_its_sentences_and_do_not_cross_them():
    side = DocumentSource.fit(DocumentOptions(ngrams=2, sparse=("ngrams",)), ["A cat sat."])
    arrays = side.encode(("The cat sat", "A Cat"))
    ngrams = {*hashed_ngrams(["the", "cat", "sat"], 2), *hashed_ngrams(["a", "cat"], 2)}
    assert set(arrays["ngrams"].tolist()) == ngrams
    across = {*hashed_ngrams(["sat", "a"], 2)} - {*hashed_ngrams(["sat"], 1), *hashed_ngrams(["a"], 1)}
    assert len(across) == 1
    assert not across & ngrams
    features = {*hashed_features(["The", "cat", "sat"], ["ngrams"]), *hashed_features(["A", "Cat"], ["ngrams"])}
    assert arrays["sparse"].tolist() == sorted(features)
    batch = side.collate([arrays, side.encode("A dog.")])
    assert batch["ngrams"].mask.sum(1).tolist() == [len(ngrams), len(side.encode("A dog.")["ngrams"])]


def test_a_network_of_documents_may_have_ngrams_and_a_support_vector_machine_beside_it():
    recipe, alone = compose("classify-document", None), {"model": {"head": {"wide": None, "svm": None}}}
    assert (recipe.source.ngrams, recipe.model.head.svm.least) == (2, 0)
    with pytest.raises(RecipeError, match=r"source\.ngrams are read by model\.head\.wide"):
        compose("classify-document", None, [alone])
    compose("classify-document", None, [alone, {"source": {"ngrams": 0, "sparse": []}}])
