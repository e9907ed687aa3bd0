"""Errors for the user: where, what is wrong, and how to fix it. The CLI prints them without a traceback."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from reprlib import Repr
from typing import TextIO

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")  # all but tabs and line ends; half characters
_STDIN = re.compile(r"^-(?=:[\d ])")
_CLIPPED = Repr()
_CLIPPED.maxstring = _CLIPPED.maxother = _CLIPPED.maxlong = 60
_LONG = re.compile(r"\S{400,}")
LONGEST_LINE = 2000
"""Characters of an error."""
MOST_NAMES = 50
"""How many known names an error lists at most."""
LONGEST_NAME = 100
"""A longer word has no nearest name: to compare it takes long and helps nobody."""


def visible(text: str, stream: TextIO | None = None) -> str:
    """Write the control characters of a text as escapes, so that data cannot steer a terminal.

    With a stream, only if it is a terminal: a file or a pipe gets the text as it is.

    >>> visible("\\x1b[2Jdone") == r"\\x1b[2Jdone"
    True
    """
    if stream is not None and not stream.isatty():
        return text
    return _CONTROL.sub(lambda match: match.group().encode("unicode_escape").decode(), text)


def as_message(text: str) -> str:
    """Write a message so that it can be shown: visible, and with stdin, which is the file `-`, by its name.

    >>> as_message("-:31: no target column"), as_message("a-b: no such task")
    ('stdin:31: no target column', 'a-b: no such task')
    """
    return _STDIN.sub("stdin", visible(text))


def short(value: object) -> str:
    """A value as Python writes it, cut to about 60 characters.

    >>> short("x" * 1000)
    "'xxxxxxxxxxxxxxxxxxxxxxxxxxx...xxxxxxxxxxxxxxxxxxxxxxxxxxxx'"
    """
    try:
        text = _CLIPPED.repr(value)
    except ValueError:  # an integer of more digits than Python writes
        return f"a very large {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:60]} ..."


class WindlassError(Exception):
    """The base class of errors that a user can fix. As text, it is one line, with long names cut.

    >>> str(WindlassError("no such file: pairs.tsv"))
    'no such file: pairs.tsv'
    """

    def __str__(self) -> str:
        line = as_message(super().__str__()).replace("\n", "\\n")
        line = _LONG.sub(lambda match: f"{match.group()[:60]}...", line)
        return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]} ..."


class RecipeError(WindlassError):
    """A recipe that cannot be built: an unknown key, an invalid value, an option that would have no effect.

    >>> isinstance(RecipeError("train.epochs: must be at least 1"), WindlassError)
    True
    """


class DataError(WindlassError):
    """Data that cannot be used. Names the file, the line if there is one, and the problem.

    >>> isinstance(DataError("pairs.tsv:3: no second column"), WindlassError)
    True
    """


class SeveralTargetsError(DataError):
    """A table of which several `columns` could be the target.

    >>> SeveralTargetsError("words.csv: which is the target?", ["ipa", 3]).columns
    ('ipa', 3)
    """

    def __init__(self, text: str, columns: Iterable[int | str]) -> None:
        super().__init__(text)
        self.columns = tuple(columns)


class OtherTaskError(DataError):
    """Data of a form that only another task reads; `what` leaves out how to name it, which a model cannot.

    >>> error = OtherTaskError("a.mrg: trees are for a task that writes or reads them", "parse")
    >>> str(error)
    'a.mrg: trees are for a task that writes or reads them: add --task parse'
    """

    def __init__(self, what: str, task: str) -> None:
        super().__init__(f"{what}: add --task {task}")
        self.what = what


class BundleError(WindlassError):
    """A model folder that is damaged, not a bundle, or written by a newer version.

    >>> isinstance(BundleError("model/: not a Windlass bundle"), WindlassError)
    True
    """


class NotFiniteError(WindlassError):
    """A model whose scores are not numbers: its weights are damaged, or training has diverged.

    >>> str(NotFiniteError())
    "the model's scores are not finite numbers: its weights are damaged, or its training has diverged"
    """

    def __init__(self) -> None:
        super().__init__(
            "the model's scores are not finite numbers: its weights are damaged, or its training has diverged"
        )


class TrainingError(WindlassError):
    """A run that cannot continue, for example because its loss is NaN.

    >>> isinstance(TrainingError("loss is NaN at step 12"), WindlassError)
    True
    """


class DivergedError(TrainingError):
    """A run whose loss, gradients or weights are no numbers any more, or explode.

    >>> isinstance(DivergedError("the loss is nan at step 12"), TrainingError)
    True
    """


def nearest(word: str, known: Iterable[str], ordered: bool = False) -> str:
    """Return a hint: the known name closest to a mistyped one, or all known names if none is close.

    Names are sorted unless they are `ordered`, as columns are; blank ones are left out.

    >>> nearest("layrs", ["layers", "size"])
    "did you mean 'layers'?"
    >>> nearest("ngram_weigth", ["ngrams", "ngram_weight"])
    "did you mean 'ngram_weight'?"
    >>> nearest("minGRU", ["gru", "min_gru"]), nearest("classification", ["classify", "classify-picture"])
    ("did you mean 'min_gru'?", "did you mean 'classify'?")
    >>> nearest("zzz", ["size", "layers"])
    'known: layers, size'
    >>> nearest("zzz", ["word", "", "ipa"], ordered=True)
    'known: word, ipa'
    """
    names = [name for name in (known if ordered else sorted(known)) if name]
    close = [name for name in names if _letters(name) == _letters(word)]  # written in another way
    if not close and len(word) <= LONGEST_NAME:  # a slip of the keyboard
        close = get_close_matches(word, islice(names, 10_000), n=1, cutoff=0.85)
    if not close:  # the stem of a longer word
        close = sorted((name for name in names if len(name) > 4 and word.startswith(name[:-1])), key=len, reverse=True)
    if not close and len(word) <= LONGEST_NAME:
        close = get_close_matches(word, islice(names, 10_000), n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    more = f", ... ({len(names)} in all)" if len(names) > MOST_NAMES else ""
    return f"known: {', '.join(name[:LONGEST_NAME] for name in names[:MOST_NAMES])}{more}"


def _letters(name: str) -> str:
    return re.sub(r"[\s_-]", "", name.casefold())
