"""Accuracy, and error rates of words, phones and characters by edit distance.

Texts are compared in Unicode NFC, with runs of whitespace as one space. An item may have several references: the
closest one counts.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Hashable, Sequence
from itertools import chain

from windlass.core.errors import DataError


def edit_distance(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    """Return the Levenshtein distance: the insertions, deletions and substitutions that turn a into b.

    Bit-parallel (Myers 1999, in the form of Hyyrö 2003): a column of the dynamic programming table is two integers,
    whose bits mark where it increases and where it decreases, so a column takes a few operations, however long `a` is.

    >>> edit_distance("kitten", "sitting"), edit_distance(["k", "a"], [])
    (3, 2)
    """
    if a == b or not a or not b:
        return 0 if a == b else len(a) + len(b)
    positions: dict[Hashable, int] = {}  # bit i is set where a[i] is the symbol
    for i, symbol in enumerate(a):
        positions[symbol] = positions.get(symbol, 0) | 1 << i
    full, last = (1 << len(a)) - 1, 1 << (len(a) - 1)
    up, down, distance = full, 0, len(a)
    for symbol in b:
        equal = positions.get(symbol, 0)
        diagonal = (((equal & up) + up) ^ up) | equal | down
        right_up, right_down = down | (full & ~(diagonal | up)), up & diagonal
        if right_up & last:
            distance += 1
        elif right_down & last:
            distance -= 1
        right_up, right_down = (right_up << 1 | 1) & full, (right_down << 1) & full
        up, down = right_down | (full & ~(diagonal | right_up)), right_up & diagonal
    return distance


def check_references(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    """Raise DataError if there are no items, unequal counts, or an item without a reference.

    >>> check_references(["a"], [["a", "b"]])
    >>> check_references(["a"], [])
    Traceback (most recent call last):
    windlass.core.errors.DataError: 1 predictions but 0 references: every prediction needs references
    """
    if len(predictions) != len(references):
        raise DataError(
            f"{len(predictions)} predictions but {len(references)} references: every prediction needs references"
        )
    if not predictions:
        raise DataError("nothing to score: there are no predictions")
    for i, item in enumerate(references):
        if isinstance(item, str):
            raise DataError(f"references[{i}] is a string: give a list of references, such as [{item!r}]")
        if not item:
            raise DataError(f"references[{i}] is empty: every item needs at least one reference")


def _normalise(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())


def _exact_match(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    check_references(predictions, references)
    pairs = zip(predictions, references, strict=True)
    correct = sum(_normalise(prediction) in map(_normalise, items) for prediction, items in pairs)
    return 100 * correct / len(predictions)


def _error_rate(
    predictions: Sequence[str], references: Sequence[Sequence[str]], split: Callable[[str], Sequence[str]]
) -> float:
    """Edits to the closest reference (ties: the first) in percent of the length of these references."""
    check_references(predictions, references)
    edits = length = 0
    for prediction, items in zip(predictions, references, strict=True):
        hypothesis = split(_normalise(prediction))
        targets = [split(_normalise(item)) for item in items]
        distances = [edit_distance(hypothesis, target) for target in targets]
        distance, size = min(zip(distances, map(len, targets), strict=True), key=lambda closest: closest[0])
        edits, length = edits + distance, length + size
    return 100 * edits / max(1, length)


def accuracy(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return the percentage of outputs that match a reference.

    >>> accuracy(["a", "b"], [["a"], ["c", "d"]])
    {'accuracy': 50.0}
    """
    return {"accuracy": _exact_match(predictions, references)}


def wrong_words(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return the percentage of outputs that match no reference.

    This is the word error rate of grapheme-to-phoneme conversion, where an item is a word (SIGMORPHON 2020, task 1);
    that of speech recognition, which counts the edits of a sentence, is `word_error_rate`.

    >>> wrong_words(["k a t", "d o g"], [["k æ t", "k a t"], ["d ɒ g"]])
    {'wer': 50.0}
    """
    return {"wer": 100 - _exact_match(predictions, references)}


def phone_error_rate(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return the edits of phones in percent of the phones of the closest references.

    Both are summed over all items first (micro-averaged), as in SIGMORPHON. Spaces separate phones; if most texts have
    none, as transcriptions are often written, characters (NFC code points) are counted.

    >>> phone_error_rate(["k a t", "d o g s"], [["k æ t"], ["d o g"]])["per"]  # 2 edits, 6 phones
    33.33...
    >>> phone_error_rate(["kat", "dogs"], [["kæt"], ["dog"]])["per"]  # 2 edits, 6 characters
    33.33...
    """
    texts = [*predictions, *chain.from_iterable(references)]
    spaced = 2 * sum(len(text.split()) > 1 for text in texts) >= len(texts)
    return {"per": _error_rate(predictions, references, str.split if spaced else str)}


def word_error_rate(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return the edits of words in percent of the words of the closest references, as for transcripts of speech.

    Both are summed over all items first. Case and punctuation count: a word is what stands between spaces.

    >>> word_error_rate(["the cat sat", "a dog"], [["the cat sat down"], ["the dog"]])["word_error_rate"]  # 2 of 6
    33.33...
    """
    return {"word_error_rate": _error_rate(predictions, references, str.split)}


def character_error_rate(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return the edits of characters (NFC code points) in percent of the characters of the closest references.

    >>> character_error_rate(["Rom"], [["Roma", "Rome"]])
    {'cer': 25.0}
    """
    return {"cer": _error_rate(predictions, references, lambda text: text)}
