"""Compose the recipe of an experiment from its data: the task, and the columns it reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from windlass.core.errors import DataError, RecipeError
from windlass.core.fitting import Gives
from windlass.data.column_sample import ColumnSample, Recognised
from windlass.data.examples import Example
from windlass.data.files import STDIN, existing, lines, suffix
from windlass.data.findings import Findings
from windlass.data.frames import Frame
from windlass.data.recognise import recognise
from windlass.data.recognise_file import IN_ORDER, chosen, columns_there, has_columns, known_columns, recognise_file
from windlass.data.sheets import Column
from windlass.data.sniff import SAMPLE
from windlass.data.tables import ENDINGS, has_header, several
from windlass.experiment.data import in_python, sides_of
from windlass.recipe import Recipe, compose, merge, parse, recompose
from windlass.tasks import TASKS

_MARK, _APART = re.compile(r"[.,;:?!]"), re.compile(r"(?<!\S)[.,;:?!](?!\S)")
LETTERS = 4
"""The longest n-grams of letters."""


def compose_for(
    task: str | None, file: Path | None, settings: Sequence[dict[str, Any]], note: Callable[[str], None]
) -> Recipe:
    """Compose a recipe as `compose` does; a task that is not named and columns that are not chosen are recognised.

    What is recognised is noted, with the reason and how to say otherwise.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "reviews.csv"
    >>> _ = path.write_text("\\n".join(f"really {n} of 9,{'bad' if n < 5 else 'good'}" for n in range(40)))
    >>> compose_for(None, None, [{"data": {"train": [str(path)]}}], lambda text: print(text.split("/")[-1])).task
    reviews.csv: task classify, as column 2 holds 2 labels (good 35, bad 5); else: --task text
    'classify'
    """
    unnamed = task is None and file is None and not any("task" in part for part in settings)
    # Settings may be for a task that is still to be recognised.
    recipe = compose(task, file, [{"data": part.get("data", {})} for part in settings] if unnamed else settings)
    if not recipe.data.train:
        return recipe
    first = recipe.data.train[0]
    if unnamed:
        for path in several(first):
            if path != STDIN and not Path(path).is_dir():
                existing(path)
        found, why = _agreed(lambda: recognise_file(first, recipe.data), settings)
        note(f"{first}: {why}")
        if found.task == "lm" and (told := _line_parallel(recipe.data.train, recipe.data.encoding)):
            note(f"{told}; read as running text")
        task, recipe = found.task, compose(found.task, None, [*settings, {"data": dict(found.data)}])
    named, rivals = not unnamed or not found.reason, tuple[Column, ...]()
    if named and not _all_chosen(recipe) and not TASKS[recipe.task].language_model and not TASKS[recipe.task].turns:
        columns, rivals = known_columns(first, recipe.data, sides_of(recipe), TASKS[recipe.task].target)
        recipe = compose(task, file, [*settings, {"data": columns}])
    _note_columns(first, recipe, "columns", note, rivals)
    return recipe


def _line_parallel(files: Sequence[str], encoding: str | None) -> str | None:
    """Two files of running text that look like line-parallel text, and how to say so: as many lines, other suffixes."""
    if len(files) != 2 or STDIN in files or suffix(files[0]) == suffix(files[1]):
        return None
    if max(map(len, map(several, files))) > 1 or any(Path(file).is_dir() for file in files):
        return None
    here, there = (sum(1 for _ in lines(file, Findings(), encoding)) for file in files)
    both = f"{files[0]} and {files[1]} have {here:,} lines each: for a translation give {','.join(files)}"
    return both if here == there > 1 else None


def recompose_for(
    recipe: Recipe, settings: Sequence[dict[str, Any]], note: Callable[[str], None], frame: Frame | None = None
) -> Recipe:
    """Compose the recipe of a model for other data, as `recompose` does, with the columns that the model reads.

    If a file, or a `frame`, has no such columns, they are recognised. Both are noted.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "new.csv"
    >>> _ = path.write_text("id,form,sound\\n1,cat,k a t\\n2,dog,d o g\\n")
    >>> model = compose("pronounce", None, [{"data": {"source": "form", "target": "sound"}}])
    >>> note = lambda text: print(text.split("/")[-1])
    >>> recompose_for(model, [{"data": {"train": [str(path)]}}], note).data.source
    new.csv: columns of the model: source 'form', target 'sound'; else: --header no, --source, --target
    'form'
    """
    new = recompose(recipe, settings)
    before = {} if TASKS[recipe.task].language_model else chosen(recipe.data)
    kept: dict[str, Any] = {name: getattr(recipe.data, name) for name in ("history", "speaker", "max_length")}
    if frame is not None:
        there = frame.names is not None and has_columns(before, frame.names, len(frame.names))
        return recompose(recipe, [{"data": kept | (before if there else {})}, *settings])
    if not new.data.train:
        return new
    first = new.data.train[0]
    if new.data.format == "auto" and suffix(first) not in ENDINGS:
        kept["format"] = recipe.data.format
    options = new.data.model_copy(update=kept)
    if {*before} <= {*chosen(new.data)} or not columns_there(first, options, sides_of(recipe), before):
        return _recognised_anew(recipe, settings, kept, before, note)
    new = recompose(recipe, [{"data": kept | before}, *settings])
    _note_columns(first, new, "columns of the model", note)
    return new


def _recognised_anew(
    recipe: Recipe,
    settings: Sequence[dict[str, Any]],
    kept: dict[str, Any],
    before: dict[str, Column],
    note: Callable[[str], None],
) -> Recipe:
    """The recipe of a model for a file without the columns that it reads."""
    new = recompose(recipe, [{"data": kept}, *settings])
    first, task = new.data.train[0], TASKS[recipe.task]
    if _all_chosen(new) or task.language_model or task.turns:
        return new
    columns, rivals = known_columns(first, new.data, sides_of(new), task.target)
    if columns and (lost := [repr(column) for column in before.values() if isinstance(column, str)]):
        note(f"{first}: no columns {', '.join(lost)}, which the model reads")
    new = recompose(recipe, [{"data": kept}, *settings, {"data": columns}])
    _note_columns(first, new, "columns", note, rivals)
    return new


def _note_columns(
    file: str, recipe: Recipe, what: str, note: Callable[[str], None], rivals: Sequence[Column] = ()
) -> None:
    """Say which columns are read, unless they are the first ones."""
    columns = chosen(recipe.data)
    if tuple(columns.values()) in IN_ORDER:
        return
    told = ", ".join(f"{part} {column!r}" for part, column in columns.items())
    named = any(isinstance(column, str) for column in columns.values())
    header = "--header no, " if named and has_header(file, recipe.data) else ""
    note(f"{file}: {what}: {told}; else: {header}--source, --target{_told_rivals(rivals)}")


def _told_rivals(rivals: Sequence[Column]) -> str:
    """Name the other columns that could be the target."""
    told = " and ".join(map(repr, rivals[:3])) + (" ..." if len(rivals) > 3 else "")
    return f"; {told} could be the target too: choose with --target" if rivals else ""


def _all_chosen(recipe: Recipe) -> bool:
    """Whether nothing is left to be recognised."""
    return len(chosen(recipe.data)) > sides_of(recipe).source_side.texts


def recognise_frame(
    frame: Frame, columns: dict[str, int | str], settings: Sequence[dict[str, Any]], note: Callable[[str], None]
) -> str | None:
    """Recognise the task of data in memory; None if the settings say which it is.

    Columns are chosen by `columns`, or by settings such as `data.target`.

    >>> from windlass.data.frames import as_frame
    >>> rows = as_frame([(f"{n} stars", "good" if n > 3 else "bad") for n in range(20)])
    >>> recognise_frame(rows, {}, [], print)
    task classify, as column 2 holds 2 labels (good 16, bad 4); else: task="text"
    'classify'
    """
    if any("task" in part for part in settings) or not frame.rows:
        return None

    def look() -> Recognised:
        return _recognise_rows(frame, _columns_set(settings) | columns)

    try:
        found, why = _agreed(look, settings)
    except DataError as error:
        raise DataError(in_python(str(error))) from None
    note(in_python(why))
    return found.task


def _columns_set(settings: Sequence[dict[str, Any]]) -> dict[str, int | str]:
    """The columns that settings choose."""
    found = {}
    for own in settings:
        for part, column in (own["data"] if isinstance(own.get("data"), dict) else {}).items():
            if part in ("source", "second", "target") and isinstance(column, int | str):
                found[part] = column
    return found


def _recognise_rows(frame: Frame, columns: dict[str, int | str]) -> Recognised:
    """The task of data in memory."""
    width = max(map(len, frame.rows))
    names: Sequence[str | None] = frame.names or frame.integers or [None] * width
    if width == 1:
        return Recognised("lm", {}, "it holds texts alone")
    cells = ([row[n] if n < len(row) else None for row in frame.rows[:SAMPLE]] for n in range(width))
    named = zip(names, cells, strict=True)
    samples = [ColumnSample(n, *column, Path()) for n, column in enumerate(named, 1)]
    if frame.names is None and width == 2:
        columns = {"source": 1, "target": 2, **columns}  # pairs have an order
    return recognise(samples, "data", columns)


def _agreed(look: Callable[[], Recognised], settings: Sequence[dict[str, Any]]) -> tuple[Recognised, str]:
    """What is recognised, and a sentence with the reason; text to text if settings ask for it and fit nothing else."""
    writes = _writes(settings)
    try:
        found = look()
    except DataError:
        if writes is None:
            raise
        return Recognised("text", {}, ""), f"task text, as {writes} is set"
    otherwise = f"; else: --task {' or '.join(found.alternatives)}" if found.alternatives else ""
    if writes is not None:
        others = (*found.alternatives, "text") if found.alternatives else ()  # else the file can be nothing else
        fitting = [task for task in (found.task, *others) if _fits(task, settings)]
        if fitting and fitting[0] != found.task:
            instead = f"task {fitting[0]}, as {writes} is set; without it: {found.task}, as {found.reason}"
            return Recognised(fitting[0], {}, ""), instead
    return found, f"task {found.task}, as {found.reason}{otherwise}{_told_rivals(found.rivals)}"


def adapt_tokens(
    recipe: Recipe, examples: Sequence[Example], settings: Sequence[dict[str, Any]], note: Callable[[str], None]
) -> Recipe:
    """Let a model that would read words read characters, if its texts are single words, which it would not know.

    If the texts are tokenised already, words end at spaces.

    >>> from windlass.experiment.data import as_data
    >>> recipe = compose("classify", None)
    >>> names = as_data([("Ivanova", "ru"), ("Rossi", "it"), ("Petrov", "ru")], [("Bianchi", "it")], recipe)
    >>> adapt_tokens(recipe, names.train, [], print).source.tokens.kind
    source: characters and their n-grams, as texts are single words; else: --set source.tokens=words
    'characters'
    """
    given = list(recipe.source.declare("source"))
    words = Gives("source pieces", "words") in given and Gives("source sequence") in given
    if not words or sides_of(recipe).source_side.texts > 1 or any("source" in part for part in settings):
        return recipe
    sample = examples[:SAMPLE]
    content = recipe.model_dump(mode="json")
    marks = sum(len(_MARK.findall(e.text)) for e in sample)
    apart = sum(len(_APART.findall(e.text)) for e in sample)
    if marks and apart > 0.9 * marks and content["source"]["tokens"]["cut"] == "punctuation":
        note("source: words between spaces, as punctuation stands apart; else: --set source.tokens.cut=punctuation")
        content = merge(content, {"source": {"tokens": {"cut": "spaces"}}})
        recipe = parse(content)
    if not sample or sum(len(e.text.split()) for e in sample) > 1.5 * len(sample):
        return recipe
    ngrams = getattr(recipe.source, "ngrams", 0)
    grams = " and their n-grams" if ngrams else ""
    note(f"source: characters{grams}, as texts are single words; else: --set source.tokens=words")
    content = without_svm(recipe).model_dump(mode="json")  # its features are of words in a text
    return parse(merge(content, {"source": {"tokens": "characters", "ngrams": LETTERS if ngrams else 0}}))


def without_svm(recipe: Recipe) -> Recipe:
    """The same without a support vector machine beside the network, if there is one.

    >>> from windlass.recipe import compose
    >>> without_svm(compose("classify", None)).model.head.svm is None
    True
    """
    if getattr(recipe.model.head, "svm", None) is None:
        return recipe
    content = merge(recipe.model_dump(mode="json"), {"source": {"sparse": []}})
    content["model"]["head"]["svm"] = None
    return parse(content)


def _fits(task: str, settings: Sequence[dict[str, Any]]) -> bool:
    """Whether a task has the options that settings name."""
    try:
        compose(task, None, settings)
    except RecipeError:
        return False
    return True


def _writes(settings: Sequence[dict[str, Any]]) -> str | None:
    """The first setting that only writing text has."""
    for part in settings:
        if "search" in part:
            return "search"
        for side, key in (("model", "decoder"), ("target", "tokens")):
            if isinstance(own := part.get(side), dict) and key in own:
                return f"{side}.{key}"
    return None
