"""Recognise columns of tags: as many as the words of another column."""

from __future__ import annotations

from collections import Counter

from windlass.data.column_sample import ColumnSample
from windlass.data.examples import as_text
from windlass.data.sheets import MISSING

_MOST = 200
"""Different tags in a column of texts, at most."""


def tags_in(column: ColumnSample) -> Counter[str]:
    """How often every tag occurs: the items of lists, or what stands between spaces.

    >>> tags_in(ColumnSample(1, "tags", [[0, 1], "1 0 0"]))
    Counter({'0': 3, '1': 2})
    """
    return Counter(part for cell in column.cells if cell not in (None, MISSING) for part in _parts(cell))


def has_tags(source: ColumnSample, target: ColumnSample) -> bool:
    """Whether a target has as many tags as its source has words; texts, of a small set.

    >>> words = ColumnSample(1, "tokens", [["a", "cat"], ["the", "dog", "runs"]])
    >>> has_tags(words, ColumnSample(2, "ner_tags", [[0, 1], [0, 1, 2]]))
    True
    >>> has_tags(words, ColumnSample(2, "topics", [[0, 1], [0, 1]]))
    False
    """
    pairs = [(_parts(words), _parts(tags)) for words, tags in zip(source.cells, target.cells, strict=True)
             if words not in (None, MISSING) and tags not in (None, MISSING)]  # fmt: skip
    alike = sum(len(words) == len(tags) for words, tags in pairs)
    if alike < 0.98 * len(pairs) or all(len(words) < 2 for words, _ in pairs):
        return False
    if source.lists and target.lists:
        return all(
            isinstance(tag, str | int) for cell in target.cells if isinstance(cell, list | tuple) for tag in cell
        )
    words = {word for own, _ in pairs for word in own}
    tags = tags_in(target)
    return source.words > 1 and len(tags) <= min(_MOST, len(words) / 2, tags.total() / 10)


def _parts(cell: object) -> list[str]:
    """The items of a list, or the words of a text."""
    return [*map(str, cell)] if isinstance(cell, list | tuple) else as_text(cell).split()
