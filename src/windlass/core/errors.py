"""The errors a user may meet: where, what, and how to mend it. The CLI prints them without a traceback."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class WindlassError(Exception):
    """Anything that a user can mend.

    >>> str(WindlassError("no such file: pairs.tsv"))
    'no such file: pairs.tsv'
    """


class RecipeError(WindlassError):
    """A recipe that cannot be built: an unknown key, a wrong value, an option that nothing would use.

    >>> isinstance(RecipeError("train.epochs: must be at least 1"), WindlassError)
    True
    """


class DataError(WindlassError):
    """Data that cannot be used: names the file, the line where there is one, and what is wrong.

    >>> isinstance(DataError("pairs.tsv:3: no second column"), WindlassError)
    True
    """


class BundleError(WindlassError):
    """A model folder that is damaged, foreign, or made by a newer version.

    >>> isinstance(BundleError("model/: not a Windlass bundle"), WindlassError)
    True
    """


class TrainingError(WindlassError):
    """A run that cannot go on, such as one whose loss is not a number any more.

    >>> isinstance(TrainingError("loss is NaN at step 12"), WindlassError)
    True
    """


def nearest(word: str, known: Iterable[str]) -> str:
    """Return a hint that names the known word nearest to a mistyped one, or lists all of them.

    >>> nearest("layrs", ["layers", "size"])
    "did you mean 'layers'?"
    >>> nearest("zzz", ["size", "layers"])
    'known: layers, size'
    """
    names = sorted(known)
    close = get_close_matches(word, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names)}"
