"""Table baselines: on whole sources, letters or words."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from windlass.data.examples import Pairs, Value, as_text


class TooLargeError(Exception):
    """A baseline that would take more memory or time than the model it is compared with.

    >>> str(TooLargeError("3,000 tags are too many for it"))
    '3,000 tags are too many for it'
    """


@dataclass(frozen=True)
class Baseline:
    """A table from source units to target text; a unit without an entry gives `default` or, without one, itself.

    Units are the whole source, its letters, its words, its first `count` words, or its last part.

    >>> Baseline("by hand", table={"Rom": "Рим"}).predict(["Rom", "Bonn"])
    ['Рим', 'Bonn']
    """

    name: str
    unit: Literal["whole", "letter", "word", "first words", "last part"] = "whole"
    table: Mapping[str, str] = field(default_factory=dict)
    default: str | None = None
    joiner: str = ""
    count: int | None = None

    def check(self) -> None:
        """Raise ValueError if the parts, read from a file, do not fit together."""
        if self.unit == "first words" and self.count is None:
            raise ValueError("first words needs a count")

    def predict(self, sources: Sequence[Value]) -> list[str]:
        """Return an output for every source."""
        return [self.joiner.join(filter(None, map(self._one, self._units(source)))) for source in sources]

    def _units(self, source: Value) -> Sequence[str]:
        if self.unit == "word":
            return source.split() if isinstance(source, str) else source
        if self.unit == "last part":
            return [source if isinstance(source, str) else source[-1]]
        if self.unit == "first words":
            return as_text(source).split()[: self.count]
        return as_text(source) if self.unit == "letter" else [as_text(source)]

    def _one(self, unit: str) -> str:
        return self.table.get(unit, unit if self.default is None else self.default)


def first_words(count: int) -> Baseline:
    """Return the lead baseline, which copies the first words of the source.

    >>> first_words(2).predict(["Rome was not built in a day"])
    ['Rome was']
    """
    return Baseline(f"first {count} words", "first words", joiner=" ", count=count)


def mean_number(train: Pairs) -> Baseline:
    """Return the baseline that always predicts the mean of the training data.

    >>> mean_number([("a", "1"), ("b", "2")]).predict(["c"])
    ['1.5']
    """
    return Baseline("mean", default=f"{sum(float(target) for _, target in train) / len(train):.6g}")


def most_frequent(train: Pairs) -> Baseline:
    """Return the baseline that always predicts the most frequent target (on a tie, the first seen).

    >>> most_frequent([("a", "x"), ("b", "y"), ("c", "y")]).predict(["a"])
    ['y']
    """
    return Baseline("most frequent", default=Counter(target for _, target in train).most_common(1)[0][0])


def letter_by_letter(train: Pairs) -> Baseline:
    """Return the baseline that replaces each letter by its most frequent counterpart.

    A target symbol (a letter, or a phone if targets are phones separated by spaces) is aligned to the letter at the
    same relative position: often wrong in a word, but seldom for the most frequent counterpart.

    >>> letter_by_letter([("ab", "αβ"), ("ba", "βα"), ("aab", "ααβ")]).predict(["bab", "c"])
    ['βαβ', 'c']
    """
    spaced = _spaced([target for _, target in train])
    joiner = " " if spaced else ""
    seen: list[tuple[str, str]] = []
    for value, target in train:
        source = as_text(value)
        symbols = target.split() if spaced else list(target)
        parts: list[list[str]] = [[] for _ in source]
        for j, symbol in enumerate(symbols if source else []):
            parts[(2 * j + 1) * len(source) // (2 * len(symbols))].append(symbol)
        seen += [(letter, joiner.join(part)) for letter, part in zip(source, parts, strict=True)]
    return Baseline("letter by letter", "letter", _most_common(seen), joiner=joiner)


def most_frequent_tag(train: Pairs) -> Baseline:
    """Return the baseline that gives every word its most frequent tag; an unknown word, the most frequent overall.

    >>> most_frequent_tag([(("a", "cat"), "DET NOUN"), (("a", "dog"), "DET NOUN")]).predict([("a", "cow")])
    ['DET DET']
    """
    pairs = [
        pair
        for source, tags in train
        for pair in zip(source.split() if isinstance(source, str) else source, tags.split(), strict=True)
    ]
    default = Counter(tag for _, tag in pairs).most_common(1)[0][0]
    return Baseline("most frequent tag of a word", "word", _most_common(pairs), default, " ")


def _most_common(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for source, target in pairs:
        counts[source][target] += 1
    return {source: targets.most_common(1)[0][0] for source, targets in counts.items()}


def _spaced(targets: Sequence[str]) -> bool:
    """Whether targets are symbols separated by spaces, such as phones: "words" of one or two characters."""
    words = [word for target in targets for word in target.split()]
    return len(words) > 1.5 * len(targets) and sum(map(len, words)) < 2 * len(words)
