"""Labels and tags by the command line: train, evaluate, predict, score, explain."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from command import refused, windlass

SMALL = [
    argument
    for part in (
        "model.encoder.size=16",
        "model.encoder.embedding={kind: learned, size: 16, dropout: 0, spread: 1, blank: 0}",
        "model.encoder.dropout=0",
        "train.optimiser.lr=0.02",
        "train.schedule.warmup=2",
        "train.average=none",
        "train.batch_tokens=100",
        "train.threads=1",
    )
    for argument in ("--set", part)
]


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that tells questions from answers, and its data, `label text` a line."""
    folder = tmp_path_factory.mktemp("labels")
    chance = random.Random(1)
    rows = []
    for _ in range(120):
        words = chance.choices(["red", "green", "blue", "big", "small"], k=chance.randint(1, 4))
        asks = chance.random() < 0.5
        rows.append(f"{'ASK' if asks else 'SAY'} {'is it' if asks else 'it is'} {' '.join(words)}\n")
    (folder / "train.txt").write_text("".join(rows[:100]))
    (folder / "test.txt").write_text("".join(rows[100:]))
    ran = windlass(
        *("train", folder / "train.txt", "--task", "classify", "--format", "labelled", "--out", folder / "model"),
        *(*SMALL, "--set", "model.head.dropout=0", "--set", "train.epochs=4"),
    )
    assert ran.code == 0, ran.err
    assert "baseline, bag of words" in ran.err or "baseline, most frequent" in ran.err
    return folder


TRAIN = """# text = a
1\tthe\tthe\tDET\tDT\t_\t2\tdet\t_\t_
2\tcat\tcat\tNOUN\tNN\t_\t3\tnsubj\t_\t_
3\truns\trun\tVERB\tVBZ\t_\t0\troot\t_\t_

1-2\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tdo\tdo\tAUX\tVBP\t_\t3\taux\t_\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\t_
3\trun\trun\tVERB\tVB\t_\t0\troot\t_\t_
3.1\tit\tit\tPRON\tPRP\t_\t_\t_\t_\t_

"""


