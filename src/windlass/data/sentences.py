"""Cutting a text into sentences: by rules, at lines, by a pattern of your own, or by a function of your own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Annotated, Literal

import regex
from pydantic import Field, field_validator

from windlass.core.errors import DataError, nearest
from windlass.core.options import Options, named

Splitter = Callable[[str], Iterable[str]]
"""A text to its sentences."""

_WORDS = """
mr mrs ms dr prof rev hon sr st mt gen col maj capt lt sgt sen rep gov pres dept univ assn vs viz cf approx ca resp
jan feb mar apr jun jul aug sep sept oct nov dec
"""
_NEVER = frozenset(_WORDS.split())
"""After these a full stop ends no sentence."""
_NUMBERED = "no nr fig figs eq eqs p pp vol ch chap sec art op ver"
_BEFORE_A_NUMBER = frozenset(_NUMBERED.split())
"""After these it ends none where a number follows."""

_END = regex.compile(
    r"(?P<mark>[.!?…]+)[\"'”’»)\]}]*(?=\s)"  # a mark, what closes with it, and a space
    r"|[。！？｡]+[」』”’）]*"  # scripts that leave no space
    r"|\n\s*\n"  # a paragraph
)
_LAST_WORD = regex.compile(r"[\p{L}\p{M}\p{N}.'’-]+\Z")


class RuleSentences(Options):
    """At . ! ? and at blank lines, but not after abbreviations, initials, or before a small letter.

    >>> RuleSentences().split("Dr. J. Doe saw it at 3 p.m. on Fig. 2. Did he? (Yes!) Go on...")
    ['Dr. J. Doe saw it at 3 p.m. on Fig. 2.', 'Did he?', '(Yes!)', 'Go on...']
    """

    kind: Literal["rules"] = "rules"
    abbreviations: tuple[str, ...] = Field(
        (), description="more words after which a full stop ends no sentence, beside the usual English ones"
    )

    def split(self, text: str) -> list[str]:
        """Cut a text."""
        own = {word.lower().rstrip(".") for word in self.abbreviations}
        found, begin = [], 0
        for end in _END.finditer(text):
            if end["mark"] is None or self._ends(text, end, own):
                found.append(text[begin : end.end()])
                begin = end.end()
        return _stripped([*found, text[begin:]])

    def _ends(self, text: str, end: regex.Match[str], own: set[str]) -> bool:
        after = text[end.end() :].lstrip()[:2]
        if after.lstrip("\"'“‘«([{")[:1].islower():
            return False
        if end["mark"] != ".":
            return True
        before = _LAST_WORD.search(text[max(0, end.start() - 40) : end.start()])
        word = "" if before is None else before[0]
        small = word.lower()
        if len(word) == 1 and word.isupper() and word != "I":  # an initial
            return False
        if small in _NEVER or small in own:
            return False
        if regex.fullmatch(r"(?:\p{L}\.)+\p{L}", word) and small not in ("a.m", "p.m"):  # e.g, i.e, U.S
            return False
        return not (small in _BEFORE_A_NUMBER and after[:1].isdigit())


class LineSentences(Options):
    """Every line that is not blank.

    >>> LineSentences().split("- Hello\\n\\n- Hi. Who are you?")
    ['- Hello', '- Hi. Who are you?']
    """

    kind: Literal["lines"] = "lines"

    def split(self, text: str) -> list[str]:
        """Cut a text."""
        return _stripped(text.splitlines())


class PatternSentences(Options):
    """What stands between matches of a regular expression of your own; a group in it is kept, with what is before it.

    >>> PatternSentences(pattern=r"\\s*__eou__\\s*").split("Hi . __eou__ Hello ! __eou__")
    ['Hi .', 'Hello !']
    >>> PatternSentences(pattern=r"(;)").split("one; two")
    ['one;', 'two']
    """

    kind: Literal["pattern"] = "pattern"
    pattern: str = Field(min_length=1, description="a Python regular expression")

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        try:
            groups = re.compile(pattern).groups
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from None
        if groups > 1:
            raise ValueError("has several groups: one is kept as the end of a sentence; write the others as (?:...)")
        return pattern

    def split(self, text: str) -> list[str]:
        """Cut a text."""
        parts = re.split(self.pattern, text)
        if re.compile(self.pattern).groups:
            ends = [end or "" for end in parts[1::2]]
            parts = [part + end for part, end in zip(parts[::2], [*ends, ""], strict=True)]
        return _stripped(parts)


_OWN: dict[str, Splitter] = {}


def use_splitter(name: str, split: Splitter) -> None:
    """Make a function of your own known by a name that a recipe can say: `source.splitter: {kind: own, name: ...}`.

    A saved model holds the name alone, so make the function known again before you load it: nothing that a model's
    folder holds is ever run.

    >>> use_splitter("by semicolon", lambda text: text.split(";"))
    >>> OwnSentences(name="by semicolon").split("one; two")
    ['one', 'two']
    """
    _OWN[name] = split


class OwnSentences(Options):
    """By a function of your own that `windlass.use_splitter` made known.

    >>> OwnSentences(name="unheard of").split("A text.")
    Traceback (most recent call last):
    windlass.core.errors.DataError: no sentence splitter 'unheard of': make it known with windlass.use_splitter ...
    """

    kind: Literal["own"] = "own"
    name: str = Field(description="as it was given to `windlass.use_splitter`")

    def split(self, text: str) -> list[str]:
        """Cut a text."""
        if self.name not in _OWN:
            hint = nearest(self.name, _OWN) if _OWN else "none is known"
            raise DataError(
                f"no sentence splitter {self.name!r}: make it known with windlass.use_splitter before ({hint})"
            )
        return _stripped(_OWN[self.name](text))


def _stripped(parts: Iterable[str]) -> list[str]:
    return [part.strip() for part in parts if part.strip()]


SplitterOptions = Annotated[
    RuleSentences | LineSentences | PatternSentences | OwnSentences, Field(discriminator="kind"), named
]
"""Every way to cut a text into sentences that a recipe can name."""
