"""Any text to any text."""

from windlass.tasks.base import Task

TEXT = Task(
    "text",
    "any text to any text: two columns of your own",
    metrics=("accuracy", "cer", "chrf"),
    metric="cer",
)
"""The general task: whole outputs right, character error rate, and chrF2."""
