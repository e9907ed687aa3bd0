"""Figures by edit distance and by whole answers: error rates of words, phones and characters, and accuracy.

Two texts are the same where they are canonically equivalent (compared in NFC) and differ at most in how wide
their white space is. An item may have several right answers: the nearest one counts.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Hashable, Sequence

from windlass.core.errors import DataError


def edit_distance(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    """Return how many insertions, deletions and substitutions turn a into b (Levenshtein).

    Bit-parallel (Myers 1999, as told by Hyyrö 2003): a column of the table is two whole numbers, whose bits
    say where it goes up by one and where it goes down, so a step costs a few operations however long `a` is.

    >>> edit_distance("kitten", "sitting"), edit_distance(["k", "a"], [])
    (3, 2)
    """
    if a == b or not a or not b:
        return 0 if a == b else len(a) + len(b)
    places: dict[Hashable, int] = {}
    for i, symbol in enumerate(a):
        places[symbol] = places.get(symbol, 0) | 1 << i
    full, last = (1 << len(a)) - 1, 1 << (len(a) - 1)
    up, down, distance = full, 0, len(a)
    for symbol in b:
        equal = places.get(symbol, 0)
        diagonal = (((equal & up) + up) ^ up) | equal | down
        right_up, right_down = down | (full & ~(diagonal | up)), up & diagonal
        if right_up & last:
            distance += 1
        elif right_down & last:
            distance -= 1
        right_up, right_down = (right_up << 1 | 1) & full, (right_down << 1) & full
        up, down = right_down | (full & ~(diagonal | right_up)), right_up & diagonal
    return distance


def check_pairs(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    """Refuse what cannot be scored: no items, unequal counts, an item without a right answer.

    >>> check_pairs(["a"], [["a", "b"]])
    >>> check_pairs(["a"], [])
    Traceback (most recent call last):
        ...
    windlass.core.errors.DataError: 1 predictions but 0 references: every prediction needs its right answers
    """
    if len(predictions) != len(references):
        raise DataError(
            f"{len(predictions)} predictions but {len(references)} references: every prediction needs its right answers"
        )
    if not predictions:
        raise DataError("nothing to score: there are no predictions")
    for i, answers in enumerate(references):
        if isinstance(answers, str):
            raise DataError(f"references[{i}] is a string: give a list of right answers, such as [{answers!r}]")
        if not answers:
            raise DataError(f"references[{i}] is empty: every item needs at least one right answer")


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())


def _percent_right(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    check_pairs(predictions, references)
    pairs = zip(predictions, references, strict=True)
    right = sum(_plain(prediction) in map(_plain, answers) for prediction, answers in pairs)
    return 100 * right / len(predictions)


def _error_rate(
    predictions: Sequence[str],
    references: Sequence[Sequence[str]],
    units: Callable[[str], Sequence[str]],
) -> float:
    """Edits to the nearest answer (the first of equally near ones) in percent of those answers' length."""
    check_pairs(predictions, references)
    edits = length = 0
    for prediction, answers in zip(predictions, references, strict=True):
        said = units(_plain(prediction))
        distance, size = min(
            ((edit_distance(said, answer), len(answer)) for answer in map(units, map(_plain, answers))),
            key=lambda found: found[0],
        )
        edits, length = edits + distance, length + size
    return 100 * edits / max(1, length)


def accuracy(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return the percentage of items whose whole output is one of the right answers.

    >>> accuracy(["a", "b"], [["a"], ["c", "d"]])
    {'accuracy': 50.0}
    """
    return {"accuracy": _percent_right(predictions, references)}


def word_error_rate(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return the percentage of items whose whole output differs from every right answer.

    This is the word error rate of pronunciation, where an item is a word (SIGMORPHON 2020, task 1), not that
    of speech recognition, which counts edits inside a sentence.

    >>> word_error_rate(["k a t", "d o g"], [["k æ t", "k a t"], ["d ɒ g"]])
    {'wer': 50.0}
    """
    return {"wer": 100 - _percent_right(predictions, references)}


def phone_error_rate(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return edits over tokens (split at white space) in percent of the tokens of the nearest right answers.

    Summed over all items before dividing, as SIGMORPHON does, so long words weigh more.

    >>> phone_error_rate(["k a t", "d o g s"], [["k æ t"], ["d o g"]])["per"]  # 2 edits, 6 phones
    33.33...
    """
    return {"per": _error_rate(predictions, references, str.split)}


def character_error_rate(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return edits over characters (code points of NFC) in percent of those of the nearest right answers.

    >>> character_error_rate(["Rom"], [["Roma", "Rome"]])
    {'cer': 25.0}
    """
    return {"cer": _error_rate(predictions, references, lambda text: text)}
