"""Fitting parts together: every part declares what it gives and what it needs, and one matcher says what does not fit.

A feature is a name. Every setting of a recipe is one, by its key (`model.decoder.feedback`), and so is every choice of
a kind (`source: text`). What follows from settings has a name with a space in it (`model.encoder final states`), which
no key has. A feature is given where its value is true, a number other than 0, a text, a record. In what a part says
where it does not fit, `<source>` stands for the value of that feature, of a part for its kind.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import final


class Term(ABC):
    """A line of what a part declares."""

    @property
    @abstractmethod
    def features(self) -> tuple[str, ...]:
        """What the line is about."""

    @abstractmethod
    def misfit(self, given: Mapping[str, object], needed: Set[str]) -> str | None:
        """What is wrong and how to mend it; None where nothing is."""


@final
@dataclass(frozen=True)
class Gives(Term):
    """The part has a feature, which others may need; of several values under one name the last counts.

    >>> Gives("source.lowercase", False).value
    False
    """

    feature: str
    value: object = True

    @property
    def features(self) -> tuple[str, ...]:
        """The one feature."""
        return (self.feature,)

    def misfit(self, given: Mapping[str, object], needed: Set[str]) -> None:
        """A feature does no harm."""


class _Rule(Term):
    """A line that may be broken. It is about one feature, or about any one of several."""

    def __init__(self, feature: str | tuple[str, ...], mend: str):
        self._features = (feature,) if isinstance(feature, str) else feature
        self.mend = mend

    @property
    def features(self) -> tuple[str, ...]:
        """The features, any one of which will do."""
        return self._features


@final
class Needs(_Rule):
    """The part cannot do without a feature, or without one of several.

    >>> list(misfits([Needs("source letters", "set source.characters: true")]))
    ['set source.characters: true']
    """

    def misfit(self, given: Mapping[str, object], needed: Set[str]) -> str | None:
        """Whether nobody gives it."""
        return None if any(given.get(feature) for feature in self.features) else self.mend


@final
class Refuses(_Rule):
    """The part cannot do with a feature.

    >>> list(misfits([Gives("vocabulary: joint"), Refuses("vocabulary: joint", "set vocabulary: separate")]))
    ['set vocabulary: separate']
    """

    def misfit(self, given: Mapping[str, object], needed: Set[str]) -> str | None:
        """Whether somebody gives it."""
        return self.mend if any(given.get(feature) for feature in self.features) else None


@final
class Offers(_Rule):
    """The part gives a feature, or several, of which somebody must need one: otherwise it would change nothing.

    >>> list(misfits([Offers("source letters", "nothing reads them: set source.characters: false")]))
    ['nothing reads them: set source.characters: false']
    """

    def misfit(self, given: Mapping[str, object], needed: Set[str]) -> str | None:
        """Whether nobody needs it."""
        return None if any(feature in needed for feature in self.features) else self.mend


@final
class Equal(_Rule):
    """Two features must have the same value.

    >>> list(misfits([Gives("a", 1), Gives("b", 2), Equal(("a", "b"), "a is <a>, but b is <b>")]))
    ['a is 1, but b is 2']
    """

    def misfit(self, given: Mapping[str, object], needed: Set[str]) -> str | None:
        """Whether they differ."""
        first, second = (given.get(feature) for feature in self.features)
        return None if first == second else self.mend


def misfits(
    terms: Iterable[Term], among: Iterable[Term] | None = None, within: tuple[str, ...] = ("",)
) -> Iterator[str]:
    """What does not fit among the terms of all parts, and how to mend it, in the order of declaration.

    `among` holds the terms of all parts where `terms` are those of one. With `within` only features whose names begin
    so are looked at: the others are given by parts that are not there.

    >>> writes = [Gives("model.head writing")]
    >>> list(misfits([Needs("model.head writing", "leave search out")], among=writes))
    []
    """
    own = tuple(terms)
    everyone = own if among is None else tuple(among)
    given = {term.feature: term.value for term in everyone if isinstance(term, Gives)}
    needed = {feature for term in everyone if isinstance(term, Needs) for feature in term.features}
    for term in own:
        if all(feature.startswith(within) for feature in term.features):
            said = term.misfit(given, needed)
            if said is not None:
                yield re.sub("<(.+?)>", lambda named: _kind(given.get(named[1])), said)


def _kind(value: object) -> str:
    return str(getattr(value, "kind", value))
