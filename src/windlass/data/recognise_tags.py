"""Recognise columns of tags: as many as the words of another column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from windlass.data.column_sample import ColumnSample
from windlass.data.examples import as_text
from windlass.data.sheets import MISSING
from windlass.data.sniff import SOURCE_NAMES, plain_name

_MOST = 200
"""Different tags in a column of texts, at most."""
_LOOKED = 10
"""Columns of texts that tags are compared with, at most."""


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
    pairs = _pairs(source, target)
    if not _alike(pairs) or all(len(words) < 2 for words, _ in pairs):
        return False
    if source.lists and target.lists:
        return all(
            isinstance(tag, str | int) for cell in target.cells if isinstance(cell, list | tuple) for tag in cell
        )
    words = {word for own, _ in pairs for word in own}
    tags = tags_in(target)
    return source.words > 1 and len(tags) <= min(_MOST, len(words) / 2, tags.total() / 10)


def glosses(source: ColumnSample, target: ColumnSample) -> bool:
    """Whether every sentence has exactly as many pieces in the target as words, and a word mostly has the same piece.

    >>> sentences = ColumnSample(1, "sentence", ["la casa", "la casa es vieja"])
    >>> glosses(sentences, ColumnSample(2, "gloss", ["DEF house", "DEF house be.3 old"]))
    True
    >>> glosses(sentences, ColumnSample(3, "translation", ["the house", "an old house stands"]))
    False
    """
    if source.words < 2 or source.lists or target.lists:
        return False
    pairs = _pairs(source, target)
    if any(len(words) != len(pieces) for words, pieces in pairs):
        return False
    told: dict[str, Counter[str]] = {}
    for word, piece in (both for words, pieces in pairs for both in zip(words, pieces, strict=True)):
        told.setdefault(word, Counter())[piece] += 1
    again = [counts for counts in told.values() if counts.total() > 1]
    return sum(max(counts.values()) for counts in again) > 0.8 * sum(counts.total() for counts in again)


def tag_columns(columns: Sequence[ColumnSample], source: ColumnSample | None = None) -> list[ColumnSample]:
    """The columns that could hold tags, the likeliest first: as many as words, or otherwise any few that repeat.

    Words are those of the `source`, if it is known, or of columns that could be it.

    >>> sounds, kinds = [f"{a}{b}" for a in "bdfgl" for b in "mnrst"], ["noun", "verb", "noun", "verb", "name"] * 5
    >>> [column.name for column in tag_columns([ColumnSample(1, "ipa", sounds), ColumnSample(2, "pos", kinds)])]
    ['pos']
    """
    shown = [c for c in columns if c.looks in ("label", "unclear", "text", "list")]
    named = [source] if source else [c for c in shown if plain_name(c.name or "") in SOURCE_NAMES]
    few = {c.number: len(tags) for c in shown if c not in named and 5 * len(tags := tags_in(c)) <= tags.total()}
    found = [c for c in shown if c.number in few]
    if not named:
        found.sort(key=lambda c: few[c.number])  # or they could be the words
    texts = (named or [c for c in shown if c.looks in ("text", "list")])[:_LOOKED]
    return [c for c in found if any(text is not c and _alike(_pairs(text, c)) for text in texts)] or found


def _pairs(source: ColumnSample, target: ColumnSample) -> list[tuple[list[str], list[str]]]:
    """The words and the tags of rows that have both."""
    cells = zip(source.cells, target.cells, strict=True)
    blank = (None, MISSING, "")
    return [(_parts(words), _parts(tags)) for words, tags in cells if words not in blank and tags not in blank]


def _alike(pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> bool:
    """Whether there are as many tags as words, nearly everywhere."""
    return sum(len(words) == len(tags) for words, tags in pairs) >= 0.98 * len(pairs)


def _parts(cell: object) -> list[str]:
    """The items of a list, or the words of a text."""
    return [*map(str, cell)] if isinstance(cell, list | tuple) else as_text(cell).split()
