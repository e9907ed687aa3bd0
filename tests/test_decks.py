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
from windlass.recipe import compose, override, parse

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


def small(options: Any) -> Any:
    if isinstance(options, dict):
        return {key: small(value) for key, value in options.items()}
    return 8 if type(options) is int and options > 8 else options


@pytest.mark.parametrize(("equation", "cell"), [(row[0], row[2]) for row in ROWS], ids=[row[2] for row in ROWS])
def test_a_row_of_the_table_is_a_model_that_runs(equation, cell):
    given = settings(cell)
    task = given.pop("task", "text")
    recipe = compose(task, None, [override(key, value) for name, value in given.items() for key in keys(name)])
    if "vectors" in cell or "alignment" in cell:  # these need files
        return
    model = small(recipe.model.model_dump(mode="json"))
    if "with an encoder" in equation:
        del model["decoder"]["embedding"]  # not used
    recipe = parse({**recipe.model_dump(mode="json"), "model": model})
    sides = Sides(sides_of(recipe).source_side.tiny()[0], sides_of(recipe).target_side.tiny()[0])
    (sources, targets) = sides_of(recipe).source_side.tiny()[1], sides_of(recipe).target_side.tiny()[1]
    pairs = list(zip(sources, targets, strict=False))
    assert len(score(Bundle.new(recipe, sides), pairs)) == len(pairs), equation
