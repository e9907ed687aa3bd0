"""Sequence-to-sequence on any pairs of texts."""

from windlass.tasks.base import Task

TEXT = Task("text", "any text to any text: two columns of your own", metrics=("accuracy", "cer", "chrf"), metric="cer")
"""The general task: accuracy of whole outputs, character error rate, chrF2."""