@pytest.fixture(scope="module")
def tags(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that tags, and its data, CoNLL-U."""
    folder = tmp_path_factory.mktemp("tags")
    (folder / "train.conllu").write_text(TRAIN * 20)
    (folder / "dev.conllu").write_text(TRAIN)
    ran = windlass(
        *("train", folder / "train.conllu", "--dev", folder / "dev.conllu", "--task", "tag"),
        *("--out", folder / "model", *SMALL, "--set", "model.encoder.spelling.size=8", "--set", "train.epochs=6"),
    )
    assert ran.code == 0, ran.err
    return folder


def test_a_label_is_predicted_evaluated_and_drawn(labels, tmp_path):
    model = labels / "model"
    ran = windlass("evaluate", model, labels / "test.txt", "--json", "--confusion", tmp_path / "c.png")
    content = json.loads(ran.out)
    assert content["metrics"]["accuracy"] == 100
    assert content["metrics"]["macro_f1"] == 100
    assert content["baseline"].keys() == content["metrics"].keys()
    assert content["search"] is None
    assert (tmp_path / "c.png").stat().st_size > 1000
    ran = windlass("predict", model, "--nbest", "2", stdin=b"is it blue\n\nit is blue\n")
    assert ran.out == "ASK\tSAY\n\nSAY\tASK\n"
    found = json.loads(windlass("predict", model, "--json", stdin=b"is it blue\n").out)
    assert found["answer"]["labels"]["ASK"] == pytest.approx(found["confidence"])
    assert found["confidence"] > 0.5
    assert len(found["attention"][0]) == len(found["places"]["names"]) == 4  # and the end
    ran = windlass("explain", model, "is it blue", "--out", tmp_path / "a.png")
    assert ran.code == 0, ran.err
    assert (tmp_path / "a.png").is_file()


def test_a_given_label_is_scored(labels):
    ran = windlass("score", labels / "model", labels / "test.txt")
    first = (labels / "test.txt").read_text().splitlines()[0]
    score, label = ran.out.splitlines()[0].split("\t")
    assert label == first.split()[0]
    assert -0.7 < float(score) <= 0


def test_what_searches_is_refused_by_a_model_that_does_not(labels):
    told = refused("predict", labels / "model", "--beam", "3", stdin=b"it is\n")
    assert told == "--beam has no use: this model predicts a label and needs no search"
    assert "leave it out" in refused(
        *("train", labels / "train.txt", "--task", "classify", "--format", "labelled"),
        *("--out", labels / "other", "--set", "search=beam"),
    )


def test_tags_are_written_back_into_columns_and_all_else_stays(tags):
    ran = windlass("predict", tags / "model", tags / "dev.conllu")
    assert ran.out == TRAIN
    content = json.loads(windlass("evaluate", tags / "model", tags / "dev.conllu", "--json").out)
    assert content["metrics"] == {"tag_accuracy": 100.0}
    assert content["baseline_name"] == "most frequent tag of a word"


def test_json_of_columns_is_an_object_per_sentence_and_options_without_effect_are_refused(tags):
    lines = windlass("predict", tags / "model", tags / "dev.conllu", "--json").out.splitlines()
    found = [json.loads(line) for line in lines]
    assert [(each["line"], each["input"]) for each in found] == [(1, "the cat runs"), (6, "do n't run")]
    assert found[0]["answer"]["tokens"] == ["DET", "NOUN", "VERB"]
    assert "leave nbest out" in refused("predict", tags / "model", tags / "dev.conllu", "--nbest", "2")
    assert "--beam has no use" in refused("predict", tags / "model", tags / "dev.conllu", "--beam", "2")


def test_a_text_that_is_not_cut_gets_its_tags_on_its_own_characters(tags, tmp_path):
    ran = windlass("predict", tags / "model", stdin=b"the cat  don't run\n")
    assert ran.out == "the/DET cat/NOUN do/AUX n't/PART run/VERB\n"
    found = json.loads(windlass("predict", tags / "model", "--json", stdin=b"the cat  don't run\n").out)
    assert found["places"]["offsets"] == [[0, 3], [4, 7], [9, 11], [11, 14], [15, 18]]
    assert [span["text"] for span in found["answer"]["spans"]] == ["the", "cat", "do", "n't", "run"]
    ran = windlass("explain", tags / "model", "the cat runs", "--out", tmp_path / "t.html")
    assert ran.code == 0, ran.err
    assert "DET" in (tmp_path / "t.html").read_text()


@pytest.mark.parametrize("line", ["  \tthe cat runs ", "the  “cat”—don't run!", "cafe\u0301 😀cat’s\u00a0run", " "])
def test_every_offset_is_in_the_characters_of_the_line_as_it_came(tags, line):
    ran = windlass("predict", tags / "model", "--json", stdin=f"{line}\r\nthe\n".encode())
    found, after = map(json.loads, ran.out.splitlines())
    words = [line[begin:end] for begin, end in found["places"]["offsets"]]
    assert words == found["places"]["names"]
    assert "".join(words) == "".join(line.split())  # nothing is lost but spaces
    assert len(found["answer"]["tokens"]) == len(found["answer"]["probabilities"]) == len(words)
    assert all(line[span["begin"] : span["end"]] == span["text"] for span in found["answer"]["spans"])
    assert after["places"]["offsets"] == [[0, 3]]


def test_columns_of_words_are_for_taggers(labels, tags, tmp_path):
    assert "this model predicts labels: give it a table" in refused(
        "evaluate", labels / "model", tags / "dev.conllu", "--format", "conllu"
    )
    assert "for a model that tags" in refused("predict", labels / "model", tags / "dev.conllu")
    (tmp_path / "short.conll").write_text("the DET\ncat\n\nthe DET\n")
    ran = windlass("doctor", tmp_path / "short.conll", "--task", "tag")
    assert "short.conll:2: no tag in column 2, so the sentence cannot be used -> skipped" in ran.out


def test_tags_in_a_table_must_be_as_many_as_words(tmp_path):
    (tmp_path / "a.tsv").write_text("the cat\tDET NOUN\nthe cat\tDET\n")
    ran = windlass("doctor", tmp_path / "a.tsv", "--task", "tag")
    assert "a.tsv:2: 2 words but 1 tag: both are separated by spaces -> skipped" in ran.out


def test_a_model_is_trained_further_with_labels_that_are_new(labels, tmp_path):
    lines = [f"SHOUT it is {word}\nSAY it is\nASK is it\n" for word in ("so", "red", "blue", "it", "is")]
    (tmp_path / "more.txt").write_text("".join(lines))
    ran = windlass(
        *("train", tmp_path / "more.txt", "--from", labels / "model", "--out", tmp_path / "m", "--format", "labelled"),
        *("--set", "train.epochs=1", "--set", "data.dev_fraction=0.3"),
    )
    assert ran.code == 0, ran.err
    assert "target 'SHOUT'" in ran.err


def test_columns_on_stdin_are_recognised_by_a_tagger(tags):
    whole = (tags / "dev.conllu").read_bytes()
    ran = windlass("predict", tags / "model", stdin=whole)
    assert ran.out == windlass("predict", tags / "model", tags / "dev.conllu").out
    assert "stdin: read as conllu" in ran.err


def test_a_sentence_that_cannot_be_tagged_is_named_and_written_as_it_is(tags, tmp_path):
    (tmp_path / "gap.conll").write_text("the\tDET\n\n\tX\n\ncat\tX\n")
    ran = windlass("predict", tags / "model", tmp_path / "gap.conll")
    assert ran.code == 1
    assert ran.out.split("\n\n")[1] == "\tX"
    assert "gap.conll:3: no word in column 1: check the format; the sentence is written as it is" in ran.err
