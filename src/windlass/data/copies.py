"""What a source lends a target: the target's vocabulary, extended for one example by what its source holds beyond it.

    ids 0 .. V - 1    the target's own
    ids V, V + 1 ...  the words of this source that the target's vocabulary has not, in the order of their first places

So a name that was never seen can be written by copying it. The ids mean something beside their source alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.marks import UNK
from windlass.data.tokenizer import Tokenizer


def beyond(target: Tokenizer, pieces: Sequence[str]) -> tuple[str, ...]:
    """The different pieces of a source that the target's vocabulary has not, in order: V, V + 1 ...

    >>> from windlass.data.tokens import TextOptions
    >>> tokenizer = Tokenizer.fit(TextOptions(tokens="words"), ["the city of"])
    >>> beyond(tokenizer, ["the", "city", "of", "Ulm", "near", "Ulm"])
    ('Ulm', 'near')
    """
    return tuple(dict.fromkeys(piece for piece in pieces if piece and target.find(piece) == UNK))


def held(target: Tokenizer, pieces: Sequence[str], more: Sequence[str]) -> list[int]:
    """The ids of a source's pieces in the extended vocabulary.

    >>> from windlass.data.tokens import TextOptions
    >>> tokenizer = Tokenizer.fit(TextOptions(tokens="words"), ["the city of"])
    >>> held(tokenizer, ["Ulm", "near", "the", "Ulm"], more=("Ulm", "near"))
    [7, 8, 6, 7]
    """
    extra = {piece: n for n, piece in enumerate(more, len(target))}
    return [extra[piece] if piece in extra else target.find(piece) for piece in pieces]


def wanted(target: Tokenizer, text: str, more: Sequence[str]) -> list[int]:
    """The ids of a target, where what the vocabulary has not is as the source has it, or else unknown.

    >>> from windlass.data.tokens import TextOptions
    >>> tokenizer = Tokenizer.fit(TextOptions(tokens="words"), ["the city of"])
    >>> wanted(tokenizer, "the city of Ulm on the Danube", more=("near", "Ulm"))
    [6, 4, 5, 8, 1, 6, 1]
    """
    extra = {piece: n for n, piece in enumerate(more, len(target))}
    ids = target.encode(text)
    if not extra or UNK not in ids:
        return ids
    return [extra.get(piece, UNK) if n == UNK else n for n, piece in zip(ids, target.pieces(text), strict=True)]
