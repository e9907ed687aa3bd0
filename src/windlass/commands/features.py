"""The command `features`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from windlass.commands import flags
from windlass.commands.shared import MAX_NOTES, app, columns, say
from windlass.core.errors import DataError, WindlassError

if TYPE_CHECKING:
    from windlass.data.readers import DataOptions
    from windlass.data.sides import SourceSide
    from windlass.recipe import Recipe


@app.command("features")
def features_command(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE", help="folders, pictures, clips, sounds, lists of their names, or tables", show_default=False
        ),
    ],
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="folder of the store; default: one in the user's cache")
    ] = None,
    cnn: Annotated[
        str | None, typer.Option(metavar="NAME", help="lite0, timm:NAME or torchvision:NAME; default: the task's")
    ] = None,
    task: Annotated[
        str | None, typer.Option(metavar="NAME", help="task whose features these are; default: by the kind of files")
    ] = None,
    set_: flags.Settings = None,
    source: flags.Source = None,
    format: flags.Format = None,
    header: flags.Header = None,
    separator: flags.Separator = None,
    encoding: flags.Encoding = None,
    json_: flags.Json = False,
    quiet: flags.Quiet = False,
) -> None:
    """Compute the features of pictures, clips or sounds once.

    A CNN (or, for sounds, a log-mel filter bank) runs over all files, and a store keeps what it gives. What is there
    already is kept, so that a run that was stopped can be repeated. Training uses the store with
    `--set source.store=DIR`, and that in the cache without a word. A file that cannot be read is named on stderr; the
    exit code is then 1.
    """
    from windlass.core.wording import counted
    from windlass.data.sides import SOURCES
    from windlass.data.sides.media import MediaSource
    from windlass.recipe import compose, override, setting
    from windlass.training.observe import Observer, Silent
    from windlass.training.progress import RichProgress

    observer: Observer = Silent() if quiet or json_ else RichProgress()
    settings = [setting(text) for text in set_ or []]
    over = columns(source, None, None, format, None, header, separator, encoding)
    settings += [override(key, value) for key, value in {"source.cnn": cnn, "source.store": out}.items() if value]
    recipe = compose(task or _task(files, over), None, [{"data": over}, *settings])
    side = SOURCES[recipe.source.kind].fit(recipe.source, ())
    if not isinstance(side, MediaSource):
        raise WindlassError(f"task {recipe.task} reads {recipe.source.kind}: features are of pictures, clips or sounds")
    failed: dict[str, str] = {}
    values = list(dict.fromkeys(_values(files, side, recipe, failed)))
    before = len(side.store())
    failed |= side.prepare(values, observer.note, observer.track)[1]
    store = side.store()
    size = store.rows * store.row_bytes
    content = {
        "store": str(store.folder),
        "files": len(values),
        "new": len(store) - before,
        "failed": failed,
        "items": len(store),
        "rows": store.rows,
        "shape": list(store.shape),
        "dtype": str(store.dtype),
        "bytes": size,
        "identity": side.identity,
    }
    for text in [*failed.values()][:MAX_NOTES]:
        say(text)
    if len(failed) > MAX_NOTES:
        say(f"and {len(failed) - MAX_NOTES} more that cannot be read")
    if json_:
        print(json.dumps(content, ensure_ascii=False))
    else:
        shape = " x ".join(map(str, store.shape))
        print(
            f"{store.folder}: {counted(len(store), side.what)} ({content['new']:,} new), {store.rows:,} rows of "
            f"{shape} numbers, {size / 1e6:,.1f} MB; by {side.identity}"
        )
    if failed:
        raise typer.Exit(1)


def _task(files: list[str], over: dict[str, object]) -> str:
    """A task whose source is the kind of these files."""
    from windlass.data.recognise_source import FILE_TASKS

    for file in files:
        kind = _kind(file, over)
        if kind in FILE_TASKS and kind != "numbers":
            return FILE_TASKS[kind].label
    raise DataError(f"{files[0]}: no pictures, clips or sounds: name others, or --task")


def _kind(file: str, over: dict[str, object]) -> str | None:
    """The kind of source that a file is, or that it names."""
    from windlass.commands.shared import data_options
    from windlass.data import folders, tables
    from windlass.data.column_sample import ColumnSample
    from windlass.data.files import lines, suffix
    from windlass.data.findings import Findings
    from windlass.data.recognise_file import samples
    from windlass.data.sides import SOURCES

    path = Path(file)
    kinds = [kind for kind, side in SOURCES.items() if side.extensions and kind != "numbers"]
    if path.is_dir():
        if SOURCES["video"].holds(path):
            return "picture"
        counts = {kind: sum(1 for _ in folders.walk(path, SOURCES[kind])) for kind in kinds}
        return max(counts, key=lambda kind: counts[kind]) if any(counts.values()) else None
    for kind in kinds:
        if SOURCES[kind].holds(path):
            return kind
    options = data_options(dict(over))
    if suffix(file) in tables.ENDINGS or options.format != "auto":
        chosen = [c for c in samples(file, options) if options.source in (None, c.name, c.number)]
    else:
        texts = [text.strip() for _, text in lines(file, Findings(), options.encoding)]
        chosen = [ColumnSample(1, None, texts, path.parent)]
    return next((c.files or c.named_files for c in chosen if c.named_files or c.files), None)


def _values(files: list[str], side: SourceSide, recipe: Recipe, failed: dict[str, str]) -> Iterator[str]:
    """The names of all files, found; those that are missing are told."""
    from windlass.commands.inputs import read_files

    for file in files:
        options = _with_column(file, side, recipe)
        asked = () if options.source is None else ("source",)
        for item in read_files([file], side, options, asked, say):
            if item.error:
                failed[str(item.text)] = item.error
            elif item.value:
                yield item.value


def _with_column(file: str, side: SourceSide, recipe: Recipe) -> DataOptions:
    """The data options with the column of a table that names files."""
    from windlass.data import tables
    from windlass.data.files import suffix
    from windlass.data.recognise_file import samples

    options = recipe.data
    if options.source is not None or Path(file).is_dir() or suffix(file) not in tables.ENDINGS:
        return options
    kind = side.options.kind
    found = [c for c in samples(file, options) if c.files == kind] or [
        c for c in samples(file, options) if c.named_files == kind
    ]
    if len(found) != 1:
        raise DataError(f"{file}: {'several columns name' if found else 'no column names'} files: choose with --source")
    return options.model_copy(update={"source": found[0].column})
