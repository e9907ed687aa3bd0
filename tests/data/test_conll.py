"""Columns of words and tags: what is read, what is left out, what is kept when a file is written again."""

from __future__ import annotations

import gzip
import os

import pytest

from windlass.core.errors import DataError
from windlass.data.conll import blocks
from windlass.data.files import stdin_lines
from windlass.data.findings import Findings
from windlass.data.readers import DataOptions, read
from windlass.data.sides import SideOptions
from windlass.experiment.data import read_examples, read_for_model
from windlass.recipe import compose

TAGS, LABEL = SideOptions(source="words", target="tags"), SideOptions(target="label")

UD = """# sent_id = 1
# text = Don't go
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
1\tDo\tdo\tAUX\tVB\t_\t3\taux\t_\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\t_
2.1\tyou\tyou\tPRON\tPRP\t_\t_\t_\t_\t_
3\tgo\tgo\tVERB\tVB\t_\t0\troot\t_\t_

1\tNow\tnow\tADV\tRB\t_\t0\troot\t_\t_
"""


def pairs(path, **options):
    return [(e.source, e.target) for e in read(path, DataOptions(**options), TAGS).examples]


@pytest.fixture
def file(tmp_path):
    def write(name, text):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path / name

    return write


def test_ranges_and_empty_nodes_are_not_words(file):
    path = file("a.conllu", UD)
    assert pairs(path) == [(("Do", "n't", "go"), "AUX PART VERB"), (("Now",), "ADV")]
    assert pairs(path, source="lemma", target="xpos")[0] == (("do", "not", "go"), "VB RB VB")
    assert pairs(path, source=2, target=5)[1] == (("Now",), "RB")


def test_what_is_not_tagged_stays_when_a_file_is_written_again(file):
    path = file("a.conllu", UD)
    found = list(blocks(str(path), "conllu", DataOptions(), Findings(strict=False)))
    again = "\n".join("\n".join(block.written(block.tags)) + "\n" for block in found)
    assert again == UD
    other = found[0].written(["X", "Y", "Z"])
    assert [line.split("\t")[3] for line in other if line[0].isdigit()] == ["_", "X", "Y", "PRON", "Z"]


@pytest.mark.parametrize("gap", ["\n", "\t\n", " \n \n"])
def test_a_line_of_white_space_ends_a_sentence(file, gap):
    path = file("a.conll", f"In\tO\nUlm\tB-x\n{gap}Oh\tO\n")
    assert pairs(path) == [(("In", "Ulm"), "O B-x"), (("Oh",), "O")]


def test_columns_may_stand_apart_by_spaces_and_be_chosen(file):
    path = file("a.conll", "-DOCSTART- -X- O O\n\nU.N. NNP I-NP I-ORG\nsays VBZ I-VP O\n")
    assert pairs(path, target=4) == [(("U.N.", "says"), "I-ORG O")]
    assert pairs(path) == [(("U.N.", "says"), "NNP VBZ")]


def test_a_gzip_file_and_a_name_that_tells_nothing_are_read_where_tags_are_wanted(tmp_path):
    with gzip.open(tmp_path / "a.annotated.gz", "wt") as file:
        file.write("Oh\tO\n")
    assert pairs(tmp_path / "a.annotated.gz") == [(("Oh",), "O")]


def test_a_sentence_that_cannot_be_used_is_told_and_skipped(file):
    path = file("a.conll", "In\tO\nUlm\n\nOh\tO\n\nso\tA B\n")
    result = read(path, DataOptions(), TAGS)
    assert [e.source for e in result.examples] == [("Oh",)]
    assert [(f.line, f.kind, f.action) for f in result.findings] == [
        (2, "missing column", "skipped"),
        (6, "a space in a tag", "skipped"),
    ]


def test_ill_formed_spans_are_told_and_kept(file):
    result = read(file("a.conll", "Oh\tO\nUlm\tI-x\n"), DataOptions(), TAGS)
    assert result.examples[0].target == "O I-x"
    assert "tag 2, 'I-x', does not follow 'O'" in result.findings[0].what


def test_columns_that_are_not_there_are_refused(file):
    path = file("a.conllu", UD)
    with pytest.raises(DataError, match="no column is called 'upso'; did you mean 'upos'"):
        read(path, DataOptions(target="upso"), TAGS)
    with pytest.raises(DataError, match="add --task tag"):
        read(path)
    with pytest.raises(DataError, match="no usable line"):
        read(file("b.conll", "In\nUlm\n"), DataOptions(), TAGS)


def test_a_labelled_line_is_a_label_and_a_text(file):
    path = file("a.txt", "NUM How far ?\n\nHUM  Who  ?\nHUM\n")
    result = read(path, DataOptions(format="labelled"), LABEL)
    assert [(e.source, e.target) for e in result.examples] == [("How far ?", "NUM"), ("Who  ?", "HUM")]
    assert [(f.line, f.kind) for f in result.findings if f.action == "skipped"] == [(2, "blank"), (4, "blank")]
    with pytest.raises(DataError, match="no columns to choose"):
        read(path, DataOptions(format="labelled", source=2), LABEL)


