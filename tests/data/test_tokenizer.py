"""Text to ids and back."""

import json
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from windlass.core.errors import BundleError
from windlass.core.marks import BOS, EOS, MARKS, PAD, UNK
from windlass.core.options import members
from windlass.data.tokenizer import Tokenizer
from windlass.data.tokens import TextOptions, TokenOptions

KINDS = sorted(set(members(TokenOptions)) - {"tree"})  # of any text; trees are in test_trees.py
TEXTS = [
    "the lower the newer, the newest is lowest",
    "a man (in a red hat) sits - and sits; the widest hat!",
    "नमस्ते दुनिया",
    "the dog has a hat on",
    "cafe\u0301 in Zürich, 한국어",
    "<s> <unk> </s> <pad> ▁ underscores",
] * 3
CODECS = {kind: Tokenizer.fit(TextOptions(tokens={"kind": kind}), TEXTS) for kind in KINDS}
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=40)  # half characters included
KNOWN_TEXT = st.text(st.sampled_from(sorted({c for t in TEXTS for c in unicodedata.normalize("NFC", t)})))
kinds = pytest.mark.parametrize("kind", KINDS)


@kinds
@settings(max_examples=60)
@given(text=ANY_TEXT)
def test_any_text_becomes_ids_with_one_piece_each(kind: str, text: str) -> None:
    codec = CODECS[kind]
    ids, pieces = codec.encode(text), codec.pieces(text)
    assert len(ids) == len(pieces)
    assert all(n == UNK or len(MARKS) <= n < len(codec) for n in ids)
    assert [codec.token(n) for n in ids if n != UNK] == [p for n, p in zip(ids, pieces, strict=True) if n != UNK]
    assert bool(ids) == bool(text.strip())
    codec.decode(ids)


@kinds
def test_half_a_character_is_an_unknown_token(kind: str) -> None:
    codec = CODECS[kind]
    assert codec.unknown("the \ud800") == ("\ufffd",)
    assert codec.decode(codec.encode("the \ud800")) == "the \ufffd"


@pytest.mark.parametrize("kind", ["characters", "bpe", "unigram"])
@settings(max_examples=60)
@given(text=KNOWN_TEXT)
def test_decoding_gives_a_text_of_known_characters_back(kind: str, text: str) -> None:
    codec = CODECS[kind]
    if text.strip():
        assert codec.decode(codec.encode(text)) == unicodedata.normalize("NFC", text)


@kinds
@settings(max_examples=60)
@given(text=ANY_TEXT)
def test_unknown_is_exactly_what_the_unknown_tokens_stand_for(kind: str, text: str) -> None:
    codec = CODECS[kind]
    unknown = codec.unknown(text)
    assert bool(unknown) == (UNK in codec.encode(text))
    clean = codec.clean(text)
    assert all(piece in clean for piece in unknown)


@pytest.mark.parametrize("kind", ["characters", "graphemes"])
@given(text=ANY_TEXT)
def test_pieces_of_characters_and_graphemes_join_to_the_text(kind: str, text: str) -> None:
    codec = CODECS[kind]
    assert "".join(codec.pieces(text)) == (codec.clean(text) if text.strip() else "")


@kinds
def test_training_texts_have_nothing_unknown_and_come_back(kind: str) -> None:
    codec = CODECS[kind]
    for text in TEXTS:
        assert codec.unknown(text) == ()
        assert codec.decode(codec.encode(text)) == unicodedata.normalize("NFC", text)


@kinds
def test_a_codec_survives_json(kind: str) -> None:
    codec = CODECS[kind]
    again = Tokenizer.from_json(json.loads(json.dumps(codec.to_json())))
    assert again == codec
    assert again.encode(TEXTS[4]) == codec.encode(TEXTS[4])


@kinds
@pytest.mark.parametrize("mark", MARKS)
def test_a_text_that_spells_a_mark_does_not_become_one(kind: str, mark: str) -> None:
    codec = CODECS[kind]
    ids = codec.encode(f"a {mark} b{mark}")
    assert not {PAD, BOS, EOS} & set(ids)
    assert UNK not in codec.encode(mark)  # the training texts spell it, so it is known as text
    assert codec.decode(codec.encode(mark)) == mark


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_the_word_unk_in_a_text_is_text_even_if_its_letters_are_new(kind: str) -> None:
    codec = Tokenizer.fit(TextOptions(tokens={"kind": kind}), ["unk unk k"])
    assert codec.decode(codec.encode("<unk>")) == "\ufffdunk\ufffd"


