"""Data in memory as rows of cells: data frames, Arrow tables, columns, dicts, pairs, arrays and iterators.

Data frames are recognised by their methods, so that neither pandas nor polars nor pyarrow is imported.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from windlass.core.errors import DataError, nearest
from windlass.data.column_groups import check_apart, columns_of, gathered, joined, spread

Row = tuple[object, ...]
Columns = Mapping[str, int | str | None]
"""The columns of the parts of an example (source, second, target), by name or by number from 1; None: not chosen."""

EXPECTED = "give pairs of a source and a target, a data frame, a list of dicts, or a dict of columns"
_IDS = frozenset({"", "id", "idx", "index", "uid", "uuid", "guid", "rowid", "row_id", "unnamed: 0", "level_0"})


@dataclass(frozen=True)
class Frame:
    """Rows of cells; their columns have names, or none, or integers for names, as pandas has them.

    >>> as_frame([("cat", "k a t")])
    Frame(names=None, rows=[('cat', 'k a t')])
    """

    names: tuple[str, ...] | None
    rows: Sequence[Row]
    integers: tuple[str, ...] = field(default=(), repr=False)  # as names

    def choice(self, column: int | str | None, name: str = "data") -> int | str | None:
        """A choice of columns by a user as one by names, or by numbers from 1 unless a column has that name.

        >>> Frame(None, [], ("0", "1")).choice(1), Frame(("a", "b"), []).choice(1), Frame(("a", "1"), []).choice(1)
        (2, 1, '1')
        """
        if column is None or not self.integers:
            return str(column) if str(column) in (self.names or ()) else column
        found = []
        for one in columns_of(column, self.integers):
            if str(one) not in self.integers:
                raise DataError(f"{name}: no column is called {one!r}; there are: {', '.join(self.integers)}")
            found.append(self.integers.index(str(one)) + 1)
        return found[0] if len(found) == 1 else ",".join(map(str, found))


def as_frame(data: Any, name: str = "data") -> Frame:
    """Turn data of any supported type into rows of cells; `name` is what messages call the data.

    A cell that holds nothing (NaN, NaT, NA) is None, an array is a list, and a truth value is its text. A text that is
    no row is a row of one cell.

    >>> as_frame({"text": ["good", "bad"], "label": [True, None]})
    Frame(names=('text', 'label'), rows=[('good', 'True'), ('bad', None)])
    >>> as_frame([{"text": "good", "label": 1}, {"text": "bad"}])
    Frame(names=('text', 'label'), rows=[('good', 1), ('bad', None)])
    >>> as_frame(zip(["good", "bad"], [1, 0])).rows
    [('good', 1), ('bad', 0)]
    >>> as_frame([("good", 1), 7], "train")
    Traceback (most recent call last):
    windlass.core.errors.DataError: train row 2 is int, not a row: give pairs of a source and a target, ...
    """
    table = as_table(data, name)
    return table if isinstance(table, Frame) else Frame(None, [_row(item, name, n) for n, item in enumerate(table, 1)])


def as_inputs(data: Any, columns: Columns, name: str = "inputs") -> list[Any]:
    """The inputs to predict for: the items of a list, a series or an iterator, or the cells of a table's columns.

    >>> as_inputs(["good", None], {"source": None}), as_inputs([["a", "cat"]], {"source": None})
    (['good', ''], [['a', 'cat']])
    >>> as_inputs({"id": [7], "text": ["good"]}, {"source": None})
    ['good']
    """
    table = as_table(data, name)
    if not isinstance(table, Frame):
        cells = table
    elif table.names is None and (len(table.integers) < 2):
        cells = [row[0] if len(row) == 1 else row for row in table.rows]
    else:
        in_order = {part: column or n for n, (part, column) in enumerate(columns.items(), 1)}
        chosen = in_order if table.integers else columns
        rows = (tuple(row.values()) for row in read_columns(table, chosen, name))
        cells = [row[0] if len(row) == 1 else row for row in rows]
    return ["" if item is None else item for item in cells]


def as_table(data: Any, name: str = "data") -> Frame | list[Any]:
    """A table, or the items of a list that is none.

    >>> as_table([{"text": "good"}]), as_table(["good"])
    (Frame(names=('text',), rows=[('good',)]), ['good'])
    """
    if isinstance(data, Frame):
        return data
    if isinstance(data, Mapping):
        return _from_columns(list(data), list(data.values()), name)
    if hasattr(data, "collect_schema") and hasattr(data, "collect"):  # polars, lazy
        data = data.collect()
    if hasattr(data, "iloc") and hasattr(data, "columns"):  # pandas
        return _from_columns(list(data.columns), [data.iloc[:, n] for n in range(len(data.columns))], name)
    if hasattr(data, "get_columns") and hasattr(data, "columns"):  # polars
        return _from_columns(data.columns, data.get_columns(), name)
    if hasattr(data, "column_names") and hasattr(data, "columns"):  # Arrow
        return _from_columns(data.column_names, data.columns, name)
    # A row that is a set has no order: it stays one, and is refused.
    items: list[Any] = [item if isinstance(item, set | frozenset) else cell(item) for item in _listed(data, name)]
    if items and all(isinstance(item, Mapping) for item in items):
        names = list(dict.fromkeys(key for item in items for key in item))
        return _from_columns(names, [[item.get(key) for item in items] for key in names], name)
    if getattr(data, "ndim", 1) == 2:
        return Frame(None, [tuple(item) for item in items])
    return items


def as_items(data: Any, name: str = "data") -> list[Any]:
    """The items of a list, a series, an array or an iterator.

    >>> import numpy as np
    >>> as_items(np.array(["a", "b"])), as_items(word for word in ("a", None, float("nan")))
    (['a', 'b'], ['a', None, None])
    >>> as_items(None, "train")
    Traceback (most recent call last):
    windlass.core.errors.DataError: train is NoneType: give pairs of a source and a target, a data frame, ...
    """
    return [*map(cell, _listed(data, name))]


def _listed(data: Any, name: str) -> Iterable[Any]:
    for method in ("to_pylist", "to_list", "tolist"):
        if hasattr(data, method):
            data = getattr(data, method)()
            break
    if isinstance(data, str | bytes | Mapping) or not (isinstance(data, Iterable) or hasattr(data, "__getitem__")):
        raise DataError(f"{name} is {type(data).__name__}: {EXPECTED}")
    return (item for item in data)


def cell(value: Any) -> Any:
    """A cell without what numpy, pandas and polars add to plain values; a set is a list in order.

    >>> import numpy as np
    >>> cell(np.int64(3)), cell(np.array(["a", "cat"])), cell(float("nan")), cell(True)
    (3, ['a', 'cat'], None, 'True')
    >>> cell({"sport", "news"})
    ['news', 'sport']
    """
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, list):
        return [*map(cell, value)]
    if isinstance(value, tuple):
        return tuple(map(cell, value))
    if isinstance(value, set | frozenset):
        return sorted(map(cell, value), key=str)
    if hasattr(value, "tolist"):  # an array, a series, or a number of numpy
        return cell(value.tolist())
    missing = type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and math.isnan(value))
    return None if missing else value


def _row(item: Any, name: str, number: int) -> Row:
    if item is None or isinstance(item, str):
        return (item,)
    if isinstance(item, list | tuple):
        return tuple(item)
    kind = "a dict among other rows" if isinstance(item, Mapping) else f"{type(item).__name__}, not a row"
    raise DataError(f"{name} row {number} is {kind}: {EXPECTED}")


def _from_columns(names: Sequence[Any], columns: Sequence[Any], name: str) -> Frame:
    for key, column in zip(names, columns, strict=True):
        if isinstance(column, str):
            raise DataError(
                f"{name}: column {key!r} is a text, not a list: a dict holds columns, as in "
                '{"text": [...], "label": [...]}; of a dict of sources and targets, give its items()'
            )
    lists = [as_items(column, f"{name}: column {key!r}") for key, column in zip(names, columns, strict=True)]
    lengths = {str(key): len(cells) for key, cells in zip(names, lists, strict=True)}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{key} has {count}" for key, count in lengths.items())
        raise DataError(f"{name}: columns of unequal length: {told}; give every row a cell in each")
    rows = list(zip(*map(_integers, lists), strict=True))
    all_names = tuple(map(str, names))
    named = any(isinstance(key, str) for key in names)  # pandas counts the columns that have no name
    return Frame(all_names, rows) if named else Frame(None, rows, all_names)


def _integers(cells: list[Any]) -> list[Any]:
    """Integers again, where pandas wrote them as 1.0, as it does if one of them is missing."""
    if all(value is None or (isinstance(value, float) and value.is_integer()) for value in cells):
        return [None if value is None else int(value) for value in cells]
    return cells


# ---------------------------------------------------------------- columns


def pick_columns(frame: Frame, columns: Columns, name: str = "data") -> dict[str, int | str]:
    """Find the column of every part; one that is not chosen is the next in order, and no id.

    Columns without names are found by number.

    >>> frame = as_frame({"id": [7], "text": ["good"], "label": [1]})
    >>> pick_columns(frame, {"source": None, "target": None})
    {'source': 'text', 'target': 'label'}
    >>> pick_columns(frame, {"source": "txt", "target": None}, "train")
    Traceback (most recent call last):
    windlass.core.errors.DataError: train: no column is called 'txt'; did you mean 'text'?
    """
    if frame.names is None:
        return {part: c if isinstance(c, int) else n for n, (part, c) in enumerate(columns.items(), 1)}
    chosen = {part: _name(frame.names, c, name) for part, c in columns.items() if c is not None}
    free = iter([key for key in frame.names if key not in chosen.values() and not _is_id(key)])
    for part in columns:
        if part not in chosen:
            chosen[part] = next(free, "")
            if not chosen[part]:
                raise DataError(f"{name}: no column for the {part} among {', '.join(frame.names)}: name it, {part}=...")
    return {part: chosen[part] for part in columns}


def _is_id(name: str) -> bool:
    return name.strip().lower() in _IDS or name.lower().endswith("_id")


def _name(names: Sequence[str], column: int | str, name: str) -> str:
    if len(columns := columns_of(column, names)) > 1:
        return ",".join(_name(names, one, name) for one in columns)
    if isinstance(column, int) and str(column) not in names:
        if not 1 <= column <= len(names):
            raise DataError(f"{name}: no column {column}; there are {len(names)}: {', '.join(names)}")
        return names[column - 1]
    column = str(column)
    if column not in names:
        raise DataError(f"{name}: no column is called {column!r}; {nearest(column, names, ordered=True)}")
    if names.count(column) > 1:
        raise DataError(f"{name}: {names.count(column)} columns are called {column!r}: rename all but one")
    return column


def read_columns(frame: Frame, columns: Columns, name: str = "data") -> Iterator[dict[str, object]]:
    """The cells of every row by part. The two texts of a pair may be one cell of their own.

    >>> parts = {"source": None, "second": None, "target": None}
    >>> list(read_columns(as_frame([("a", "b", 1), (("c", "d"), 0)]), parts))
    [{'source': 'a', 'second': 'b', 'target': 1}, {'source': ('c', 'd'), 'target': 0}]
    >>> list(read_columns(as_frame([("a", "b", "c")], "train"), {"source": None, "target": None}, "train"))
    Traceback (most recent call last):
    windlass.core.errors.DataError: train row 1 has 3 cells, not 2 (source, target): ...
    """
    found, names = pick_columns(frame, columns, name), frame.names or ()
    check_apart(name, found, names)
    groups = {part: columns_of(c, names) for part, c in found.items()}
    if any(len(group) > 1 for group in groups.values()):
        yield from (gathered(row, groups, names, joined) for row in read_columns(frame, spread(groups), name))
        return
    places = {part: c - 1 if isinstance(c, int) else names.index(c) for part, c in found.items()}
    unchosen = all(column is None for column in columns.values())
    as_one = {part: n for n, part in enumerate(part for part in places if part != "second")}
    for number, row in enumerate(frame.rows, 1):
        wanted = as_one if "second" in places and len(row) == len(as_one) else places
        if len(row) <= max(wanted.values()) or (frame.names is None and unchosen and len(row) > len(wanted)):
            raise DataError(f"{name} row {number} {_misfit(row, places, frame.integers)}")
        yield {part: row[place] for part, place in wanted.items()}


def _misfit(row: Row, places: Mapping[str, int], integers: Sequence[str]) -> str:
    parts = f"({', '.join(places)})"
    if len(places) == 1:
        return f"has {len(row)} cells: a language model learns from texts, not from pairs: give a list of texts"
    if len(row) == 1:
        what = "blank" if row[0] is None else "a text"
        return f"is {what}, not {parts}: give pairs, as zip(texts, targets) makes them; a list of texts is for task lm"
    count = max(max(places.values()) + 1, len(places))
    mend = "give the row all of them"
    if len(row) > count:
        how = f"name, source={integers[0]}, target={integers[-1]}" if integers else "number, source=1, target=3"
        mend = f"choose columns by {how}; of two lists, zip(texts, targets) makes pairs"
    return f"has {len(row)} cells, not {count} {parts}: {mend}"
