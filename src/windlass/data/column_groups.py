"""Several columns as one: `height,width` or `2-5`, numbers as a vector, texts joined by spaces."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from windlass.data.sniff import is_number

_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def as_choice(column: int | str | Sequence[int | str] | None) -> int | str | None:
    """A choice of columns from Python, where several may be a list.

    >>> as_choice(["height", "width", 4]), as_choice("height"), as_choice(None)
    ('height,width,4', 'height', None)
    """
    if column is None or isinstance(column, int | str):
        return column
    return ",".join(map(str, column))


def columns_of(column: int | str, names: Sequence[str] | None) -> list[int | str]:
    """The columns that a choice of columns names; the choice itself, if it is one column, or some are not there.

    >>> columns_of("height,width,4-6", ["height", "width"]), columns_of("a,b", ["a,b", "c"]), columns_of("a,b", None)
    (['height', 'width', 4, 5, 6], ['a,b'], ['a,b'])
    """
    known = names or ()
    if isinstance(column, int) or column in known:
        return [column]
    found: list[int | str] = []
    for part in (part.strip() for part in column.split(",")):
        if part in known:
            found.append(part)
        elif (ends := _RANGE.fullmatch(part)) is not None:
            found += range(int(ends[1]), int(ends[2] or ends[1]) + 1)
        else:
            return [column]
    return found


def group(columns: Sequence[tuple[int, str | None]]) -> str:
    """The choice of some columns, given by number and name.

    >>> group([(1, "height"), (2, "width")]), group([(1, None), (2, None), (3, None), (7, None)])
    ('height,width', '1-3,7')
    """
    names = [name or "" for _, name in columns]
    if all(name and name == name.strip() and "," not in name and not name[0].isdigit() for name in names):
        return ",".join(names)
    runs: list[list[int]] = []
    for number, _ in columns:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def spread(groups: Mapping[str, Sequence[int | str]]) -> dict[str, int | str]:
    """The columns of all groups, each as a part of its own.

    >>> spread({"source": ["x", "y"], "target": [3]})
    {'source 0': 'x', 'source 1': 'y', 'target 0': 3}
    """
    return {f"{part} {n}": column for part, group in groups.items() for n, column in enumerate(group)}


def gathered(
    cells: Mapping[str, object],
    groups: Mapping[str, Sequence[int | str]],
    join: Callable[[Sequence[object]], object],
) -> dict[str, object]:
    """The cells of `spread` columns by part again; those of several columns are joined.

    >>> gathered({"source 0": "1", "source 1": "2", "target 0": "a"}, {"source": [1, 2], "target": [3]}, joined)
    {'source': [1.0, 2.0], 'target': 'a'}
    """
    own = {part: [cells[f"{part} {n}"] for n in range(len(group))] for part, group in groups.items()}
    return {part: join(each) if len(each) > 1 else each[0] for part, each in own.items()}


def joined(cells: Sequence[object]) -> object:
    """The cells of several columns as one: a vector, if all are numbers; None if one of them is blank.

    >>> joined(["5.1", "3,5", 2]), joined(["A title", "and a text"]), joined(["5.1", " "])
    ([5.1, 3.5, 2.0], 'A title and a text', None)
    """
    texts = [str(cell).strip() if isinstance(cell, str | int | float) else "" for cell in cells]
    if not all(texts):
        return None
    if all(map(is_number, texts)):
        return [_number(text) for text in texts]
    return " ".join(texts)


def _number(text: str) -> float:
    return float(text.rstrip("%").replace(",", "."))
