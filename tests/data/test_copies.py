"""What a source lends: the extended vocabulary of an example, there and back."""

from dataclasses import replace

import pytest
import torch

from windlass.core.errors import RecipeError
from windlass.core.marks import EOS, UNK
from windlass.core.records import Hypothesis
from windlass.data.cutting import marked, unmarked
from windlass.data.examples import Example, Place
from windlass.data.sides import SideOptions, Sides
from windlass.data.sides.pair import PairSource
from windlass.data.sides.text import TextSource, TextTarget
from windlass.data.tokenizer import Tokenizer
from windlass.data.tokens import TextOptions, WordTokens
from windlass.recipe import Recipe, compose, setting

WORDS = TextOptions(tokens="words")


def sides(source=WORDS, target=WORDS):
    read, written = (
        TextSource.fit(source, ["the city of Ulm", "a river"]),
        TextTarget.fit(target, ["the city", "a river"]),
    )
    return Sides(read, written, copying=True)


def test_what_the_target_lacks_gets_ids_of_its_own_in_the_order_of_the_source():
    c = sides()
    V = len(c.target)
    found = c.encode("of Bonn the city of Ulm", "the city of Bonn on Rhine")
    find = c.tokenizer.find
    # "of" and "Ulm" are known to the source's own tokenizer, but not to the target's.
    assert found.source["copy"].tolist() == [V, V + 1, find("the"), find("city"), V, V + 2, EOS]
    assert found.target.tolist() == [find("the"), find("city"), V, V + 1, UNK, UNK]
    assert c.copied("of Bonn the city of Ulm") == ("of", "Bonn", "Ulm")


def test_ids_beyond_the_vocabulary_are_read_back_from_the_source():
    c = sides()
    found = c.encode("of Bonn", "the city of Bonn")
    text, answer = c.answer(Hypothesis(tuple(found.target.tolist()), -1.0, ()), "of Bonn")
    assert text == "the city of Bonn"
    assert answer.tokens[-2:] == ("of", "Bonn")


def test_without_copying_nothing_is_lent():
    c = sides()
    plain = Sides(c.source, c.target).encode("of Bonn", "the city of Bonn")
    assert list(plain.source) == ["source"]
    assert plain.target[-2:].tolist() == [UNK, UNK]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_pieces_of_a_joint_vocabulary_are_copied_as_they_are_and_new_letters_too(kind):
    codec = Tokenizer.fit(TextOptions(tokens={"kind": kind, "size": 40}), ["the city of ulm", "a river in a city"])
    c = Sides(TextSource(codec), TextTarget(codec), copying=True)
    found = c.encode("ulm ω", "a city ω")
    assert found.source["copy"][:-1].tolist() == [len(codec) if n == UNK else n for n in codec.encode("ulm ω")]
    assert codec.decode(found.target, c.copied("ulm ω")) == "a city ω"


def test_characters_can_be_copied():
    c = sides(TextOptions(), TextOptions())
    assert c.tokenizer.decode(c.encode("ßü", "üß").target, c.copied("ßü")) == "üß"


def test_copies_of_a_document_have_the_places_of_its_words():
    options = SideOptions(
        source={"kind": "document", "tokens": "words"}, target=TextOptions(tokens="words", lowercase=True)
    )
    examples = [Example(("the cat", "a dog ran"), ("the cat ran",), None, Place("a", 1))]
    c = replace(Sides.fit(options, examples), copying=True)
    batch = c.collate([c.encode(("the emu", "a cat sat")), c.encode(("ran",))], [0, 1])
    assert torch.equal(batch.inputs["copy"].mask, batch.inputs["source"].mask)
    find, V = c.tokenizer.find, len(c.target)
    assert batch.inputs["copy"].values.tolist() == [
        [[find("the"), V, 0], [V + 1, find("cat"), V + 2]],
        [[find("ran"), 0, 0], [0, 0, 0]],
    ]


def test_nothing_is_copied_from_a_pair():
    c = Sides(PairSource.tiny()[0], TextTarget.tiny()[0], copying=True)
    with pytest.raises(RecipeError, match="nothing can be copied from source: pair"):
        c.encode(("a cat", "a dog"))


@pytest.mark.parametrize(
    ("source", "target", "why"),
    [
        (WORDS, TextOptions(), "cut both alike"),
        (WORDS, TextOptions(tokens="words", lowercase=True), "source.lowercase and target.lowercase differ"),
        (WORDS, TextOptions(tokens="words", normal_form="NFKC"), "normal_form"),
        (WORDS, TextOptions(tokens=WordTokens(cut="punctuation")), "set cut alike"),
        (TextOptions(tokens="bpe"), TextOptions(tokens="bpe"), "vocabulary: joint"),
    ],
)
def test_sides_that_cannot_be_compared_are_told(source, target, why):
    model = {"decoder": {"copying": True}}
    assert Recipe(source=WORDS, target=WORDS, model=model).model.decoder.copying
    with pytest.raises(ValueError, match=why):
        Recipe(source=source, target=target, model=model)


def test_a_recipe_whose_sides_cannot_be_compared_is_refused_in_one_line():
    with pytest.raises(RecipeError, match=r"model\.decoder\.copying: the source is cut into characters, but"):
        compose("text", None, [setting("model.decoder.copying=true"), setting("target.tokens=words")])
    over = [setting("model.decoder.copying=true"), setting("model.decoder.context=summary")]
    with pytest.raises(RecipeError, match="copying needs attention"):
        compose("text", None, over)


# -- words and punctuation


@pytest.mark.parametrize(
    "text",
    [
        "Isn't it (Ulm)?",
        'He said: "No, 3.5% of it!" - and/or left...',
        "state-of-the-art: a-b, x/y; J. Doe's e.g. [1,2]",
        "don't can't they're",
        "日本語、テスト。",
        "...",
        "(a)(b)",
    ],
)
def test_cut_around_punctuation_a_text_is_put_together_as_it_was(text):
    assert unmarked(marked(text)) == text
    codec = Tokenizer.fit(TextOptions(tokens=WordTokens(cut="punctuation")), [text])
    assert codec.decode(codec.encode(text)) == text


def test_a_word_is_the_same_word_beside_any_punctuation():
    for text in ("Ulm", "(Ulm)", "Ulm, Bonn", "in Ulm.", '"Ulm"?'):
        assert "Ulm" in marked(text)


def test_the_mark_in_a_text_is_no_mark():
    assert unmarked(marked("a ￭ b")) == "a ■ b"


def test_what_a_bundle_saves_of_words_remembers_how_they_are_cut():
    codec = Tokenizer.fit(TextOptions(tokens=WordTokens(cut="punctuation")), ["a, b"])
    assert Tokenizer.from_json(codec.to_json()).encode("b, a") == codec.encode("b, a")
