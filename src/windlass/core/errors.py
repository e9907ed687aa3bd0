"""Errors for the user: where, what is wrong, and how to fix it. The CLI prints them without a traceback."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class WindlassError(Exception):
    """The base class of errors that a user can fix.

    >>> str(WindlassError("no such file: pairs.tsv"))
    'no such file: pairs.tsv'
    """


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


class BundleError(WindlassError):
    """A model folder that is damaged, not a bundle, or written by a newer version.

    >>> isinstance(BundleError("model/: not a Windlass bundle"), WindlassError)
    True
    """


class TrainingError(WindlassError):
    """A run that cannot continue, for example because its loss is NaN.

    >>> isinstance(TrainingError("loss is NaN at step 12"), WindlassError)
    True
    """


def nearest(word: str, known: Iterable[str]) -> str:
    """Return a hint: the known name closest to a mistyped one, or all known names if none is close.

    >>> nearest("layrs", ["layers", "size"])
    "did you mean 'layers'?"
    >>> nearest("zzz", ["size", "layers"])
    'known: layers, size'
    """
    names = sorted(known)
    close = get_close_matches(word, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names)}"
