"""What `windlass.compare` takes in Python: data in memory, columns, and mistakes that are told in a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from windlass import compare
from windlass.bundle import Bundle
from windlass.comparing.table import Comparison
from windlass.core.errors import WindlassError
from windlass.experiment.data import as_examples
from windlass.inference.evaluate import evaluate
from windlass.recipe import compose, override

SMALL = {"model.encoder.size": 8, "train.epochs": 1, "train.threads": 1}
ROWS = [
    (f"it is {'so ' * (n % 3)}{w} {n}", w, "low high urgent".split()[n * 7 % 3])
    for n in range(30)
    for w in ("good", "bad")
]
ROWS_OF_TWO = [row[:2] for row in ROWS]
FRAME = pd.DataFrame([(n, *row) for n, row in enumerate(ROWS)], columns=["id", "text", "category", "priority"])
CELLS = {"model.encoder.cell": "gru,rnn"}


def quick(*given: Any, **also: Any) -> Comparison:
    return compare(*given, **{"settings": SMALL, "seeds": 1, "quiet": True} | also)


def test_data_may_come_first_and_values_may_be_a_text(tmp_path: Path):
    FRAME.drop(columns="priority").to_csv(tmp_path / "reviews.csv", index=False)
    for data in (FRAME.drop(columns="priority"), ROWS_OF_TWO, tmp_path / "reviews.csv", str(tmp_path / "reviews.csv")):
        found = quick(data, vary=CELLS)
        assert [(trial.name, trial.task) for trial in found.trials] == [("gru", "classify"), ("rnn", "classify")]
    (tmp_path / "one.yaml").write_text("task: classify\n")
    assert [row.name for row in quick(str(tmp_path / "one.yaml"), train=ROWS_OF_TWO).rows] == ["one"]


def test_columns_of_data_in_memory_are_chosen_and_noted_as_fit_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    quick(FRAME, vary=CELLS, quiet=False)
    said = capsys.readouterr().err
    assert said.count("the source is 'text', the target 'category'") == 1
    assert "could be the target too: choose with target=" in said
    for chosen in ({"target": "priority"}, {"settings": SMALL | {"data.target": "priority"}}):
        quick(FRAME, vary=CELLS, out=tmp_path / "out" / next(iter(chosen)), quiet=False, **chosen)
        said = capsys.readouterr().err
        assert "the target 'priority'" in said
        assert "choose with target=" not in said
        recipe = Bundle.load(tmp_path / "out" / next(iter(chosen)) / "runs" / "rnn" / "1").recipe
        assert (recipe.data.source, recipe.data.target) == ("text", "priority")
    FRAME.to_csv(tmp_path / "reviews.csv", index=False)
    quick(tmp_path / "reviews.csv", target="priority", source="text", quiet=False)
    assert "source 'text', target 'priority'" in capsys.readouterr().err


def test_varied_columns_are_read_each(tmp_path: Path):
    found = quick(FRAME, task="classify", vary={"data.target": ["category", "priority"]}, out=tmp_path)
    assert not found.failed
    targets = [Bundle.load(folder).recipe.data.target for folder in sorted(tmp_path.glob("runs/*/1"))]
    assert targets == ["category", "priority"]


def test_test_data_may_be_in_memory(tmp_path: Path):
    test = FRAME.iloc[:20]
    found = quick(FRAME, test=test, target="category", vary=CELLS, out=tmp_path / "out")
    bundles = [Bundle.load(tmp_path / "out" / "runs" / cell / "1") for cell in ("gru", "rnn")]
    scores = [evaluate([bundle], as_examples(test, "test", bundle.recipe).examples).metrics for bundle in bundles]
    assert [trial.test for trial in found.trials] == scores
    FRAME.to_csv(tmp_path / "reviews.csv", index=False)
    by_file = quick(tmp_path / "reviews.csv", test=test, target="category", out=tmp_path / "two", by="length")
    assert by_file.lengths[0].part == "test"
    assert sum(by_file.lengths[0].examples) == 20
    data = {"train": [str(tmp_path / "reviews.csv")], "source": "text", "target": "category"}
    recipe = compose("classify", None, [{"data": data}, *(override(key, n) for key, n in SMALL.items())])
    named = quick({"own": recipe}, test=test.to_dict("list"), settings=None)
    assert named.rows[0].test is not None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"by": "lenght"}, "by='lenght': unknown; the only choice is by=\"length\""),
        ({"vary": [("model.encoder.cell", "gru")]}, "vary is list: give a dict of options and their values"),
        ({"vary": {"model.encoder.size": 64}}, "vary: model.encoder.size is 64: give a list of values, as in vary="),
        ({"vary": {"model.encoder.size": []}}, r"vary: model.encoder.size is []: give a list of values"),
        ({"vary": {"seed": "[1"}}, 'vary={"seed": "[1"}: a value is not valid YAML'),
        ({"vary": {"seed": [1], "seed+train.epochs": [2]}}, "vary seed: given twice: put all its values into one"),
        ({"train": FRAME}, "the first argument and train are both training data"),
        ({"test": {"gru": "test.tsv"}}, "test files by name need recipes by name"),
        ({"test": FRAME.drop(columns="category")}, "test: no column is called 'category'"),
        ({"test": ["a.csv", "b.csv"]}, "2 test files for 0 recipes"),
        ({"jobs": 2}, "data in memory need jobs=1"),
        ({"settings": {**SMALL, "data.train": ["a.tsv"]}}, "data.train is of files and has no use with data in memory"),
        ({"vary": {"data.header": [True, False]}}, "data.header is of files and has no use with data in memory"),
        ({"vary": {3: [4]}}, "3: unknown key"),
        ({"target": "moood"}, "no column is called 'moood'"),
    ],
)  # fmt: skip
def test_what_python_cannot_compare_is_refused_in_a_sentence(given: dict[str, Any], said: str):
    with pytest.raises(WindlassError) as refusal:
        quick(FRAME, **{"vary": CELLS} | given)
    assert said in str(refusal.value)
    assert "--" not in str(refusal.value)


def test_validation_data_are_as_the_training_data():
    with pytest.raises(TypeError, match="both as files, or neither"):
        compare("train.tsv", dev=FRAME)
    with pytest.raises(WindlassError, match="'small' is str, not a Recipe: give files as a list"):
        compare({"small": "small.yaml"})
    with pytest.raises(WindlassError, match="train has no rows"):
        compare(FRAME.head(0))
    with pytest.raises(WindlassError, match="give recipe files, or data with vary="):
        compare()
