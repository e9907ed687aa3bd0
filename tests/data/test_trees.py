"""Trees: read, written as tokens and back, and from files with everything that is wrong in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from windlass.core.errors import DataError, RecipeError
from windlass.data import TextOptions, Tokenizer, read
from windlass.data.readers import DataOptions
from windlass.data.sides import SideOptions
from windlass.data.trees import Tree, joined_tokens, with_words
from windlass.experiment.data import as_data
from windlass.recipe import compose, setting

TREE = SideOptions(source="words", target={"tokens": "tree"})
TAGS = SideOptions(source="words", target="tags")

CAT = "(S (NP (DT the) (NN cat)) (VP (VBZ sleeps)) (. .))"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("(S (NP I)", "a bracket is not closed"),
        ("(S (NP I)))", "something follows its end"),
        ("S (NP I)", "it does not begin with a bracket"),
        (")", "it closes what is not open"),
        ("(S (NP) (VP go))", "the constituent NP is empty"),
        ("(S ((NP I)) (VP go))", "a constituent has no label"),
        ("   ", "there is nothing"),
    ],
)
def test_what_is_no_tree_is_refused_with_a_reason(text: str, said: str):
    with pytest.raises(DataError, match=said):
        Tree.read(text)


def test_a_tree_is_written_as_it_was_read():
    assert str(Tree.read(CAT)) == CAT
    assert str(Tree.read(f"( {CAT} )")) == CAT  # as in the Penn Treebank
    assert str(Tree.read(f"({CAT} (X (Y z)))")) == f"(TOP {CAT} (X (Y z)))"


@pytest.mark.parametrize("close", ["plain", "labelled"])
def test_tokens_and_words_make_the_tree_again(close: str):
    codec = Tokenizer.fit(TextOptions(tokens={"kind": "tree", "close": close}), [CAT])
    ids = codec.encode(CAT)
    assert len(ids) == 3 + 4 + 3  # three constituents opened and closed, four words
    assert with_words(codec.decode(ids), ["the", "cat", "sleeps", "."]) == CAT
    assert [codec.token(n) for n in ids[:4]] == ["(S", "(NP", "DT", "NN"]
    assert Tokenizer.from_json(codec.to_json()) == codec
    assert codec.unknown("(S (XP (DT a)))") == ("(XP",) + ((")XP",) if close == "labelled" else ())


def test_words_are_kept_where_the_tree_is_what_is_read():
    codec = Tokenizer.fit(TextOptions(tokens={"kind": "tree", "words": "kept"}), [CAT])
    assert codec.pieces("(NP (DT the) (NN cat))") == ["(NP", "(DT", "the", ")", "(NN", "cat", ")", ")"]


def test_brackets_in_a_sentence_are_escaped_in_its_tree_and_plain_in_its_words():
    text = with_words("(X (Y _) (Z _))", ["(", "a)b"])
    assert text == "(X (Y -LRB-) (Z a-RRB-b))"
    assert Tree.read(text).words[0] == "("


def test_tokens_that_make_no_tree_are_still_a_text():
    assert joined_tokens([")", "(S", "_"]) == ") (S _"
    assert with_words("(S _ _)", ["one"]) == "(S one _)"


# -- files


def test_a_file_of_trees_over_one_or_more_lines(tmp_path: Path):
    path = tmp_path / "a.mrg"
    path.write_text(f"( (S (NP-SBJ-1 (PRP I))\n     (VP (VBP see) (NP (-NONE- *-1)))) )\n\n{CAT}\n", encoding="utf-8")
    result = read(path, sides=TREE)
    assert [(e.source, e.target, e.place.line) for e in result.examples] == [
        (("I", "see"), "(S (NP (PRP I)) (VP (VBP see)))", 1),
        (("the", "cat", "sleeps", "."), CAT, 4),
    ]
    assert "are left out, in 1 trees" in result.notes[0]
    back = read(path).examples[1]
    assert (back.source, back.target) == (CAT, "the cat sleeps .")


def test_labels_of_other_treebanks_stay_as_they_are(tmp_path: Path):
    path = tmp_path / "a.trees"
    path.write_text("(S-x (NP-y (N-z a) (N b)))\n")
    assert read(path, sides=TREE).examples[0].target == "(S-x (NP-y (N-z a) (N b)))"


def test_a_broken_tree_costs_no_other_and_is_named_with_its_line(tmp_path: Path):
    path = tmp_path / "a.ptb"
    path.write_text(f"{CAT}\n)\n(S (NP I)\n{CAT}\n(S (NP))\nhello\n{CAT}\n", encoding="utf-8")
    result = read(path, sides=TREE)
    assert [e.place.line for e in result.examples] == [1, 4, 7]
    assert [str(f) for f in result.findings] == [
        f"{path}:2: it closes what is not open -> skipped",
        f"{path}:3: a bracket is never closed -> skipped",
        f"{path}:5: the constituent NP is empty: '(S (NP))' -> skipped",
        f"{path}:6: it does not begin with a bracket: 'hello' -> skipped",
    ]
    with pytest.raises(DataError, match=r"a\.ptb:2"):
        read(path, DataOptions(strict=True), TREE)


def test_columns_of_sentences_and_trees_are_checked(tmp_path: Path):
    path = tmp_path / "a.tsv"
    path.write_text(f"the cat sleeps .\t{CAT}\nthe dog\t(NP (DT the) (NN cat))\nhm\t(X\n", encoding="utf-8")
    result = read(path, sides=TREE)
    assert len(result.examples) == 1
    assert [f.line for f in result.findings] == [2, 3]
    assert "the words of the tree are not those of the sentence" in result.findings[0].what
    with pytest.raises(DataError, match="first is row 1: not a tree"):
        as_data([("a b", "(X a b")], None, compose("parse", None))


def test_trees_are_for_tasks_that_have_them(tmp_path: Path):
    path = tmp_path / "a.mrg"
    path.write_text(CAT)
    with pytest.raises(DataError, match="add --task parse"):
        read(path, sides=TAGS)
    with pytest.raises(DataError, match="has no columns"):
        read(path, DataOptions(source=2), TREE)


@pytest.mark.parametrize(
    ("task", "over", "said"),
    [
        ("parse", "target.tokens=words", "set target.tokens: tree"),
        ("translate", "target.tokens=tree", "for a task that writes trees"),
        ("parse", "target.tokens.words=kept", "gets its words from the sentence"),
        ("parse", "search.block_ngrams=3", "whose brackets repeat"),
    ],
)
def test_options_that_do_not_go_with_trees_are_refused(task: str, over: str, said: str):
    more = [setting("vocabulary=separate"), setting("model.tie=none")] if task == "translate" else []
    with pytest.raises(RecipeError, match=said):
        compose(task, None, [*more, setting(over)])
