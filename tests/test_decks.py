"""Every row of the table in docs/decks.md is a model that runs, over the recipe of its task or the `text` recipe."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from windlass.bundle import Bundle
from windlass.data.sides import Sides
from windlass.experiment.data import sides_of
from windlass.inference.predict import score
from windlass.recipe import compose, override

PAGE = (Path(__file__).parent.parent / "docs" / "decks.md").read_text(encoding="utf-8")
ROWS = [
    row.removeprefix("| ").removesuffix(" |").rpartition(" | ")
    for row in PAGE.partition("## From equation to recipe")[2].splitlines()
    if row.startswith("| ") and "recipe |" not in row
]
BOTH = ("cell", "connect", "layers", "embedding")  # of encoder and decoder
OF_DECODER = ("start", "context", "feedback", "readout")


def keys(name: str) -> list[str]:
    """Where a recipe has a setting that the table names by its last part."""
    if name in BOTH:
        return [f"model.encoder.{name}", f"model.decoder.{name}"]
    if name in OF_DECODER:
        return [f"model.decoder.{name}"]
    if name.partition(".")[0] in ("encoder", "decoder", "head", "tie"):
        return [f"model.{name}"]
    return [{"pool": "model.head.pool", "score": "model.decoder.context.score"}.get(name, name)]


def settings(cell: str) -> dict[str, Any]:
    """The settings of a row, without what is said of the data."""
    return {name: value for part in re.findall(r"`([^`]+)`", cell) for name, value in yaml.safe_load(part).items()}


def build(cell: str) -> tuple[Bundle, list[Any]]:
    """The model of a row, on the examples of its sides."""
    given = settings(cell)
    task = given.pop("task", "text")
    recipe = compose(task, None, [override(key, value) for name, value in given.items() for key in keys(name)])
    (source, sources), (target, targets) = (
        side.tiny() for side in (sides_of(recipe).source_side, sides_of(recipe).target_side)
    )
    return Bundle.new(recipe, Sides(source, target)), list(zip(sources, targets, strict=False))


@pytest.mark.parametrize(("equation", "cell"), [(row[0], row[2]) for row in ROWS], ids=[row[2] for row in ROWS])
def test_a_row_of_the_table_is_a_model_that_runs(equation, cell):
    if "vectors" in cell or "alignment" in cell:
        pytest.skip("needs files of its own")
    bundle, pairs = build(cell)
    assert len(score(bundle, pairs)) == len(pairs), equation


@pytest.mark.parametrize(
    ("equation", "absent"),
    [
        ("option 1, `s_0 = h_T`", ("bridges", "join")),
        ("option 2, `s_t = RNN(s_{t-1}, [e(y), h_T])`", ("bridges", "join")),
        ("`q . k`, both of one size", ("attention",)),
        ("`q . k / sqrt(p)`", ("attention",)),
        ("cosine of z and h", ("attention",)),
    ],
)
def test_a_row_has_no_weights_that_its_equation_lacks(equation, absent):
    (cell,) = (row[2] for row in ROWS if row[0] == equation)
    names = [name for name, _ in build(cell)[0].model.named_parameters()]
    assert not [name for name in names if any(part in name for part in absent)]