def test_every_kind_of_token_cuts_differently() -> None:
    text = "the lowest na\u0308\u0323he"  # the letter with two marks is no single code point
    cuts = {}
    for kind in KINDS:
        codec = Tokenizer.fit(TextOptions(tokens={"kind": kind}), [*TEXTS, text])
        cuts[kind] = tuple(codec.pieces(text))
    assert len(set(cuts.values())) == len(KINDS), cuts
    assert cuts["words"] == ("the", "lowest", unicodedata.normalize("NFC", "na\u0308\u0323he"))
    assert "a\u0323\u0308" not in cuts["characters"]
    assert unicodedata.normalize("NFC", "a\u0308\u0323") in cuts["graphemes"]
    assert cuts["bpe"][0] == "▁the"


def test_every_normal_form_gives_other_tokens() -> None:
    text = "ﬁ 각 e\u0301"
    found = {
        form: tuple(Tokenizer.fit(TextOptions(normal_form=form), [text]).pieces(text))
        for form in ("NFC", "NFD", "NFKC", "NFKD", "none")
    }
    assert len(set(found.values())) == 5
    assert found["NFD"] == ("ﬁ", " ", "ᄀ", "ᅡ", "ᆨ", " ", "e", "\u0301")
    assert found["none"] == tuple(text)


def test_decomposed_tokens_are_decoded_composed_unless_nothing_is_normalised() -> None:
    decomposed = Tokenizer.fit(TextOptions(normal_form="NFD"), ["각"])
    assert len(decomposed.encode("각")) == 3
    assert decomposed.decode(decomposed.encode("각")) == "각"
    raw = Tokenizer.fit(TextOptions(normal_form="none"), ["e\u0301"])
    assert raw.decode(raw.encode("e\u0301")) == "e\u0301"


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD", "none"])
def test_plain_ascii_is_cleaned_like_any_text(form: str) -> None:
    plain = "".join(map(chr, range(128)))
    for lower in (False, True):
        codec = Tokenizer.fit(TextOptions(normal_form=form, lowercase=lower), [])
        assert codec.clean(plain) == codec.clean(plain + "ü").removesuffix(codec.clean("ü"))


def test_lower_case_is_chosen_and_stays_in_the_normal_form() -> None:
    assert Tokenizer.fit(TextOptions(), ["Ab"]).pieces("Ab") == ["A", "b"]
    lower = Tokenizer.fit(TextOptions(lowercase=True, normal_form="NFC"), ["AbİÉ"])
    assert lower.pieces("AbÉ") == ["a", "b", "é"]
    assert lower.unknown("aBİé") == ()
    assert lower.clean("H\u0331") == "\u1e96"  # only the small letter has a composed form


@pytest.mark.parametrize("kind", ["characters", "graphemes", "words"])
def test_what_is_rarer_than_min_count_is_unknown(kind: str) -> None:
    texts = ["x y y", "x"]
    codec = Tokenizer.fit(TextOptions(tokens={"kind": kind, "min_count": 2}), texts)
    assert "y" in codec.symbols
    codec = Tokenizer.fit(TextOptions(tokens={"kind": kind, "min_count": 3}), texts)
    assert codec.unknown("x y") == (("x", " ", "y") if kind != "words" else ("x", "y"))


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_min_count_is_not_an_option_where_it_would_change_nothing(kind: str) -> None:
    with pytest.raises(ValidationError, match="min_count"):
        TextOptions(tokens={"kind": kind, "min_count": 2})


@pytest.mark.parametrize("kind", ["words", "bpe", "unigram"])
def test_size_is_the_most_ids(kind: str) -> None:
    texts = [f"word{n} number {n % 7} of them" for n in range(200)]
    small = Tokenizer.fit(TextOptions(tokens={"kind": kind, "size": 40}), texts)
    large = Tokenizer.fit(TextOptions(tokens={"kind": kind, "size": 80}), texts)
    assert len(small) == 40
    assert 40 < len(large) <= 80


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_punctuation_is_never_part_of_a_word_piece(kind: str) -> None:
    codec = Tokenizer.fit(TextOptions(tokens={"kind": kind}), ["hat, hat, hat,"] * 9)
    assert all(len(symbol) == 1 for symbol in codec.symbols if "," in symbol)


