"""Transliteration."""

from windlass.tasks.base import Task

TRANSLITERATE = Task(
    "transliterate",
    "a name from one script to another; a source may have several references, a row each",
    metrics=("accuracy", "cer"),
    metric="accuracy",
    multi_reference=True,
)
"""Transliteration: accuracy of whole names, and character error rate."""
