"""Everything that people hold data in becomes the same rows."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from windlass.core.errors import DataError
from windlass.data.corpus import EXAMPLES
from windlass.data.frames import as_frame, as_inputs, as_items, pick_columns, read_columns
from windlass.data.readers import DataOptions
from windlass.data.sides import SideOptions

COLUMNS = {"id": [7, 8], "text": ["good", "bad"], "label": [1, None]}
ROWS = [(7, "good", 1), (8, "bad", None)]
PAIR = {"source": None, "target": None}


@pytest.mark.parametrize(
    "table",
    [
        COLUMNS,
        {name: np.array(cells, dtype=object) for name, cells in COLUMNS.items()},
        pd.DataFrame(COLUMNS),
        pd.DataFrame(COLUMNS).convert_dtypes(),
        pd.DataFrame(COLUMNS, index=["x", "y"]).astype({"text": "category"}),
        pl.DataFrame(COLUMNS),
        pl.DataFrame(COLUMNS).lazy(),
        pa.table(COLUMNS),
        pa.RecordBatch.from_pydict(COLUMNS),
        [dict(zip(COLUMNS, row, strict=True)) for row in ROWS],
        iter([{"id": 7, "text": "good", "label": 1}, {"id": 8, "text": "bad"}]),
    ],
    ids=["dict", "arrays", "pandas", "nullable", "category", "polars", "lazy", "arrow", "batch", "dicts", "iterator"],
)
def test_every_table_has_the_same_names_and_rows(table):
    frame = as_frame(table)
    assert frame.names == tuple(COLUMNS)
    assert list(frame.rows) == ROWS


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA])
def test_missing_labels_are_skipped_and_told_and_an_empty_list_is_none(missing):
    table = {"text": ["u", "v", "w"], "tags": [["a", "b"], [], missing]}
    read = EXAMPLES.from_memory(table, "train", SideOptions(target="labels"), DataOptions(source="text", target="tags"))
    assert [e.target for e in read.examples] == ["a,b", ""]
    assert [str(f) for f in read.findings] == ["train:3: the target is missing: for no labels, write [] -> skipped"]


@pytest.mark.parametrize("endless", ["inf", "-inf", "nan", "1e999", float("inf")])
def test_a_number_must_be_finite(endless):
    found = EXAMPLES.from_memory([("u", 1.5), ("v", endless)], "train", SideOptions(target="number")).findings
    assert [f.what for f in found] == [f"the target must be finite, not '{endless}'; write it as 3.5"]


@pytest.mark.parametrize(
    "pairs",
    [
        [("a", "b"), ("c", "d")],
        [["a", "b"], ["c", "d"]],
        zip("ac", "bd", strict=True),
        ((s, t) for s, t in ("ab", "cd")),
        np.array([["a", "b"], ["c", "d"]]),
        [np.array(["a", "b"]), np.array(["c", "d"])],
        {"a": "b", "c": "d"}.items(),
        pd.DataFrame([["a", "b"], ["c", "d"]]),
        pd.Series([("a", "b"), ("c", "d")]),
    ],
    ids=["tuples", "lists", "zip", "generator", "array", "arrays", "items", "unnamed", "series"],
)
def test_every_kind_of_pairs_has_the_same_rows(pairs):
    frame = as_frame(pairs)
    assert frame.names is None
    assert list(frame.rows) == [("a", "b"), ("c", "d")]


def test_what_holds_nothing_is_none_and_scalars_are_plain():
    cells = as_items([np.float32(0.5), np.str_("a"), np.bool_(True), pd.NA, pd.NaT, float("nan"), np.nan, None])
    assert cells == [0.5, "a", "True", None, None, None, None, None]
    assert [type(cell) for cell in cells[:3]] == [float, str, str]


def test_floats_stay_floats_where_some_are_no_integers_or_none_is_missing():
    frame = as_frame(pd.DataFrame({"a": [1.0, None], "b": [1.5, None], "c": [1.0, 2.0]}))
    assert list(frame.rows) == [(1, 1.5, 1.0), (None, None, 2.0)]


def test_words_in_cells_are_lists():
    words = [["a", "cat"], ["no"]]
    for table in (pd.DataFrame({"words": map(np.array, words)}), pl.DataFrame({"words": words}), {"words": words}):
        assert [row[0] for row in as_frame(table).rows] == words


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (None, "train is NoneType: give pairs"),
        (7, "train is int: give pairs"),
        ([1, 2], "train row 1 is int, not a row: give pairs"),
        ([("a", "b"), None], r"train row 2 is blank, not \(source, target\): give pairs"),
        ([("a", "b"), {"a": 1}], "train row 2 is a dict among other rows"),
        (["a", "b"], r"train row 1 is a text, not .*zip\(texts, targets\).*a list of texts is for task lm"),
        (pd.Series(["a", "b"]), "train row 1 is a text, not"),
        ([("a", "b"), ("a", "b", "c")], r"train row 2 has 3 cells, not 2 \(source, target\)"),
        ((["a", "b", "c", "d"], [0, 1, 0, 1]), r"train row 1 has 4 cells.*zip\(texts, targets\)"),
        ([("a",)], r"train row 1 is a text, not \(source, target\)"),
        ({"cat": "k a t"}, r"column 'cat' is a text.*items\(\)"),
        ({"a": [1], "b": [1, 2]}, "columns of unequal length: a has 1, b has 2"),
        ({"id": [1], "text": ["a"]}, "no column for the target among id, text: name it, target="),
    ],
)
def test_what_is_not_understood_says_where_and_how_to_mend_it(data, said):
    with pytest.raises(DataError, match=said) as raised:
        list(read_columns(as_frame(data, "train"), PAIR, "train"))
    assert "\n" not in str(raised.value)


def test_columns_are_chosen_by_name_and_the_others_in_order():
    frame = as_frame(pd.DataFrame({"Unnamed: 0": [0], "label": [1], "doc_id": [3], "text": ["a"]}))
    assert pick_columns(frame, PAIR) == {"source": "label", "target": "text"}
    assert pick_columns(frame, {"source": "text", "target": None}) == {"source": "text", "target": "label"}
    assert pick_columns(frame, {"source": 4, "target": 2}) == {"source": "text", "target": "label"}
    with pytest.raises(DataError, match="no column 9; there are 4"):
        pick_columns(frame, {"source": 9, "target": None})
    twice = as_frame(pd.DataFrame([["a", "b", "c"]], columns=["x", "x", "y"]))
    with pytest.raises(DataError, match="2 columns are called 'x'"):
        pick_columns(twice, {"source": "x", "target": "y"})


def test_several_columns_are_one_vector():
    frame = pd.DataFrame({"x": [1.5, 2.0], "y": [2, None], "kind": ["a", "b"]})
    rows = list(read_columns(as_frame(frame), {"source": "x,y", "target": "kind"}))
    assert rows == [{"source": [1.5, 2.0], "target": "a"}, {"source": None, "target": "b"}]
    assert as_inputs(frame.iloc[:1], {"source": "1-2"}) == [[1.5, 2.0]]
    with pytest.raises(DataError, match="no column is called 'x,z'"):
        list(read_columns(as_frame(frame), {"source": "x,z", "target": "kind"}))


def test_inputs_are_items_or_the_cells_of_columns():
    table = {"key": ["a", None], "other": ["b", "c"]}
    assert as_inputs(pd.DataFrame(table), {"source": "key"}) == ["a", ""]
    assert as_inputs(pl.DataFrame(table), {"source": None, "second": None}) == [("a", "b"), (None, "c")]
    assert as_inputs(pd.Series(["a", None]), {"source": "key"}) == ["a", ""]
    assert as_inputs(np.array([["a"], ["b"]]), {"source": None}) == ["a", "b"]
    assert as_inputs([["a", "cat"]], {"source": None}) == [["a", "cat"]]


def test_no_library_of_tables_is_imported():
    code = "import sys, windlass; print([m for m in ('pandas', 'polars', 'pyarrow', 'sklearn') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize(
    "make", [dict, pd.DataFrame, pl.DataFrame, pa.table], ids=["dict", "pandas", "polars", "arrow"]
)
@pytest.mark.parametrize("labels", [[1.0, 0.0], [1.0, None], [1, 0]])
def test_whole_numbers_are_integers_whether_one_is_missing_or_not(make, labels):
    rows = as_frame(make({"text": ["good", "bad"], "label": labels})).rows
    assert [repr(row[1]) for row in rows] == ["1", "None" if labels[1] is None else "0"]


def test_sets_are_lists_in_order_and_no_rows():
    table = {"text": ["a", "b"], "labels": [{"news", "art"}, frozenset({2, 1})]}
    rows = [("a", ["art", "news"]), ("b", [1, 2])]
    assert as_frame(table).rows == as_frame(pd.DataFrame(table)).rows == rows
    assert as_frame(zip(*table.values(), strict=True)).rows == rows
    with pytest.raises(DataError, match="train row 2 is set, not a row"):
        as_frame([("a", "b"), {"a", "b"}], "train")


def test_integer_names_are_chosen_by_name():
    frame = as_frame(pd.DataFrame([(7, "a text", "good")]), "train")
    assert (frame.names, frame.integers) == (None, ("0", "1", "2"))
    chosen = {"source": frame.choice(1), "target": frame.choice(2)}
    assert list(read_columns(frame, chosen)) == [{"source": "a text", "target": "good"}]
    assert frame.choice("0,1") == "1,2"
    with pytest.raises(DataError, match="train: no column is called 3; there are: 0, 1, 2"):
        frame.choice(3, "train")
    with pytest.raises(DataError, match=r"train row 1 has 3 cells, .*: choose columns by name, source=0, target=2"):
        list(read_columns(frame, PAIR, "train"))
    assert as_inputs(frame, {"source": 2}) == ["a text"]
    assert as_inputs(as_frame(pd.DataFrame([("a", "good")])), {"source": None}) == ["a"]


def test_columns_of_pairs_that_are_chosen_may_be_the_first():
    assert [*read_columns(as_frame([("a", "b", "c")]), {"source": 1, "target": 2})] == [{"source": "a", "target": "b"}]
