"""The most frequent tag at every place: the baseline of tags of what is no text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from windlass.data.examples import Pairs, Value

Split = Callable[[Value], Sequence[str]]
"""The places of a source."""
NAME = "most frequent tag"


@dataclass(frozen=True)
class FrequentTag:
    """One tag for every place.

    >>> FrequentTag.fit([((1.0, 2.0), "up down"), ((3.0,), "up")], split=str).predict(["abc"])
    ['up up up']
    """

    tag: str
    split: Split  # not saved: that of the bundle's source
    name: str = NAME

    @classmethod
    def fit(cls, train: Pairs, split: Split) -> FrequentTag:
        """Count the tags."""
        return cls(Counter(tag for _, tags in train for tag in tags.split()).most_common(1)[0][0], split)

    def predict(self, sources: Sequence[Value]) -> list[str]:
        """Return the tag for every place of every source."""
        return [" ".join([self.tag] * len(self.split(source))) for source in sources]
