"""Several columns as one: `height,width` or `2-5`, numbers as a vector, texts joined; as the target, labels."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from windlass.core.errors import DataError
from windlass.data.sniff import is_number, two_readings

_FLAGS = {"0": False, "0.0": False, "false": False, "1": True, "1.0": True, "true": True}
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


def check_apart(where: str, columns: Mapping[str, int | str], names: Sequence[str] | None) -> None:
    """Refuse a column that is chosen as source and as target: a model would learn to copy it, and seem perfect.

    >>> check_apart("a.csv", {"source": "word", "target": "ipa"}, ["word", "ipa"])
    >>> check_apart("a.csv", {"source": "word", "target": 1}, ["word", "ipa"])
    Traceback (most recent call last):
    windlass.core.errors.DataError: a.csv: source and target are the same column, 'word': choose another
    """
    known = list(names or ())

    def own(part: str) -> list[int | str]:
        chosen = columns_of(columns[part], known) if part in columns else []
        return [known[c - 1] if isinstance(c, int) and c <= len(known) and known.count(known[c - 1]) == 1 else c
                for c in chosen]  # fmt: skip

    target = own("target")
    for part, called in (("source", "source"), ("second", "second text")):
        if both := [column for column in own(part) if column in target]:
            raise DataError(f"{where}: {called} and target are the same column, {both[0]!r}: choose another")


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


def by_names(columns: Iterable[int | str], names: Sequence[str] | None) -> list[str]:
    """The columns that are chosen by name, of a table of some names.

    >>> by_names(["word", 2, "a,b"], ["a", "b"])
    ['word', 'a', 'b']
    """
    return [c for column in columns for c in columns_of(column, names) if isinstance(c, str)]


def spread(groups: Mapping[str, Sequence[int | str]]) -> dict[str, int | str]:
    """The columns of all groups, each as a part of its own.

    >>> spread({"source": ["x", "y"], "target": [3]})
    {'source 0': 'x', 'source 1': 'y', 'target 0': 3}
    """
    return {f"{part} {n}": column for part, group in groups.items() for n, column in enumerate(group)}


def gathered(
    cells: Mapping[str, object],
    groups: Mapping[str, Sequence[int | str]],
    names: Sequence[str] | None,
    join: Callable[[Sequence[object], Sequence[str] | None], object],
) -> dict[str, object]:
    """The cells of `spread` columns by part again; those of several columns are joined.

    >>> gathered({"source 0": "1", "source 1": "2", "target 0": "a"}, {"source": [1, 2], "target": [3]}, None, joined)
    {'source': [1.0, 2.0], 'target': 'a'}
    """
    found: dict[str, object] = {}
    for part, group in groups.items():
        own = [cells[f"{part} {n}"] for n in range(len(group))]
        labels = [names[c - 1] if isinstance(c, int) and names else str(c) for c in group] if part == "target" else None
        found[part] = join(own, labels) if len(own) > 1 else own[0]
    return found


def joined(cells: Sequence[object], labels: Sequence[str] | None = None) -> object:
    """The cells of several columns as one: a vector, if all are numbers; None if one of them is blank.

    Of a target, whose columns are `labels`, numbers must be 0 or 1: they choose labels. If a comma may mark thousands,
    the cells stay text, which a source of numbers refuses.

    >>> joined(["5.1", "3,5", 2]), joined(["A title", "and a text"]), joined(["5.1", " "])
    ([5.1, 3.5, 2.0], 'A title and a text', None)
    >>> joined([0, 1, "1"], ["sport", "news", "art"])
    ['news', 'art']
    """
    texts = [str(cell).strip() if isinstance(cell, str | int | float) else "" for cell in cells]
    if not all(texts):
        return None
    if labels is not None and all(text.lower() in _FLAGS for text in texts):
        return [label for label, text in zip(labels, texts, strict=True) if _FLAGS[text.lower()]]
    if not all(map(is_number, texts)) or (labels is None and any(map(two_readings, texts))):
        return " ".join(texts)
    if labels is not None:
        told = told_group(",".join(labels))
        raise DataError(
            f"several columns of numbers are no target, but {told} hold more than 0 and 1: choose one column, or write "
            f'labels such as "{labels[0]},{labels[1]}" into one'
        )
    return [_number(text) for text in texts]


def told_group(choice: str) -> str:
    """Several columns in a sentence.

    >>> told_group("height,width"), told_group("a,b,c,d,e,f"), told_group("2-5")
    ("'height' and 'width'", "'a', 'b' ... 'f'", '2-5')
    """
    parts = choice.split(",")
    if choice[:1].isdigit():
        return choice
    if len(parts) > 3:
        return f"{parts[0]!r}, {parts[1]!r} ... {parts[-1]!r}"
    return " and ".join(filter(None, (", ".join(map(repr, parts[:-1])), repr(parts[-1]))))


def _number(text: str) -> float:
    return float(text.rstrip("%").replace(",", "."))
