"""Compatibility of parts: each declares the features it gives and needs, and one matcher reports what does not fit.

A feature is a name: the key of a setting (`model.decoder.feedback`), a choice (`source: text`), or a consequence of
settings, named with a space (`model.encoder final states`) so that no key can clash. A feature counts as given unless
its value is false, 0 or None. In a message, `<source>` is replaced by the value of that feature; for a part, its kind.
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
    """The part has a feature, which others may need. The first value given for a feature counts.

    >>> Gives("source.lowercase", False).value
    False
    """

    feature: str
    value: object = True


class Rule(ABC):
    """A condition on one or several features, and the message if it fails: what is wrong and how to mend it."""

    def __init__(self, feature: str | tuple[str, ...], mend: str):
        self.features = (feature,) if isinstance(feature, str) else feature
        self.mend = mend

    @abstractmethod
    def holds(self, given: Mapping[str, object], needed: Set[str]) -> bool:
        """Whether the condition holds for the features that all parts give and need."""


@final
class Needs(Rule):
    """The part requires one of the features.

    >>> list(misfits([Needs("source letters", "set source.characters: true")]))
    ['set source.characters: true']
    """

    def holds(self, given: Mapping[str, object], needed: Set[str]) -> bool:
        """Some part gives one of them."""
        return any(given.get(feature) for feature in self.features)


@final
class Refuses(Rule):
    """The part is incompatible with the features.

    >>> list(misfits([Gives("vocabulary: joint"), Refuses("vocabulary: joint", "set vocabulary: separate")]))
    ['set vocabulary: separate']
    """

    def holds(self, given: Mapping[str, object], needed: Set[str]) -> bool:
        """No part gives any of them."""
        return not any(given.get(feature) for feature in self.features)


@final
class Offers(Rule):
    """The part offers a feature that would be unused unless another part needs it.

    >>> list(misfits([Offers("source letters", "nothing reads them: set source.characters: false")]))
    ['nothing reads them: set source.characters: false']
    """

    def holds(self, given: Mapping[str, object], needed: Set[str]) -> bool:
        """Some part needs one of them."""
        return any(feature in needed for feature in self.features)


@final
class Equal(Rule):
    """The features must have equal values.

    >>> list(misfits([Gives("a", 1), Gives("b", 2), Equal(("a", "b"), "a is <a>, but b is <b>")]))
    ['a is 1, but b is 2']
    """

    def holds(self, given: Mapping[str, object], needed: Set[str]) -> bool:
        """All values equal the first."""
        first, *others = (given.get(feature) for feature in self.features)
        return all(other == first for other in others)


Term = Gives | Rule
"""One declaration of a part."""


def misfits(
    terms: Iterable[Term], among: Iterable[Term] | None = None, within: tuple[str, ...] = ("",)
) -> Iterator[str]:
    """Yield the message of every rule that does not hold, in the order of declaration.

    `among` are the terms of all parts, if `terms` are those of one part only. `within` restricts the rules to features
    with these prefixes, if the parts that give the others are not present.

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
