"""Grapheme-to-phoneme conversion."""

from windlass.tasks.base import Task

PRONOUNCE = Task(
    "pronounce", "a spelling to phonemes separated by spaces (cat -> k a t)", metrics=("wer", "per"), metric="wer"
)
"""Grapheme-to-phoneme conversion: word and phone error rate, as in the SIGMORPHON shared tasks."""
