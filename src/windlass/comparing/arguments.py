"""What `windlass.compare` is given in Python: candidates, and the data in memory that they are trained on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from windlass.comparing.candidates import (
    Candidate,
    Variation,
    assign_groups,
    candidates,
    data_key,
    parse_vary,
    recipes_and_data,
)
from windlass.core.errors import DataError, RecipeError, WindlassError
from windlass.data.frames import Frame, as_frame
from windlass.experiment.arguments import Rows, by_names_of, check_in_memory
from windlass.experiment.data import (
    Data,
    as_data,
    as_examples,
    choose_columns,
    describe_columns,
    describe_skipped,
    with_columns,
)
from windlass.experiment.recognise import recognise_frame
from windlass.recipe import Recipe, override


def from_python(
    recipes: Mapping[str, Recipe] | str | Path | Sequence[str | Path] | Rows,
    train: str | Path | Rows | None,
    dev: str | Path | Rows | None,
    test: str | Path | Sequence[str | Path] | Mapping[str, str | Path] | Rows | None,
    task: str | None,
    vary: Mapping[str, str | Iterable[Any]],
    settings: Mapping[str, Any],
    columns: Mapping[str, int | str],
    note: Callable[[str], None] = lambda text: None,
) -> tuple[list[Candidate], dict[str, Data]]:
    """Return the candidates, and data in memory by their keys; see `windlass.compare`.

    >>> pairs = [("ab", "ba"), ("ba", "ab")] * 9
    >>> named, data = from_python(pairs, None, None, None, "text", {"train.epochs": "1,2"}, {}, {})
    >>> [candidate.name for candidate in named], len(data)
    (['epochs=1', 'epochs=2'], 1)
    """
    if isinstance(recipes, Mapping) and any(isinstance(value, Recipe | str | Path) for value in recipes.values()):
        if vary or settings or columns or any(part is not None for part in (task, train, dev)):
            raise WindlassError("recipes by name are complete: leave out train, dev, task, vary, settings and columns")
        return _by_name(recipes, test), {}
    first: Any = [recipes] if isinstance(recipes, str | Path) else recipes
    files, data = recipes_and_data(first if _are_files(first) else ())
    if not _are_files(first):
        if train is not None:
            raise WindlassError("the first argument and train are both training data: name validation data, dev=...")
        train = first
    frame = None if train is None or isinstance(train, str | Path) else as_frame(train, "train")
    if frame is not None and not frame.rows:
        raise DataError("train has no rows: give at least one example")
    if frame is not None and data:
        raise WindlassError(f"{data[0]} and train are both training data: give files, or data in memory")
    if dev is not None and isinstance(dev, str | Path) == (frame is not None):
        raise TypeError("give train and dev both as files, or neither")
    variations = _variations(vary)
    own = [override(name, value) for name, value in settings.items()]
    if frame is not None:
        check_in_memory([*own, *(override(key, values[0]) for keys, values in variations for key in keys)])
        own, variations = by_names_of(frame, own), [_by_names(frame, *variation) for variation in variations]
        columns = {part: choice for part, column in columns.items() if (choice := frame.choice(column)) is not None}
        varied = [override(key, values[0]) for keys, values in variations for key in keys]
    over: dict[str, Any] = dict(columns) if frame is None else {"train": [], "dev": None}
    if isinstance(train, str | Path):
        data.append(str(train))
    if data:
        over["train"] = data
    if isinstance(dev, str | Path):
        over["dev"] = str(dev)
    if frame is not None and task is None and not files:
        task = recognise_frame(frame, dict(columns), [*own, *varied], note)
    texts = frame is not None and all(len(row) == 1 for row in frame.rows)
    tests = _tests(test, texts)
    named = candidates(files, task, [{"data": over}, *own], variations, tests if isinstance(tests, list) else (), note)
    in_memory: dict[str, Data] = {}
    if frame is not None:
        named = [
            replace(c, recipe=choose_columns(with_columns(c.recipe, columns, frame), frame), error=None) for c in named
        ]
        in_memory = _read(named, frame, None if dev is None else as_frame(dev, "dev"), note)
    return (named if isinstance(tests, list) else _tested(named, tests)), in_memory


def _are_files(items: object) -> bool:
    return isinstance(items, Sequence) and all(isinstance(item, str | Path) for item in items)


def _by_name(recipes: Mapping[str, Recipe], test: Any) -> list[Candidate]:
    for name, recipe in recipes.items():
        if not isinstance(recipe, Recipe):
            raise WindlassError(f"recipes: {name!r} is {type(recipe).__name__}, not a Recipe: give files as a list")
    named = [Candidate(name, recipe) for name, recipe in recipes.items()]
    if isinstance(test, Mapping) and _are_files([*test.values()]):
        tests = {name: str(file) for name, file in test.items()}
    elif isinstance(found := _tests(test, False), Frame):
        return _tested(assign_groups(named), found)
    elif len(found) in (0, 1, len(named)):
        tests = dict(zip(recipes, found * len(named) if len(found) == 1 else found, strict=False))
    else:
        raise WindlassError(f"{len(found)} test files for {len(named)} recipes: give one for all, or one for each")
    for name in tests:
        if name not in recipes:
            raise WindlassError(f"a test file for {name!r}, but there is no recipe of this name")
    return assign_groups([replace(c, test=tests.get(c.name)) for c in named])


def _variations(vary: Mapping[str, str | Iterable[Any]]) -> list[Variation]:
    example = 'as in vary={"model.encoder.cell": ["gru", "lstm"]}'
    if not isinstance(vary, Mapping):
        raise RecipeError(f"vary is {type(vary).__name__}: give a dict of options and their values, {example}")
    found = []
    for key, values in vary.items():
        if isinstance(values, str) and values.strip():
            found.append(parse_vary(f"{key}={values}"))
            continue
        if isinstance(values, str | Mapping) or not isinstance(values, Iterable) or not (listed := tuple(values)):
            raise RecipeError(f"vary: {key} is {values!r}: give a list of values, {example}")
        found.append((tuple(part.strip() for part in str(key).split("+")), listed))
    return found


def _by_names(frame: Frame, keys: tuple[str, ...], values: tuple[Any, ...]) -> Variation:
    """A variation that chooses columns, if it does, as settings do."""
    if not any(key in ("data.source", "data.target", "data.second") for key in keys):
        return keys, values
    return keys, tuple(frame.choice(value, "train") for value in values)


def _tests(test: Any, texts: bool) -> list[str] | Frame:
    """Files to test on, or data in memory, which may be `texts`."""
    if test is None:
        return []
    if isinstance(test, str | Path):
        return [str(test)]
    if isinstance(test, Mapping) and _are_files([*test.values()]):
        raise WindlassError("test files by name need recipes by name: give one file for all, or one for each recipe")
    if _are_files(test) and not texts:
        return [str(file) for file in test]
    return as_frame(test, "test")


def _tested(named: Sequence[Candidate], test: Frame) -> list[Candidate]:
    """The candidates with data in memory to test on, which are read once to find errors before training."""
    for recipe in {data_key(c.recipe): c.recipe for c in named if c.error is None}.values():
        as_examples(test, "test", recipe)
    return [replace(c, test=test) for c in named]


def _read(named: Sequence[Candidate], train: Frame, dev: Frame | None, note: Callable[[str], None]) -> dict[str, Data]:
    found = {}
    for key, recipe in {data_key(c.recipe): c.recipe for c in named}.items():
        found[key] = as_data(train, dev, recipe)
        if told := describe_columns(recipe, train):
            note(told)
        if skipped := describe_skipped(found[key].report.findings):
            note(skipped)
    return found
