"""Documents by the command line: train, resume, evaluate, predict, score, explain, bench, quantise."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

import windlass as package
from command import refused, windlass
from windlass.nn.fast import int8

SIZES = [
    argument
    for part in (
        "model.encoder.words={cell: gru, size: 12, dropout: 0}",
        "model.encoder.sentences={cell: gru, size: 12, dropout: 0}",
        "model.encoder.embedding={kind: learned, size: 12, dropout: 0, spread: 1, blank: 0}",
        "model.head.dropout=0",
        "train.optimiser.lr=0.02",
        "train.schedule.warmup=2",
        "train.average=none",
        "train.batch_tokens=200",
        "train.threads=1",
        "train.processes=1",
    )
    for argument in ("--set", part)
]


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that finds who wins, and its data: texts and lists of sentences side by side."""
    folder = tmp_path_factory.mktemp("documents")
    chance = random.Random(1)
    rows = []
    for n in range(110):
        who = chance.choice(["cat", "dog"])
        sentences = [
            f"It is {' '.join(chance.choices(['red', 'big', 'so'], k=3))}." for _ in range(chance.randint(1, 3))
        ]
        sentences.insert(chance.randrange(len(sentences) + 1), f"The {who} wins!")
        rows.append(json.dumps({"text": sentences if n % 2 else "\n".join(sentences), "label": who}) + "\n")
    (folder / "train.jsonl").write_text("".join(rows[:90]))
    (folder / "test.jsonl").write_text("".join(rows[90:]))
    ran = windlass(
        *("train", folder / "train.jsonl", "--task", "classify-document", "--out", folder / "model"),
        *(*SIZES, "--set", "train.epochs=3", "--set", "source.most_sentences=3", "--set", "source.tokens.min_count=1"),
    )
    assert ran.code == 0, ran.err
    assert "documents are longer than the model reads" in ran.err
    return folder


