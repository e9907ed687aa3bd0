"""Recognise columns of phonemes, with spaces between or without."""

from __future__ import annotations

import re
from collections.abc import Sequence
from statistics import fmean

from windlass.data.column_sample import ColumnSample
from windlass.data.sniff import PHONEME_NAMES, plain_name

_PHONETIC = re.compile("[\u0250-\u02af\u02c8\u02cc\u02d0]")  # IPA, stress and length
_SOUND = re.compile("(?![ɑɓɔɖɗəɛɣɨɩɬɲɵʉʊʋʒʔ])[\u0250-\u02af\u02c8\u02cc\u02d0]")  # without letters of orthographies


def phonemes(column: ColumnSample) -> bool:
    """Whether texts are phonemes with spaces between, by the name of the column, by letters of IPA or one by one.

    >>> phonemes(ColumnSample(2, None, ["k æ t", "d ɒ ɡ"])), phonemes(ColumnSample(2, None, ["kæt", "dɒɡ"]))
    (True, False)
    """
    pieces = [piece for text in column.texts for piece in text.split()]
    if not pieces or len(pieces) < 2 * len(column.texts):
        return False
    size = fmean(map(len, pieces))
    return size < 1.5 or (size <= 3 and (_named(column) or _phonetic(column) > 0.2))


def transcribes(column: ColumnSample, source: ColumnSample) -> bool:
    """Whether texts are words without spaces between phonemes, by their name, or by letters of IPA that words lack.

    Some letters of IPA are letters of orthographies too, as `ɛ` and `ɖ` of Ewe.

    >>> words, columns = ColumnSample(1, "word", ["cat", "dog"]), (["kæt", "dɒɡ"], ["dadi", "avɔ"])
    >>> [transcribes(ColumnSample(2, None, column), words) for column in columns]
    [True, False]
    """
    return column.words == 1 and (_named(column) or _phonetic(column, _SOUND) > 0.2 + _phonetic(source, _SOUND))


def sound_columns(columns: Sequence[ColumnSample]) -> list[ColumnSample]:
    """The columns of phonemes with spaces between, if another column holds the words.

    >>> columns = [ColumnSample(1, None, ["cat", "dog"]), ColumnSample(2, None, ["k æ t", "d ɒ ɡ"])]
    >>> [column.number for column in sound_columns(columns)], sound_columns(columns[1:])
    ([2], [])
    """
    texts = [c for c in columns if c.looks == "text"]
    found = [c for c in texts if c.words > 1 and phonemes(c)]
    return found if any(c.words == 1 for c in texts) else []


def _named(column: ColumnSample) -> bool:
    return plain_name(column.name or "") in PHONEME_NAMES


def _phonetic(column: ColumnSample, letters: re.Pattern[str] = _PHONETIC) -> float:
    """The share of texts with letters of IPA."""
    return sum(letters.search(text) is not None for text in column.texts) / max(1, len(column.texts))
