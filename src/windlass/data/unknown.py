"""References that a model cannot give, as it has never seen their labels or tags."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from windlass.core.errors import visible
from windlass.data.examples import Value
from windlass.data.sides.base import TargetSide

SHOWN = 8
"""Labels that a message names."""


@dataclass(frozen=True)
class UnknownLabels:
    """How many references have labels that a model does not know, which ones, and the labels that it knows.

    >>> UnknownLabels(2, 5, ("0", "1"), ("0.0", "1.0")).sentence()
    '2 of 5 references have labels that this model does not know: 0, 1; it knows 0.0, 1.0'
    """

    count: int
    references: int
    labels: tuple[str, ...]
    known: tuple[str, ...]
    what: str = "labels"

    @property
    def all(self) -> bool:
        """Whether no reference can be met, so that a score says nothing."""
        return self.count == self.references

    def sentence(self, where: str = "") -> str:
        """Say it in one line; `where` tells what the references are of."""
        share = f"{self.count:,} of {self.references:,} references{where}"
        lacking = f"{'has' if self.count == 1 else 'have'} {self.what} that this model does not know"
        return f"{share} {lacking}: {_named(self.labels)}; it knows {_named(self.known)}"


def unknown_labels(side: TargetSide, references: Iterable[Value]) -> UnknownLabels | None:
    """Find the references with labels or tags that the side does not have; None if it knows all, or has no labels.

    >>> from windlass.data.sides.labels import LabelTarget
    >>> unknown_labels(LabelTarget.tiny()[0], ["ham", "eggs"]).labels
    ('eggs',)
    """
    if not side.choices:
        return None
    total = count = 0
    labels: dict[str, None] = {}
    for reference in references:
        unknown = side.unknown(reference)
        labels.update(dict.fromkeys(unknown))
        total, count = total + 1, count + bool(unknown)
    what = "tags" if side.per_place else "labels"
    return UnknownLabels(count, total, tuple(sorted(labels)), tuple(side.choices), what) if count else None


def _named(labels: tuple[str, ...]) -> str:
    told = ", ".join(map(visible, labels[:SHOWN]))
    return f"{told} and {len(labels) - SHOWN:,} more" if len(labels) > SHOWN else told
