"""What commands share: the application, what they say and how they read data."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import typer

from windlass.bundle import Bundle
from windlass.commands.searching import flag, search_options
from windlass.core.errors import RecipeError
from windlass.data.readers import DataOptions, ReadResult
from windlass.decoding.options import SearchOptions
from windlass.experiment.data import examples_of
from windlass.recipe import Recipe, parse

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)

NOTES = 5
"""How many lines of a kind are spoken of one by one."""


def say(text: str) -> None:
    """Tell the user something that is not a result.

    >>> say("")
    """
    if text:
        print(text, file=sys.stderr)


def columns(
    source: str | None, target: str | None, alignment: str | None, format: str | None, second: str | None = None
) -> dict[str, Any]:
    """What a user said of a file's columns, and nothing else.

    >>> columns("2", None, None, "csv")
    {'source': '2', 'format': 'csv'}
    """
    given = {"source": source, "target": target, "alignment": alignment, "format": format, "second": second}
    return {key: value for key, value in given.items() if value is not None}


def reading(columns: dict[str, Any], base: Recipe | None = None) -> DataOptions:
    """How to read a file: as a recipe says, or as told.

    >>> reading({"source": "2"}).source
    2
    """
    own = {} if base is None else base.data.model_dump(mode="json", include=set(DataOptions.model_fields))
    whole = {} if base is None else base.model_dump(mode="json")
    return parse(whole | {"data": own | columns}, "options").data


def load_bundles(folder: Path, also: list[Path] | None, device: str) -> list[Bundle]:
    """A model, and the others of its ensemble.

    >>> load_bundles(Path("no-such-folder"), None, "cpu")
    Traceback (most recent call last):
    windlass.core.errors.BundleError: no-such-folder: no such folder
    """
    return [Bundle.load(path, device) for path in (folder, *(also or []))]


def read_for(bundle: Bundle, file: str, columns: dict[str, Any]) -> ReadResult:
    """Read data the way the model's own data was read, unless told otherwise, and say what is wrong with it.

    >>> callable(read_for)
    True
    """
    result = examples_of(bundle.recipe, file, reading(columns, bundle.recipe))
    for finding in result.findings[:NOTES]:
        say(str(finding))
    if len(result.findings) > NOTES:
        say(f"and {len(result.findings) - NOTES} more; see: windlass doctor {file}")
    return result


def search_for(bundle: Bundle, kind: str | None, **given: Any) -> SearchOptions | None:
    """The search that a user asks for, laid over the model's own; None for a model that writes no text.

    >>> callable(search_for)
    True
    """
    if bundle.recipe.search is not None:
        return search_options(bundle.recipe.search, kind=kind, **given)
    told = [flag(name) for name, value in {"kind": kind, **given}.items() if value is not None]
    if told:
        raise RecipeError(f"{told[0]} has no use here: this model gives {bundle.task.target}, and searches for nothing")
    return None
