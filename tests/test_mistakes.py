"""What is wrong is listed, the surest first, and nothing else."""

from __future__ import annotations

import csv

import pytest

import windlass as package
from command import refused, windlass
from windlass.core.records import Prediction, TextAnswer
from windlass.data.examples import Example, Place
from windlass.inference.mistakes import find_mistakes, write_mistakes

TINY = {"train.epochs": 1, "model.encoder.size": 8, "model.encoder.embedding.size": 8}


def found(kind, *rows):
    """The mistakes of outputs, each with its references and its probability."""
    examples = [Example(f"in {n}", refs, None, Place("t.tsv", n)) for n, (_, refs, _) in enumerate(rows, 1)]
    predictions = [Prediction(out, TextAnswer((), ()), confidence=chance) for out, _, chance in rows]
    return find_mistakes(kind, examples, predictions)


def test_the_surest_come_first_and_blank_inputs_last():
    rows = (("a", ("b",), 0.2), ("a", ("b",), None), ("a", ("b",), 0.9), ("a", ("a",), 0.95))
    assert [(m.place.line, m.confidence) for m in found("text", *rows)] == [(3, 0.9), (1, 0.2), (2, None)]


def test_an_output_is_right_if_it_matches_any_reference_as_the_metrics_compare():
    assert found("text", ("a  b", ("x", "a b"), 0.5), ("e\u0301", ("\u00e9",), 0.5)) == ()


def test_labels_are_compared_as_sets_and_numbers_not_at_all():
    assert found("labels", ("b, a", ("a,b",), 0.5)) == ()
    assert len(found("labels", ("a", ("a,b",), 0.5))) == 1
    assert found("number", ("1.5", (1.0,), None)) == ()


@pytest.mark.parametrize("name", ["wrong.tsv", "wrong.csv"])
def test_a_spreadsheet_reads_the_table_back(tmp_path, name):
    mistakes = found("text", ("k\ta", ('say "k"\nplease', "þú"), 0.25))
    write_mistakes(mistakes, tmp_path / name)
    text = (tmp_path / name).read_text(encoding="utf-8-sig" if name.endswith("csv") else "utf-8")
    (row,) = csv.DictReader(text.splitlines(keepends=True), dialect="excel" if name.endswith("csv") else "excel-tab")
    assert (row["output"], row["reference"], row["probability"]) == ("k\ta", 'say "k"\nplease | þú', "0.2500")


def test_evaluate_lists_what_its_accuracy_counts(tmp_path):
    rows = [(f"the {noun} was {word}", label) for noun in "film book meal trip".split()
            for word, label in (("fine", "good"), ("dull", "bad"))]  # fmt: skip
    model = package.fit(rows * 4, rows, task="classify", settings=TINY, out=tmp_path / "model", quiet=True)
    odd = [*rows, ("the film was fine", "odd")]
    with pytest.warns(UserWarning, match="labels that this model does not know: odd"):
        result = model.evaluate(odd)
    assert len(result.mistakes) == len(odd) - round(result.metrics["accuracy"] * len(odd) / 100) > 0
    (tmp_path / "test.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in odd))
    done = windlass("evaluate", tmp_path / "model", tmp_path / "test.tsv", "--mistakes", tmp_path / "wrong.tsv")
    assert f"{len(result.mistakes)} of 9 outputs match no reference" in done.err
    lines = (tmp_path / "wrong.tsv").read_text().splitlines()
    assert len(lines) == 1 + len(result.mistakes)
    assert any(line.startswith(f"{tmp_path / 'test.tsv'}:9\tthe film was fine\t") for line in lines)
    nowhere = refused(
        "evaluate", tmp_path / "model", tmp_path / "test.tsv", "--mistakes", tmp_path / "no" / "wrong.tsv"
    )
    assert "cannot write the mistakes" in nowhere


def test_numbers_are_never_just_wrong(tmp_path):
    rows = [(f"{n} of 9", float(n)) for n in range(9)] * 3
    package.fit(rows, rows[:9], task="regress", settings=TINY, out=tmp_path / "model", quiet=True)
    (tmp_path / "test.tsv").write_text("".join(f"{text}\t{number}\n" for text, number in rows))
    said = refused("evaluate", tmp_path / "model", tmp_path / "test.tsv", "--mistakes", tmp_path / "wrong.tsv")
    assert "--mistakes is for outputs that are right or wrong" in said
    assert not (tmp_path / "wrong.tsv").exists()
