"""Pairs by the command line: train, evaluate, predict, score, explain; and the hypothesis written from the premise."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from command import TINY, refused, windlass

SMALL = [
    argument
    for part in (
        "model.encoder.reader.size=16",
        "model.encoder.reader.embedding={kind: learned, size: 16, dropout: 0}",
        "model.encoder.attention={score: {kind: cosine, scale: 10}, size: 16, dropout: 0, compose: null}",
        "model.head={kind: label, pool: max, hidden: [], dropout: 0}",
        "loss.label_smoothing=0",
        "train.optimiser.lr=0.02",
        "train.schedule.warmup=2",
        "train.average=none",
        "train.batch_tokens=30",
        "train.threads=1",
    )
    for argument in ("--set", part)
]


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that says whether a word is in a text, and its data."""
    folder = tmp_path_factory.mktemp("pairs")
    chance = random.Random(1)
    rows = ["id\tpremise\thypothesis\tlabel\n"]
    for n in range(220):
        words = chance.sample(["red", "green", "blue", "big", "small", "old"], 3)
        word = chance.choice(["red", "green", "blue", "big", "small", "old"])
        rows.append(f"{n}\t{' '.join(words)}\tit is {word}\t{'yes' if word in words else 'no'}\n")
    (folder / "train.tsv").write_text("".join(rows[:181]))
    (folder / "test.tsv").write_text("".join([rows[0], *rows[181:]]))
    ran = windlass(
        *("train", folder / "train.tsv", "--task", "entail", "--out", folder / "model"),
        *("--source", "premise", "--second", "hypothesis", "--target", "label", *SMALL, "--set", "train.epochs=12"),
    )
    assert ran.code == 0, ran.err
    assert "baseline, bag of words" in ran.err
    assert "--second 'it is " in ran.err  # what to do next
    return folder


def test_pairs_are_judged_evaluated_and_scored(pairs, tmp_path):
    content = json.loads(windlass("evaluate", pairs / "model", pairs / "test.tsv", "--json").out)
    assert content["metrics"]["accuracy"] >= 90
    assert content["baseline"].keys() == content["metrics"].keys() == {"accuracy", "macro_f1"}
    ran = windlass("predict", pairs / "model", stdin=b"red big old\tit is big\n\nred big old\tit is small\n")
    assert ran.out == "yes\n\nno\n"
    ran = windlass("score", pairs / "model", pairs / "test.tsv")
    assert ran.out.splitlines()[0].split("\t")[1] in ("yes", "no")
    ran = windlass("predict", pairs / "model", stdin=b"red big old\nred big old\tit is big\n")
    assert (ran.code, ran.out) == (1, "\nyes\n")
    assert "stdin:1: a pair is two texts separated by one tab, not 'red big old'" in ran.err


def test_the_words_of_the_hypothesis_are_drawn_over_those_of_the_premise(pairs, tmp_path):
    for name in ("look.png", "look.html", "look.json"):
        ran = windlass("explain", pairs / "model", "red big old", "--second", "it is big", "--out", tmp_path / name)
        assert ran.code == 0, ran.err
    found = json.loads((tmp_path / "look.json").read_text())
    assert found["places"]["parts"]["second"]["names"] == ["it", "is", "big"]
    assert max(range(3), key=lambda n: found["attention"][2][n]) == 1
    page = (tmp_path / "look.html").read_text()
    assert all(word in page for word in ("old", "is", "yes"))


def test_the_speed_of_a_model_of_pairs_is_measured_with_synthetic_ones(pairs):
    ran = windlass("bench", pairs / "model", "--seconds", "0.01", "--batch", "2", "--json")
    assert json.loads(ran.out)["figures"][0]["sentences_per_second"] > 0, ran.err


def test_the_doctor_reads_pairs(pairs):
    ran = windlass("doctor", pairs / "train.tsv", "--task", "entail", "--source", "2", "--second", "3", "--target", "4")
    assert "180 training examples" in ran.out, ran.err


def test_the_hypothesis_is_written_from_the_premise_as_any_text_from_another(pairs, tmp_path):
    ran = windlass(
        *("train", pairs / "train.tsv", "--task", "text", "--out", tmp_path / "model", *TINY),
        *("--source", "premise", "--target", "hypothesis", "--set", "train.epochs=1"),
        *("--set", "source.tokens=words", "--set", "target.tokens=words"),
    )
    assert ran.code == 0, ran.err
    assert windlass("predict", tmp_path / "model", stdin=b"red big old\n").code == 0
    told = refused("explain", tmp_path / "model", "red", "--second", "big", "--out", tmp_path / "a.png")
    assert told == "--second is for a model of pairs, and this one reads one text: leave it out"
    told = refused("explain", tmp_path / "model", "red", "--self-attention", "--out", tmp_path / "a.png")
    assert "no self-attention in this model" in told


def test_self_attention_is_drawn_head_by_head(pairs, tmp_path):
    encoder = "{kind: attention, size: 8, heads: 2, hidden: 8, layers: 1, embedding: {kind: learned, size: 8}}"
    ran = windlass(
        *("train", pairs / "train.tsv", "--task", "classify", "--source", "hypothesis", "--target", "label"),
        *("--out", tmp_path / "model", "--set", f"model.encoder={encoder}", "--set", "train.epochs=1"),
    )
    assert ran.code == 0, ran.err
    ran = windlass("explain", tmp_path / "model", "it is red", "--self-attention", "--out", tmp_path / "heads.json")
    assert ran.code == 0, ran.err
    tables = json.loads((tmp_path / "heads.json").read_text())
    assert [table["title"] for table in tables] == ["encoder, layer 1, head 1", "encoder, layer 1, head 2"]
    assert tables[0]["source"] == tables[0]["target"] == ["it", "is", "red", "</s>"]
