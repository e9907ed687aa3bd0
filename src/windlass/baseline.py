"""Cheap baselines to stand beside every score, so that a user sees whether a model has learned anything.

copy              the source itself
most frequent     the commonest target of the training data
letter by letter  each letter's commonest counterpart, counterparts guessed by how far along a letter stands
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from windlass.core.errors import DataError
from windlass.metrics import find

Pairs = Sequence[tuple[str, str]]
"""(source, target) of training examples."""

LONGEST_FOR_LETTERS = 40
"""Mean source length, in characters, above which nobody would write letter by letter."""


@dataclass(frozen=True)
class Baseline:
    """A table from source units to target text; where it has no entry, `default`, or else the unit itself.

    Its fields are plain data, so `dataclasses.asdict` and JSON keep it.

    >>> Baseline("by hand", table={"Rom": "Рим"}).predict(["Rom", "Bonn"])
    ['Рим', 'Bonn']
    """

    name: str
    unit: Literal["whole", "letter"] = "whole"
    table: Mapping[str, str] = field(default_factory=dict)
    default: str | None = None
    joiner: str = ""

    def predict(self, sources: Sequence[str]) -> list[str]:
        """Return an output for every source."""
        return [self.joiner.join(filter(None, map(self._one, self._units(source)))) for source in sources]

    def _units(self, source: str) -> Sequence[str]:
        return source if self.unit == "letter" else [source]

    def _one(self, unit: str) -> str:
        return self.table.get(unit, unit if self.default is None else self.default)


def copy() -> Baseline:
    """Return the baseline that repeats the source.

    >>> copy().predict(["Rom", ""])
    ['Rom', '']
    """
    return Baseline("copy")


def most_frequent(train: Pairs) -> Baseline:
    """Return the baseline that always says the commonest target (of equally common ones, the first seen).

    >>> most_frequent([("a", "x"), ("b", "y"), ("c", "y")]).predict(["a"])
    ['y']
    """
    return Baseline("most frequent", default=Counter(target for _, target in train).most_common(1)[0][0])


def letter_by_letter(train: Pairs) -> Baseline:
    """Return the baseline that writes each letter's commonest counterpart.

    A target symbol (a letter, or a phone where targets are phones between spaces) belongs to the letter
    that is equally far along the source: wrong in many words, but seldom for the commonest counterpart.

    >>> letter_by_letter([("ab", "αβ"), ("ba", "βα"), ("aab", "ααβ")]).predict(["bab", "c"])
    ['βαβ', 'c']
    """
    spaced = _spaced([target for _, target in train])
    joiner = " " if spaced else ""
    seen: list[tuple[str, str]] = []
    for source, target in train:
        symbols = target.split() if spaced else list(target)
        parts: list[list[str]] = [[] for _ in source]
        for j, symbol in enumerate(symbols if source else []):
            parts[(2 * j + 1) * len(source) // (2 * len(symbols))].append(symbol)
        seen += [(letter, joiner.join(part)) for letter, part in zip(source, parts, strict=True)]
    return Baseline("letter by letter", "letter", _commonest(seen), joiner=joiner)


def _commonest(pairs: Pairs) -> dict[str, str]:
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for source, target in pairs:
        counts[source][target] += 1
    return {source: found.most_common(1)[0][0] for source, found in counts.items()}


def _spaced(targets: Sequence[str]) -> bool:
    """Whether targets are symbols between spaces, such as phones: with "words" of one or two characters."""
    words = [word for target in targets for word in target.split()]
    return len(words) > 1.5 * len(targets) and sum(map(len, words)) < 2 * len(words)


def fit(train: Pairs) -> list[Baseline]:
    """Return every baseline that makes sense for the data.

    >>> [baseline.name for baseline in fit([("a", "x")])]
    ['copy', 'most frequent', 'letter by letter']
    """
    if not train:
        raise DataError("a baseline needs training examples, and there are none")
    found = [copy(), most_frequent(train)]
    if sum(len(source) for source, _ in train) <= LONGEST_FOR_LETTERS * len(train):
        found.append(letter_by_letter(train))
    return found


def best_baseline(train: Pairs, sources: Sequence[str], references: Sequence[Sequence[str]], metric: str) -> Baseline:
    """Return the baseline that does best on held-out examples; of equally good ones, the simplest.

    >>> best_baseline([("ab", "αβ"), ("ba", "βα")], ["aab"], [["ααβ"]], "accuracy").name
    'letter by letter'
    """
    measure = find(metric)
    sign = 1 if measure.higher_is_better else -1
    return max(
        fit(train),
        key=lambda baseline: sign * measure.function(baseline.predict(sources), references)[metric],
    )
