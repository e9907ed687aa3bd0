"""A recipe that nobody could mean is refused in one short line that names the key."""

from __future__ import annotations

import math
from typing import Any

import pytest

from windlass.bundle import Bundle
from windlass.core.errors import RecipeError
from windlass.core.options import Options, members, options_class
from windlass.data.sides import Sides
from windlass.recipe import Recipe, compose, default, parse, setting
from windlass.recipe.recipe import read_yaml


def floats(owner: type[Options], at: str = "") -> list[tuple[str, type[Options], str]]:
    """Every float of a recipe: its key, the options that hold it, and its name there."""
    found = []
    for name, field in owner.model_fields.items():
        if inner := options_class(field.annotation):
            found += floats(inner, f"{at}{name}.")
        for options in {*members(field.annotation).values()} if not inner else ():
            found += floats(options, f"{at}{name}.")
        if "float" in str(field.annotation) and not inner:
            found.append((f"{at}{name}", owner, name))
    return found


FLOATS = {(owner, name): key for key, owner, name in floats(Recipe)}


def test_many_keys_are_floats():
    assert len(FLOATS) > 15


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_no_float_is_nan_or_infinite(value):
    taken = []
    for owner, name in FLOATS:
        try:
            owner.model_validate({name: value})
        except ValueError as error:
            if (name,) in {one["loc"][:1] for one in error.errors()}:  # type: ignore[attr-defined]
                continue
        taken.append(f"{owner.__qualname__}.{name}")
    assert not taken


LONG = "x" * 5000
BAD: dict[str, tuple[Any, str]] = {
    "not a number": ({"train": {"optimiser": {"kind": "adam", "lr": math.nan}}}, "train.optimiser.lr: "),
    "a seed beyond any machine": ({"seed": 10**30}, "seed: input should be less than"),
    "more digits than Python writes": ({"seed": 10**5000}, "seed: "),
    "a task of thousands of characters": ({"task": LONG}, "task: "),
    "a value of thousands of characters": ({"train": {"epochs": LONG}}, "train.epochs: "),
    "a kind of thousands of characters": ({"search": LONG}, "search: unknown kind"),
    "a key of thousands of characters": ({LONG: 1}, "xxx: unknown key"),
    "a long list": ({"train": {"epochs": list(range(10_000))}}, "train.epochs: "),
    "a metric of thousands of characters": ({"choose_by": LONG}, "choose_by: "),
    "a key that is a number": ({"train": {7: 1}}, "train.7: "),
    "too many layers": ({"model": {"encoder": {"kind": "recurrent", "layers": 10**9}}}, "model.encoder.layers: "),
    "a width beyond any machine": (
        {"model": {"encoder": {"kind": "convolution", "widths": [3, 10**30]}}},
        "model.encoder.widths: at most",
    ),
    "an endless output": ({"search": {"kind": "beam", "length_plus": 10**9}}, "search.length_plus: "),
    "a beam beyond any machine": ({"search": {"kind": "beam", "size": 10**9}}, "search.size: "),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_value_is_refused_by_its_key_in_a_short_line(case):
    content, said = BAD[case]
    with pytest.raises(RecipeError) as caught:
        parse(content)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 600
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["[" * 10_000, "{a: " * 5000, "seed: " + "9" * 5000, "a: 2001-99-99", "a: 1\n b"])
def test_yaml_that_cannot_be_read_is_refused_in_one_line(text):
    with pytest.raises(RecipeError) as caught:
        Recipe.from_yaml(text, "mine.yaml")
    assert str(caught.value).startswith("mine.yaml: ")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_task_that_is_no_name_is_refused(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("task: [tag]")
    with pytest.raises(RecipeError, match="no task"):
        compose(None, file)
    with pytest.raises(RecipeError, match="not valid YAML"):
        setting("seed=" + "9" * 5000)


@pytest.mark.parametrize("size", [10**8, 10**15])
@pytest.mark.parametrize("key", ["encoder", "decoder"])
def test_a_model_beyond_the_memory_is_refused_before_it_is_built(size, key):
    content = default("text")
    content["model"]["tie"] = "none"
    content["model"][key]["size"] = size
    with pytest.raises(RecipeError, match=r"this model needs .* and this machine has"):
        Bundle.new(parse(content), Sides.tiny())


def test_control_characters_of_a_value_are_shown(tmp_path):
    with pytest.raises(RecipeError) as caught:
        parse(read_yaml('"a\\e[2J": 1', "mine.yaml"))
    assert "\x1b" not in str(caught.value)
    assert r"\x1b[2J: unknown key" in str(caught.value)
