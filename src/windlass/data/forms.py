"""Cells that hold several forms, such as `colour, color` or `ˈbada / ˈbaða`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from windlass.data.examples import Example, Place, as_text
from windlass.data.findings import Finding

FEW, SHARE, JUDGED = 3, 0.1, 5_000
"""Targets with forms that are too few to tell, as a count and as a share, and how many targets are judged."""
ALIKE, LONGEST = 0.6, 60
"""The similarity of two forms of a word, and the most characters of a form."""
_BETWEEN_FORMS = re.compile(r"\s*[,;]\s+|\s+/\s+")


def several_forms(train: Sequence[Example]) -> list[Finding]:
    """Find targets that hold several answers, or else a few cells with several forms.

    >>> cells = ["ˈbada / ˈbaða", "ˈlaɣo", "ˈdeðo / ˈdedo", "ˈpato / ˈpatu"]
    >>> [found] = several_forms([Example("x", (cell,), None, Place("words.csv", n)) for n, cell in enumerate(cells, 2)])
    >>> found.what
    "'/' divides 75% of the targets into parts that are alike, such as 'ˈbada / ˈbaða': if these are several answers,
    give each a row"
    """
    answers = _several_answers(train)
    few = None if answers else _few_cells(train)
    return [found for found in (answers, few) if found is not None]


def _several_answers(train: Sequence[Example]) -> Finding | None:
    """The separator that divides most targets into parts that are alike, if a good share of them has it."""
    sample = train[:: -(-len(train) // JUDGED)] if train else train
    found: dict[str, list[int]] = {}
    for n, example in enumerate(sample):
        for separator in _separators(as_text(example.target)):
            found.setdefault(separator, []).append(n)
    separator, rows = max(found.items(), key=lambda item: len(item[1]), default=("", []))
    if len(rows) < FEW or len(rows) < SHARE * len(sample):
        return None
    first = sample[rows[0]]
    what = (
        f"{separator!r} divides {len(rows) / len(sample):.0%} of the targets into parts that are alike, such as "
        f"{short(as_text(first.target))}: if these are several answers, give each a row"
    )
    return Finding(first.place.file, first.place.line, "several forms", what, "kept")


def short(text: str) -> str:
    """A text in quotes, without its end if it is long.

    >>> short("a" * 80)[-5:]
    "a...'"
    """
    return repr(text if len(text) <= 60 else text[:57] + "...")


def _separators(text: str) -> Iterator[str]:
    """What divides a text into parts that are alike.

    >>> [*_separators("ˈbada ~ ˈbaða")], [*_separators("and/or")], [*_separators("/ˈbada/, /ˈbaða/")]
    (['~'], [], [','])
    """
    for separator in "/;,~|":
        if separator in text:
            parts = [part for piece in text.split(separator) if (part := "".join(piece.split()))]
            if len(set(parts)) == len(parts) > 1 and all(map(_alike, parts, parts[1:])):
                yield separator


def _alike(one: str, other: str) -> bool:
    """Whether two texts may be forms of one word.

    >>> _alike("colour", "color"), _alike("ˈbaða", "ˈlaɣo"), _alike("1.5", "1.7")
    (True, False, False)
    """
    if max(len(one), len(other)) > LONGEST or not (any(map(str.isalpha, one)) and any(map(str.isalpha, other))):
        return False
    both = SequenceMatcher(None, one, other, autojunk=False)
    return both.quick_ratio() >= ALIKE and both.ratio() >= ALIKE


def _few_cells(train: Sequence[Example]) -> Finding | None:
    """A few cells that hold several forms, `colour, color` or `a / b`, where nearly all others hold one word."""
    found: dict[int, tuple[Place, str]] = {}
    for texts in ([e.text for e in train], [as_text(e.target) for e in train]):
        parts = [(n, _BETWEEN_FORMS.split(text)) for n, text in enumerate(texts) if " " in text]
        several = [n for n, forms in parts if len(forms) > 1 and all(len(form.split()) == 1 for form in forms)]
        if len(parts) <= len(texts) / 10:
            found |= {n: (train[n].place, texts[n]) for n in several if n not in found}
    if len(train) < 20 or len(found) < 2:
        return None
    place, text = found[min(found)]
    what = f"{len(found)} rows seem to have several forms in a cell, such as {short(text)}: give each a row of its own"
    return Finding(place.file, place.line, "several forms", what, "kept")
