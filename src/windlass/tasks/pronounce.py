"""Letters to sounds."""

from windlass.tasks.base import Task

PRONOUNCE = Task(
    "pronounce",
    "spelling to phonemes, which are separated by spaces (cat -> k a t)",
    metrics=("wer", "per"),
    metric="wer",
)
"""Pronunciation: word and phone error rate, as in the SIGMORPHON shared tasks."""