@pytest.fixture(scope="module")
def acts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that tells questions from answers, turn by turn; tags as a text and as a list."""
    folder = tmp_path_factory.mktemp("acts")
    chance = random.Random(1)
    rows = []
    for n in range(60):
        acts = chance.choices(["ASK", "SAY"], k=chance.randint(1, 4))
        turns = [f"{'is it' if act == 'ASK' else 'it is'} {chance.choice(['red', 'big', 'so'])}" for act in acts]
        rows.append(json.dumps({"turns": turns, "acts": acts if n % 2 else " ".join(acts)}) + "\n")
    (folder / "train.jsonl").write_text("".join(rows[:50]))
    (folder / "test.jsonl").write_text("".join(rows[50:]))
    ran = windlass(
        *("train", folder / "train.jsonl", "--task", "tag-document", "--out", folder / "model", *SIZES),
        *("--source", "turns", "--target", "acts", "--set", "train.epochs=4"),
    )
    assert ran.code == 0, ran.err
    assert "baseline, bag of words of each" in ran.err or "baseline, most frequent" in ran.err
    return folder


def test_a_document_is_evaluated_and_predicted_as_a_text_or_as_a_list(labels):
    content = json.loads(windlass("evaluate", labels / "model", labels / "test.jsonl", "--json").out)
    assert content["metrics"]["accuracy"] >= 80
    assert content["unread"] > 0
    assert content["baseline_name"] in ("bag of words", "most frequent")
    lines = b'It is red. The dog wins!\n\n["It is so.", "The cat wins!"]\n'
    ran = windlass("predict", labels / "model", stdin=lines)
    assert ran.out == "dog\n\ncat\n"
    first, _, last = map(json.loads, windlass("predict", labels / "model", "--json", stdin=lines).out.splitlines())
    assert last["places"]["names"] == ["It is so.", "The cat wins!"]
    assert first["places"]["within"][1]["names"] == ["The", "dog", "wins", "!"]
    assert [round(sum(row), 4) for row in first["word_attention"]] == [1, 1]
    assert round(sum(first["attention"][0]), 4) == 1
    ran = windlass("predict", labels / "model", stdin=b"It is. It is. It is. The cat wins!\n")
    assert "1 of 1 documents are longer than the model reads" in ran.err


@pytest.mark.parametrize("suffix", ["html", "png", "json"])
def test_a_document_is_explained_from_a_text_or_a_file(labels, tmp_path, suffix):
    text = "It is <big>. The dog wins! It is so. And red."
    ran = windlass("explain", labels / "model", text, "--out", tmp_path / f"a.{suffix}")
    assert ran.code == 0, ran.err
    assert "-> dog" in ran.err
    assert "3 words are not read" in ran.err
    (tmp_path / "post.txt").write_text(text)
    ran = windlass("explain", labels / "model", tmp_path / "post.txt", "--out", tmp_path / f"b.{suffix}")
    assert ran.code == 0, ran.err
    assert (tmp_path / f"a.{suffix}").read_bytes() == (tmp_path / f"b.{suffix}").read_bytes()
    if suffix == "html":
        page = (tmp_path / "a.html").read_text()
        assert "&lt;" in page
        assert "<big>" not in page
        assert page.count('class="sentence"') == 3
        assert "% of its sentence" in page


def test_a_run_that_was_stopped_goes_on_and_a_bundle_moves(labels, tmp_path):
    train = ("train", labels / "train.jsonl", "--task", "classify-document", *SIZES)
    whole = windlass(*train, "--out", tmp_path / "whole", "--set", "train.epochs=2")
    assert whole.code == 0, whole.err
    windlass(*train, "--out", tmp_path / "part", "--set", "train.epochs=2", "--set", "train.minutes=0.0001")
    ran = windlass("train", "--resume", "--out", tmp_path / "part", "--set", "train.minutes=null")
    assert ran.code == 0, ran.err
    (tmp_path / "part").rename(tmp_path / "moved")
    weights = [(tmp_path / name / "weights.safetensors").read_bytes() for name in ("whole", "moved")]
    assert len(weights[0]) == len(weights[1])
    found = [package.load(tmp_path / name).predict(["The cat wins!"])[0] for name in ("whole", "moved")]
    assert found[0].answer.labels == found[1].answer.labels


def test_turns_of_a_dialog_are_tagged_scored_and_drawn(acts, tmp_path):
    model = acts / "model"
    content = json.loads(windlass("evaluate", model, acts / "test.jsonl", "--json").out)
    assert content["metrics"]["tag_accuracy"] == 100
    assert windlass("predict", model, stdin=b'["is it so", "it is red", ""]\n').out.split()[:2] == ["ASK", "SAY"]
    scored = windlass("score", model, acts / "test.jsonl").out.splitlines()
    assert len(scored) == 10
    ran = windlass("explain", model, "is it so\nit is red", "--out", tmp_path / "acts.html")
    assert ran.code == 0, ran.err
    assert "<b>ASK</b>" in (tmp_path / "acts.html").read_text()
    assert windlass("explain", model, "is it so\nit is red", "--out", tmp_path / "acts.png").code == 0


def test_what_does_not_fit_is_said(labels, acts, tmp_path):
    bad = tmp_path / "bad.jsonl"
    rows = [(["a"], "X"), (["a", "b"], "X"), (["a"], ["x y"]), ([1], "X")]
    bad.write_text("".join(json.dumps({"turns": turns, "acts": acts}) + "\n" for turns, acts in rows))
    ran = windlass("doctor", bad, "--task", "tag-document", "--source", "turns", "--target", "acts")
    assert "2 sentences but 1 tag:" in ran.out
    assert "texts without a space" in ran.out
    assert "not all in it is text" in ran.out
    refuse = ("train", bad, "--task", "tag-document", "--out", tmp_path / "x")
    assert "source.longer: cut" in refused(*refuse, "--set", "source.longer=break")
    assert "task tag-document reads document" in refused(*refuse, "--set", "source=text")
    assert "pool: ends" in refused(
        *("train", labels / "train.jsonl", "--task", "classify-document", "--out", tmp_path / "x"),
        *("--set", "model.encoder.words.pool=last"),
    )
    assert "not a regular expression" in refused(*refuse, "--set", "source.splitter={kind: pattern, pattern: '('}")
    assert "use_splitter" in refused(
        *("train", acts / "train.jsonl", "--task", "classify-document", "--source", "acts", "--target", "turns"),
        *("--out", tmp_path / "y", "--set", "source.splitter={kind: own, name: mine}"),
    )


@pytest.mark.skipif(not int8.levels(), reason="no 8-bit products on this machine")
def test_a_document_model_is_measured_and_made_small(labels, tmp_path):
    ran = windlass("bench", labels / "model", "--seconds", "0.01", "--batch", "1", "--json")
    assert ran.code == 0, ran.err
    assert {figure["numbers"] for figure in json.loads(ran.out)["figures"]} == {"float32", "int8"}
    ran = windlass("quantise", labels / "model", labels / "test.jsonl", "--out", tmp_path / "small", "--json")
    assert ran.code == 0, ran.err
    content = json.loads(ran.out)
    assert content["after"]["accuracy"] >= content["before"]["accuracy"] - 10