def test_of_several_columns_of_tags_it_is_said_which_is_read(tmp_path):
    path = tmp_path / "a.conll"
    path.write_text("-DOCSTART- -X- O\n\nDid AUX O\nKarl PROPN B-PER\n\nOh INTJ O\n")
    sides = SideOptions(source="words", target="tags")
    assert read(path, DataOptions(), sides).notes == (
        f"{path}: the tags are column 2 of 3 (AUX PROPN ...); else: --target 3",
    )
    assert read(path, DataOptions(target=3), sides).notes == ()
    path.write_text("Did AUX\nKarl PROPN\n")
    assert read(path, DataOptions(), sides).notes == ()
    path.write_text(f"Did {'9' * 5000} {'x ' * 300}\n")
    (note,) = read(path, DataOptions(), sides).notes
    assert len(note) < 200 + len(str(path))
    assert "--target 3 or 4 or 5 or 6 or 7 or ..." in note


def test_sentences_come_as_soon_as_their_blank_line_is_there(monkeypatch):
    reading, writing = os.pipe()
    with os.fdopen(reading, "r") as stream, os.fdopen(writing, "wb", buffering=0) as out:
        monkeypatch.setattr("sys.stdin", stream)
        given = stdin_lines(None, None, print)
        sentences = blocks("-", "conll", DataOptions(), Findings(), given)
        out.write(b"In O\nUlm B-place\n\n")
        assert next(sentences).words == ("In", "Ulm")  # though nothing has ended
        out.write(b"Oh O\n\n")
        assert next(sentences).words == ("Oh",)


def test_a_sentence_without_words_or_in_another_encoding_is_told_with_its_line(tmp_path):
    path = tmp_path / "a.conll"
    path.write_bytes("In\tO\n\n\tO\n\nUlm\tO\nKöln\tO\n".encode("cp1252"))
    told = [block.unreadable for block in blocks(str(path), "conll", DataOptions(), Findings())]
    assert told[:2] == [None, "3: no word in column 1: check the format"]
    assert str(told[2]).startswith("6: invalid UTF-8: byte 0xF6 at character 2")


def test_a_column_without_tags_is_told_in_a_whole_sentence(file):
    with pytest.raises(DataError) as caught:
        read(file("a.conll", "In O\nUlm B-place\n"), DataOptions(target=4), TAGS)
    assert str(caught.value).endswith(
        "first is line 1: no tag in column 4, so the sentence cannot be used: choose another by --source or --target; "
        "for text without tags use predict"
    )


@pytest.mark.parametrize(
    "text",
    [
        "It is a truth universally acknowledged.\n\nHowever little known.\n\nWell.\n",
        "word " * 600,
        "Call me Ishmael.\nSome years ago\nnever mind how long precisely\n\nhaving little or no money\nin my purse\n",
        "A title here\n\nSome longer line of text.\n\nAnother line.\n\nThe end of it all.\n",
    ],
)
def test_running_text_is_not_read_as_words_and_tags(tmp_path, text):
    path = tmp_path / "raw.txt"
    path.write_text(text)
    with pytest.raises(DataError, match=r"not a word and its tag each: for text without tags use predict$"):
        read(path, DataOptions(), TAGS)


@pytest.mark.parametrize(
    "text",
    [
        "Go VB\n\nStop VB\n\nNo UH O\n",
        "In IN B-PP O\nUlm NNP B-NP B-place\n\nOh UH B-INTJ O\n",
        "a 0 - X *\nb 0 - Y\nc 0 - Z *\nd 0 - Z *\n",
        "the DT\nNew York NNP\nis VBZ\nbig JJ\n",
    ],
)
def test_words_and_tags_are_read_though_some_lines_differ(tmp_path, text):
    path = tmp_path / "a.txt"
    path.write_text(text)
    assert read(path, DataOptions(), TAGS).examples


def test_words_without_tags_are_for_predict(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("In\nUlm\n\nOh\n")
    with pytest.raises(DataError, match=r"for text without tags use predict$"):
        read(path, DataOptions(), TAGS)


@pytest.mark.parametrize(
    ("name", "content", "task", "said"),
    [
        ("a.conllu", "1\tGo\t_\tVERB\n", "text", "columns of words and tags are for a task that tags, and this model"),
        ("a.mrg", "(S (NP I) (VP see))", "tag", "trees are for a task that writes or reads them, and this model"),
    ],
)
def test_a_model_that_reads_another_form_says_what_it_does_and_training_names_the_task(
    tmp_path, name, content, task, said
):
    path = tmp_path / name
    path.write_text(content)
    recipe = compose(task, None)
    with pytest.raises(DataError, match=rf"{said} predicts {'text' if task == 'text' else 'tags'}: give it a table$"):
        read_for_model(recipe, path, recipe.data)
    with pytest.raises(DataError, match=r"add --task (tag|parse)$"):
        read_examples(recipe, path)
