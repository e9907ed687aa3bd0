"""Numbers and sets of labels, in little, from Python and from the command line."""

from __future__ import annotations

import json
import random

import pytest

import windlass as w
from command import refused, windlass

SMALL = {
    "model.encoder.cell": "gru",
    "model.encoder.size": 16,
    "model.encoder.dropout": 0.0,
    "model.encoder.embedding": {"kind": "learned", "size": 16, "dropout": 0.0},
    "model.head.dropout": 0.0,
    "train.optimiser.lr": 0.01,
    "train.schedule": {"kind": "cosine", "warmup": 5},
    "train.average": "none",
    "train.threads": 1,
    "train.batch_tokens": 200,
}
WORDS = ["red", "green", "blue", "big", "small"]


def sentences(seed: int, count: int) -> list[list[str]]:
    chance = random.Random(seed)
    return [chance.choices(WORDS, k=chance.randint(1, 7)) for _ in range(count)]


def test_regress_learns_to_count_and_stays_above_the_mean():
    pairs = [(" ".join(words), str(10 * words.count("red"))) for words in sentences(1, 330)]
    settings = SMALL | {"train.epochs": 10, "model.head.pool": "attention"}
    model = w.fit(pairs[60:], pairs[:60], task="regress", settings=settings, quiet=True)
    assert model.dev is not None
    assert model.dev.metrics["pearson"] > 0.9
    assert model.baseline is not None
    assert model.baseline.name == "mean"
    few, many = model.predict(["green blue", "red red blue red"])
    assert few.answer.value < 10 < 20 < many.answer.value
    assert many.confidence is None
    assert float(many.text) == pytest.approx(many.answer.value, rel=1e-4)
    likely, unlikely = model.score([("red red blue red", "30"), ("red red blue red", "0")])
    assert likely.score > unlikely.score


def test_multilabel_learns_which_words_are_there():
    pairs = [(" ".join(words), ",".join(sorted(set(words) & {"red", "blue", "big"}))) for words in sentences(2, 330)]
    model = w.fit(pairs[60:], pairs[:60], task="multilabel", settings=SMALL | {"train.epochs": 15}, quiet=True)
    assert model.dev is not None
    assert model.dev.metrics["micro_f1"] > 95
    both, none = model.predict(["big green blue", "green small"])
    assert set(both.answer.tokens) == {"big", "blue"}
    assert none.text == ""
    assert set(both.answer.labels) == {"red", "blue", "big"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model of how alike two texts are, by the command line."""
    folder = tmp_path_factory.mktemp("alike")
    chance = random.Random(3)
    rows = ["first\tsecond\tscore\n"]
    for _ in range(220):
        a, b = (chance.sample(WORDS, 3) for _ in range(2))
        rows.append(f"{' '.join(a)}\t{' '.join(b)}\t{len(set(a) & set(b))}.0\n")
    (folder / "train.tsv").write_text("".join(rows[:201]))
    (folder / "test.tsv").write_text(rows[0] + "".join(rows[201:]))
    columns = ["--source", "first", "--second", "second", "--target", "score"]
    small = ["train.threads=1", "train.epochs=12", "train.batch_tokens=200", "model.encoder.attention.dropout=0"]
    options = [argument for part in small for argument in ("--set", part)]
    train = windlass("train", "--task", "similarity", folder / "train.tsv", *columns, "--out", folder / "m", *options)
    assert "pearson" in train.err
    return folder


def test_similarity_by_the_command_line(folder):
    evaluated = json.loads(windlass("evaluate", folder / "m", folder / "test.tsv", "--json").out)
    assert evaluated["metrics"]["pearson"] > 0.5
    assert evaluated["baseline_name"] == "mean"
    (folder / "pairs.txt").write_text("red blue big\tred blue big\nred blue big\tgreen small red\n")
    same, other = map(float, windlass("predict", folder / "m", folder / "pairs.txt").out.split())
    assert same > other
    first = json.loads(windlass("predict", folder / "m", folder / "pairs.txt", "--json").out.splitlines()[0])
    assert first["answer"]["kind"] == "number"
    assert first["confidence"] is None
    windlass("explain", folder / "m", "red blue", "--second", "red big", "--out", folder / "x.png")
    assert (folder / "x.png").stat().st_size > 1000
    assert "--beam has no use" in refused("evaluate", folder / "m", folder / "test.tsv", "--beam", "3")


def test_what_is_not_a_number_is_a_finding_with_its_line(folder, tmp_path):
    path = tmp_path / "bad.tsv"
    path.write_text("red blue\tbig\tfour\nred\tblue\t1.5\nbig\tsmall\tnan\n")
    told = windlass("doctor", path, "--task", "similarity").out
    assert "bad.tsv:1: the target is not a number: 'four'; write it as 3.5" in told
    assert "bad.tsv:3" in told


def test_an_empty_set_of_labels_in_a_file_is_an_answer(tmp_path):
    path = tmp_path / "labels.jsonl"
    rows = [{"text": "red", "labels": ["a", "b"]}, {"text": "blue", "labels": []}, {"text": "big", "labels": None}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    told = json.loads(windlass("doctor", path, "--task", "multilabel", "--target", "labels", "--json").out)
    assert (told["train"], told["findings"]) == (3, [])
    (tmp_path / "labels.tsv").write_text("red\ta,b\nblue\t\n")
    assert json.loads(windlass("doctor", tmp_path / "labels.tsv", "--task", "multilabel", "--json").out)["train"] == 2
