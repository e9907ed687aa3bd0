"""Tables whose cells have keys: JSON lines and parquet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING

from windlass.core.errors import DataError, WindlassError, nearest
from windlass.data.files import existing, lines
from windlass.data.findings import Finding, Findings
from windlass.data.objects import Objects, objects
from windlass.data.sheets import MISSING, Column, Given, Sheet
from windlass.data.sniff import SAMPLE

if TYPE_CHECKING:
    from windlass.data.readers import DataOptions


def json_lines(name: str, options: DataOptions, found: Findings, notes: list[str]) -> Sheet:
    """Open a file of objects, whose keys are those of the first ones.

    >>> from windlass.data.readers import DataOptions
    >>> json_lines("no-such-file.jsonl", DataOptions(), Findings(), [])
    Traceback (most recent call last):
    windlass.core.errors.DataError: no-such-file.jsonl: no such file; ...
    """
    every = objects(name, lines(name, found, options.encoding))
    head = list(islice(every, SAMPLE))
    names = list(dict.fromkeys(key for _, value in head if isinstance(value, dict) for key in value))
    return of_objects(name, chain(head, every), names, notes)


def of_objects(name: str, every: Objects, names: Sequence[str], notes: list[str]) -> Sheet:
    """The table of objects whose keys are `names`.

    >>> list(of_objects("a.jsonl", iter([(1, {"word": "cat"})]), ["word"], []).read({"source": 1}))
    [(1, {'source': 'cat'})]
    """

    def rows(columns: Mapping[str, Column]) -> Iterator[Given]:
        keys = _named_keys(name, names, columns, notes) if names else {}
        for line, value in every:
            if isinstance(value, Finding):
                yield line, value
            else:
                yield line, {part: value.get(key, MISSING) for part, key in keys.items()}

    return Sheet("jsonl", name, names, rows, len(names), notes)


def _named_keys(
    name: str, names: Sequence[str], columns: Mapping[str, Column], notes: list[str] | None
) -> dict[str, str]:
    """The keys of the columns; a number is a place among the keys, or in the schema."""
    keys: dict[str, str] = {}
    for part, column in columns.items():
        if isinstance(column, int) and column > len(names):
            count = "there is 1" if len(names) == 1 else f"there are {len(names)}"
            raise DataError(f"{name}: no column {column}; {count}: {', '.join(names)}")
        keys[part] = names[column - 1] if isinstance(column, int) else column
    if (
        notes is not None
        and {"source", "target"} <= keys.keys()
        and any(isinstance(column, int) for column in columns.values())
    ):
        beside = f", the second text {keys['second']!r}" if "second" in keys else ""
        notes.append(
            f"{name}: the source is {keys['source']!r}{beside} and the target {keys['target']!r}, by their order"
        )
    return keys


def parquet(name: str, options: DataOptions, found: Findings, notes: list[str]) -> Sheet:
    """Open a parquet file, which has a schema.

    >>> from windlass.data.readers import DataOptions
    >>> parquet("no-such-file.parquet", DataOptions(), Findings(), [])
    Traceback (most recent call last):
    windlass.core.errors.DataError: no-such-file.parquet: no such file; ...
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise WindlassError(f"{name}: parquet needs pyarrow; pip install 'windlass[parquet]'") from error
    existing(name)

    def damaged(error: Exception) -> DataError:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        return DataError(f"{name}: not a parquet file, or a damaged one ({reason}); copy it again")

    try:
        names = list(pyarrow.parquet.read_schema(name).names)
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise damaged(error) from error

    def rows(columns: Mapping[str, Column]) -> Iterator[Given]:
        keys = _named_keys(name, names, columns, notes)
        for key in keys.values():
            if key not in names:
                raise DataError(f"{name}: no column is called {key!r}; {nearest(key, names, ordered=True)}")
        try:
            with pyarrow.parquet.ParquetFile(name) as file:
                number = 0
                for batch in file.iter_batches(columns=list(dict.fromkeys(keys.values()))):
                    for value in batch.to_pylist():
                        number += 1
                        yield number, {part: value.get(key, MISSING) for part, key in keys.items()}
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            raise damaged(error) from error

    return Sheet("parquet", name, names, rows, len(names), notes)
