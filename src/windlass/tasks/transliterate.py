"""From one script to another."""

from windlass.tasks.base import Task

TRANSLITERATE = Task(
    "transliterate",
    "names from one script to another; a source may have several right answers, a row each",
    metrics=("accuracy", "cer"),
    metric="accuracy",
    several_answers=True,
)
"""Transliteration: accuracy of whole names, and character error rate."""
