"""Every registered part is held to the contracts, and every task's recipe and bundle come back from disk the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, get_args

import contract_parts
import pytest
import test_contracts_features
import test_contracts_heads
import test_contracts_levels

from windlass.bundle import Bundle
from windlass.core.options import Options, members
from windlass.data.sides import SOURCES, TARGETS, Sides, SourceOptions, TargetOptions
from windlass.experiment.data import sides_of
from windlass.inference.predict import predict, score
from windlass.model import ModelOptions
from windlass.recipe import Recipe, default, parse
from windlass.tasks import TASKS


def reachable(annotation: Any) -> Iterator[type[Options]]:
    """Every record of options that a recipe can put where this is."""
    if isinstance(annotation, type) and issubclass(annotation, Options):
        yield annotation
        for field in annotation.model_fields.values():
            yield from reachable(field.annotation)
    else:
        for part in get_args(annotation):
            yield from reachable(part)


def used(options: Options) -> Iterator[type[Options]]:
    """Every record of options in one."""
    yield type(options)
    for _, value in options:
        if isinstance(value, Options):
            yield from used(value)


def held() -> set[type[Options]]:
    """Every record of options in some model that contracts are held against."""
    models = [contract_parts.model_options(name) for name in contract_parts.VARIANTS]
    models += [recipe.model for recipe in test_contracts_heads.VARIANTS.values()]
    models += [recipe.model for recipe in test_contracts_features.VARIANTS.values()]
    models += [test_contracts_levels.model_options(name) for name in test_contracts_levels.VARIANTS]
    return {kind for model in models for kind in used(model)}


def test_every_part_of_a_model_is_in_some_model_that_the_contracts_hold_for():
    nothing_to_read = members(ModelOptions.model_fields["encoder"].annotation)["none"]  # see test_contracts_running.py
    missing = {kind.__qualname__ for kind in {*reachable(ModelOptions)} - held() - {nothing_to_read}}
    assert not missing, (
        f"no contract is held by {sorted(missing)}: let `tiny()` of these options, or of the part that they belong to, "
        "return a variant with them"
    )


def test_every_kind_of_side_has_a_class():
    assert members(SourceOptions).keys() == SOURCES.keys()
    assert members(TargetOptions).keys() <= TARGETS.keys()  # a tree is a text whose tokens are brackets
    for side in (*SOURCES.values(), *TARGETS.values()):
        fitted, values = side.tiny()
        assert len(values) >= 2, f"{side.__name__}.tiny() needs two values or more"
        assert all(fitted.read(fitted.options, value) == value for value in values)
        assert side.from_json(fitted.options, json.loads(json.dumps(fitted.to_json()))) == fitted


def small(options: Any) -> Any:
    """A recipe's model with few units, in plain data."""
    if isinstance(options, dict):
        return {key: small(value) for key, value in options.items()}
    return 8 if type(options) is int and options > 8 else options


def tiny_bundle(task: str) -> tuple[Bundle, tuple[Any, ...], tuple[Any, ...]]:
    """A model of the task's own recipe, small and untrained, with some sources and targets."""
    usual = default(task)
    recipe = parse({**usual, "model": small(usual["model"])})
    source, values = sides_of(recipe).source_side.tiny()
    target, answers = sides_of(recipe).target_side.tiny()
    return Bundle.new(recipe, Sides(source, target)), values, answers


@pytest.mark.parametrize("task", TASKS)
def test_a_recipe_and_a_bundle_come_back_the_same_and_predict_the_same(task, tmp_path):
    bundle, values, answers = tiny_bundle(task)
    bundle.save(tmp_path)
    again = Bundle.load(tmp_path)
    assert again.recipe == bundle.recipe == Recipe.from_yaml(bundle.recipe.to_yaml())
    assert again.sides == bundle.sides
    if bundle.task.language_model:
        pairs = [("", answer) for answer in answers]
    else:
        found = predict([bundle], values)
        assert predict([again], values) == found
        for prediction in found:  # also where the encoder joins places
            assert {len(row) for row in prediction.attention or ()} <= {len(prediction.places.names)}
        alone = [predict([again], [value])[0].text for value in values]
        assert alone == [prediction.text for prediction in found]
        pairs = [(value, p.text) for value, p in zip(values, found, strict=True)]
        if not bundle.sides.target.per_place:  # several taggers go by marginals, one by whole sequences
            both = predict([bundle, again], values)
            assert [(p.text, p.answer.kind) for p in both] == [(p.text, p.answer.kind) for p in found]
    assert score(again, pairs) == score(bundle, pairs)