def test_a_space_is_a_character_and_symbols_go_by_frequency() -> None:
    codec = Tokenizer.fit(TextOptions(), ["b b", "a b"])
    assert codec.symbols == ("b", " ", "a")
    assert codec.encode("a b") == [6, 5, 4]


def test_words_are_joined_by_one_space() -> None:
    codec = Tokenizer.fit(TextOptions(tokens="words"), ["k a t"])
    assert codec.decode(codec.encode("  k  a\tt ")) == "k a t"


@kinds
def test_decoding_skips_marks_and_shows_unknown(kind: str) -> None:
    codec = CODECS[kind]
    ids = codec.encode("the hat")
    assert codec.decode([BOS, *ids, EOS, PAD, PAD]) == "the hat"
    gap = " " if kind == "words" else ""
    assert codec.decode([*ids, UNK, EOS]) == f"the hat{gap}\ufffd"


@kinds
def test_a_codec_fitted_on_nothing_still_works(kind: str) -> None:
    codec = Tokenizer.fit(TextOptions(tokens={"kind": kind}), [])
    assert set(codec.encode("a b")) - {4} == {UNK}
    assert codec.encode(" \t") == []
    assert codec.decode(codec.encode("a")) == "\ufffd"
    assert codec.unknown("a")


@kinds
def test_extending_moves_no_old_id_and_adds_what_is_new(kind: str) -> None:
    codec = CODECS[kind]
    new = "the Ωmega ☃ hat"
    longer, added = codec.extend([new, new])
    assert longer.symbols[: len(codec.symbols)] == codec.symbols
    assert longer.symbols[len(codec.symbols) :] == added
    assert len(longer) == len(codec) + len(added)
    assert set(added) == ({"Ωmega", "☃"} if kind == "words" else {"Ω", "☃"})
    assert codec.unknown(new)
    assert longer.unknown(new) == ()
    assert longer.decode(longer.encode(new)) == new
    for text in TEXTS:
        assert longer.encode(text) == codec.encode(text)
    assert Tokenizer.from_json(json.loads(json.dumps(longer.to_json()))) == longer


@kinds
def test_extending_by_the_same_texts_adds_nothing(kind: str) -> None:
    tokens = {"kind": kind, "size": 60} if kind in ("words", "bpe", "unigram") else {"kind": kind, "min_count": 4}
    codec = Tokenizer.fit(TextOptions(tokens=tokens), TEXTS)
    longer, added = codec.extend(TEXTS)
    assert added == ()
    assert longer == codec


REPEATED = [f"{a}{b} {b}{a}ing, {a}est" for a in ("low", "new", "wid", "qu") for b in ("er", "ly", "x", "zz")]
FIT = """
import json, sys
from windlass.data.tokenizer import Tokenizer
from windlass.data.tokens import TextOptions
for kind in ("bpe", "unigram"):
    print(json.dumps(Tokenizer.fit(TextOptions(tokens={"kind": kind, "size": 60}), sys.argv[1:]).to_json()))
"""


def test_a_fit_is_the_same_in_another_process() -> None:
    run = subprocess.run([sys.executable, "-c", FIT, *REPEATED], capture_output=True, text=True, check=True)
    for kind, line in zip(("bpe", "unigram"), run.stdout.splitlines(), strict=True):
        here = Tokenizer.fit(TextOptions(tokens={"kind": kind, "size": 60}), REPEATED)
        assert json.loads(line) == here.to_json()


@pytest.mark.parametrize(
    "damage",
    [
        {},
        {"options": {}},
        {"options": {"tokens": {"kind": "words"}}, "symbols": "ab"},
        {"options": {"tokens": {"kind": "wrods"}}, "symbols": []},
        {"options": {"tokens": {"kind": "bpe"}}, "symbols": []},
        {"options": {"tokens": {"kind": "bpe"}}, "model": {"model": {"vocab": {"<unk>": 0}}}},
        {"options": {"tokens": {"kind": "bpe"}}, "model": []},
    ],
)
def test_a_damaged_codec_is_a_clear_error(damage: dict[str, object]) -> None:
    with pytest.raises(BundleError, match="damaged codec"):
        Tokenizer.from_json(damage)
