"""Compose the recipe of an experiment from its data: the task, and the columns it reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from windlass.data.recognise_file import chosen, known_columns, recognise_file
from windlass.experiment.data import sides_of
from windlass.recipe import Recipe, compose
from windlass.tasks import TASKS


def compose_for(
    task: str | None, file: Path | None, settings: Sequence[dict[str, Any]], note: Callable[[str], None]
) -> Recipe:
    """Compose a recipe as `compose` does; a task that is not named and columns that are not chosen are recognised.

    What is recognised is noted, with the reason and how to say otherwise.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "reviews.csv"
    >>> _ = path.write_text("\\n".join(f"really {n} of 9,{'bad' if n < 5 else 'good'}" for n in range(40)))
    >>> compose_for(None, None, [{"data": {"train": [str(path)]}}], lambda text: print(text.split("/")[-1])).task
    reviews.csv: task classify, as column 2 holds 2 labels, each some 20 times; else: --task text
    'classify'
    """
    recipe = compose(task, file, settings)
    if not recipe.data.train:
        return recipe
    first = recipe.data.train[0]
    if task is None and file is None and not any("task" in part for part in settings):
        found = recognise_file(first, recipe.data)
        otherwise = f"; else: --task {' or '.join(found.alternatives)}" if found.alternatives else ""
        note(f"{first}: task {found.task}, as {found.reason}{otherwise}")
        recipe = compose(found.task, None, [*settings, {"data": dict(found.data)}])
    elif not chosen(recipe.data) and not TASKS[recipe.task].language_model and not TASKS[recipe.task].turns:
        columns = known_columns(first, recipe.data, sides_of(recipe), TASKS[recipe.task].target)
        recipe = compose(task, file, [*settings, {"data": columns}])
    columns = chosen(recipe.data)
    if tuple(columns.values()) not in ((), (1, 2), (1, 2, 3)):
        told = ", ".join(f"{part} {column!r}" for part, column in columns.items())
        note(f"{first}: columns: {told}; else: --source, --target")
    return recipe
