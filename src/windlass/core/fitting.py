"""Fitting parts together: every part declares what it gives and what it needs, and one matcher says what does not fit.

A feature is a name. Every setting of a recipe is one, by its key (`model.decoder.feedback`), and so is every choice
(`source: text`). What follows from settings has a name with a space in it (`model.encoder final states`), which no key
has. A feature is given where its value is neither false, 0 nor none. In a message, `<source>` stands for the value of
that feature, of a part for its kind.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True)
class Gives:
    """The part has a feature, which others may need. Of several values under one name the first counts.

    >>> Gives("source.lowercase", False).value
    False
    """

    feature: str
    value: object = True


class Rule(ABC):
    """What must be so of a feature, or of any one of several, and what to tell where it is not."""

    def __init__(self, feature: str | tuple[str, ...], mend: str):
        self.features = (feature,) if isinstance(feature, str) else feature
        self.mend = mend

    @abstractmethod
    def holds(self, given: Mapping[str, object], needed: Set[str]) -> bool:
        """Whether it is so, of what all parts give and need."""


@final
class Needs(Rule):
    """The part cannot do without.

    >>> list(misfits([Needs("source letters", "set source.characters: true")]))
    ['set source.characters: true']
    """

    def holds(self, given: Mapping[str, object], needed: Set[str]) -> bool:
        """Somebody gives it."""
        return any(given.get(feature) for feature in self.features)


@final
class Refuses(Rule):
    """The part cannot do with it.

    >>> list(misfits([Gives("vocabulary: joint"), Refuses("vocabulary: joint", "set vocabulary: separate")]))
    ['set vocabulary: separate']
    """

    def holds(self, given: Mapping[str, object], needed: Set[str]) -> bool:
        """Nobody gives it."""
        return not any(given.get(feature) for feature in self.features)


@final
class Offers(Rule):
    """The part gives what changes nothing unless somebody needs it.

    >>> list(misfits([Offers("source letters", "nothing reads them: set source.characters: false")]))
    ['nothing reads them: set source.characters: false']
    """

    def holds(self, given: Mapping[str, object], needed: Set[str]) -> bool:
        """Somebody needs it."""
        return any(feature in needed for feature in self.features)


@final
class Equal(Rule):
    """All the features must have one value.

    >>> list(misfits([Gives("a", 1), Gives("b", 2), Equal(("a", "b"), "a is <a>, but b is <b>")]))
    ['a is 1, but b is 2']
    """

    def holds(self, given: Mapping[str, object], needed: Set[str]) -> bool:
        """They have."""
        first, *others = (given.get(feature) for feature in self.features)
        return all(other == first for other in others)


Term = Gives | Rule
"""A line of what a part declares."""


def misfits(
    terms: Iterable[Term], among: Iterable[Term] | None = None, within: tuple[str, ...] = ("",)
) -> Iterator[str]:
    """What does not fit in the terms of all parts, and how to mend it, in the order of declaration.

    `among` holds the terms of all parts where `terms` are those of one. With `within` only features whose names begin
    so are looked at: the others are given by parts that are not there.

    >>> writes = [Gives("model.head writing")]
    >>> list(misfits([Needs("model.head writing", "leave search out")], among=writes))
    []
    """
    own = list(terms)
    everyone = own if among is None else list(among)
    given = {term.feature: term.value for term in reversed(everyone) if isinstance(term, Gives)}
    needed = {feature for term in everyone if isinstance(term, Needs) for feature in term.features}
    for rule in (term for term in own if isinstance(term, Rule)):
        if all(name.startswith(within) for name in rule.features) and not rule.holds(given, needed):
            yield re.sub("<(.+?)>", lambda name: _kind(given.get(name[1], name[0])), rule.mend)


def _kind(value: object) -> str:
    return str(getattr(value, "kind", value))
