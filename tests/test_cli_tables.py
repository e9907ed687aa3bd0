"""Tables in and out: the task is recognised, `predict` reads the column of the training data, and stdin streams."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from command import refused, windlass

ROWS = [(f"the {noun} was {word}", label) for noun in "film book meal hotel phone game trip plot".split()
        for word, label in (("fine", "good"), ("warm", "good"), ("dull", "bad"), ("cold", "bad"))]  # fmt: skip
TINY = ("--set", "train.epochs=1", "--set", "model.encoder.size=8", "--set", "model.encoder.embedding.size=8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("tables")
    rows = "".join(f"{n};{text};{label}\n" for n, (text, label) in enumerate(ROWS))
    (place / "reviews.csv").write_text("id;review, as written;opinion\n" + rows)
    done = windlass("train", place / "reviews.csv", "--out", place / "model", *TINY)
    assert "task classify, as column 'opinion' holds 2 labels" in done.err
    return place


def test_predict_reads_the_column_of_the_training_data(folder):
    rows = windlass("predict", folder / "model", folder / "reviews.csv", "--json").out.splitlines()
    first = json.loads(rows[0])
    assert len(rows) == len(ROWS)
    assert (first["input"], first["line"]) == (ROWS[0][0], 2)
    (folder / "texts.txt").write_text("".join(f"{text}\n" for text, _ in ROWS))
    lines = windlass("predict", folder / "model", folder / "texts.txt", "--json").out.splitlines()
    assert [json.loads(row)["score"] for row in rows] == [json.loads(line)["score"] for line in lines]


def test_other_formats_and_stdin_give_the_same(folder):
    expected = windlass("predict", folder / "model", folder / "reviews.csv").out
    objects = "".join(json.dumps({"k": n, "text": text}) + "\n" for n, (text, _) in enumerate(ROWS))
    (folder / "texts.jsonl").write_text(objects)
    assert windlass("predict", folder / "model", folder / "texts.jsonl", "--source", "text").out == expected
    whole = (folder / "reviews.csv").read_bytes()
    assert windlass("predict", folder / "model", stdin=whole).out == expected  # its first line has the column's name
    tabs = "".join(f"{text}\t{label}\n" for text, label in ROWS).encode()
    done = windlass("predict", folder / "model", stdin=tabs)
    assert (done.out, "lines have columns" in done.err) == (expected, True)
    assert (
        windlass("predict", folder / "model", "--format", "jsonl", "--source", "text", stdin=objects.encode()).out
        == expected
    )


def test_evaluate_reads_stdin(folder):
    a, b = (
        json.loads(
            windlass("evaluate", folder / "model", file, "--json", stdin=(folder / "reviews.csv").read_bytes()).out
        )
        for file in (folder / "reviews.csv", "-")
    )
    assert a["metrics"] == b["metrics"]


def test_a_column_that_is_not_there_is_told(folder):
    assert "no column is called 'text'; did you mean" in refused(
        "predict", folder / "model", folder / "reviews.csv", "--source", "text"
    ) or "known" in refused("predict", folder / "model", folder / "reviews.csv", "--source", "text")


def test_a_line_in_is_a_line_out_at_once_and_a_closed_pipe_is_no_error(folder):
    program = [sys.executable, "-m", "windlass", "predict", str(folder / "model")]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        for text, _ in ROWS[:3]:
            process.stdin.write(text.encode() + b"\n")
            process.stdin.flush()
            assert process.stdout.readline().strip() in (b"good", b"bad")
        process.stdout.close()
        process.stdin.write(b"the trip was dull\n" * 3000)
        process.stdin.close()
        errors = process.stderr.read().decode()
        assert (process.wait(), errors) == (0, "")


def test_flags_of_training_and_overwriting(folder, tmp_path):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("".join(f"{word} {n} 1 0.5\n" for n, word in enumerate(("the", "was", "fine", "dull"))))
    small = ("--set", "model.encoder.size=8", "--epochs", "1", "--seed", "7", "--lr", "0.01", "--batch-tokens", "50")
    train = ("train", folder / "reviews.csv", "--out", tmp_path / "m", *small)
    done = windlass(*train, "--vectors", vectors)
    assert "has vectors for 4 of" in done.err
    recipe = (tmp_path / "m" / "recipe.yaml").read_text()
    for line in ("epochs: 1", "seed: 7", "lr: 0.01", "batch_tokens: 50", "kind: vectors", "size: 3"):
        assert line in recipe
    assert "exists and is not empty" in refused(*train)
    assert "deleting the model that is there" in windlass(*train, "--overwrite").err
    assert "kind: vectors" not in (tmp_path / "m" / "recipe.yaml").read_text()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("years of work")
    assert "no model is in it" in refused("train", folder / "reviews.csv", "--overwrite", "--out", tmp_path / "other")
    assert (tmp_path / "other" / "thesis.txt").exists()
