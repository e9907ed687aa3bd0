"""Cutting a text into words, at spaces or around punctuation too, and putting it together again."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Literal

import regex

JOINER = "￭"  # U+FFED: here no space stood
_CLITIC = r"(?i:n['’]t|['’](?:s|re|ve|ll|d|m))(?!\w)"
_WORD = regex.compile(
    r"(?:https?://|www\.)\S*[\w/]|[\w.+-]+@[\w-]+(?:\.[\w-]+)+|[@#]\w+"  # addresses, handles, hashtags
    r"|\d+(?:[.,:]\d+)*"
    rf"|(?:(?!{_CLITIC})[\w\p{{M}}])+(?:-(?!\W)|(?:(?!{_CLITIC})[\w\p{{M}}])+)*|{_CLITIC}"
    r"|(\p{P})\1*|\S"
)
_SPACED = regex.compile(r"\S+")
_AROUND_JOINER = regex.compile(rf" ?{JOINER} ?")


def cut(text: str, how: Literal["punctuation", "spaces"]) -> list[tuple[int, int]]:
    """Where the words of a text are, in characters.

    >>> text = "I can't see J. Doe (ok?)."
    >>> [text[a:b] for a, b in cut(text, "punctuation")]
    ['I', 'ca', "n't", 'see', 'J', '.', 'Doe', '(', 'ok', '?', ')', '.']
    """
    return [found.span() for found in (_WORD if how == "punctuation" else _SPACED).finditer(text)]


def marked(text: str) -> list[str]:
    """Words and punctuation, with a mark where no space stood between two, on the one that is no word.

    So a word is the same word whatever stands beside it. A mark that is part of the text becomes another sign.

    >>> marked("Isn't it (Ulm)?")
    ['Is', "￭n't", 'it', '(￭', 'Ulm', '￭)', '￭?']
    """
    text = text.replace(JOINER, "■")
    places = cut(text, "punctuation")
    found = [text[a:b] for a, b in places]
    for n, ((_, end), (begin, _)) in enumerate(pairwise(places)):
        if end == begin:
            if _is_word(found[n].removeprefix(JOINER)) or not _is_word(found[n + 1]):
                found[n + 1] = JOINER + found[n + 1]
            else:
                found[n] += JOINER
    return found


def _is_word(piece: str) -> bool:
    return piece[:1].isalnum() or (len(piece) > 1 and any(map(str.isalnum, piece)))


def unmarked(pieces: Iterable[str]) -> str:
    """The text that `marked` cut, with one space where there was any.

    >>> unmarked(marked("Isn't it (Ulm)?")), unmarked(["a", "￭/￭", "b", "￭."])
    ("Isn't it (Ulm)?", 'a/b.')
    """
    return str(_AROUND_JOINER.sub("", " ".join(pieces)))
