"""Text classification."""

from windlass.tasks.base import Task

CLASSIFY = Task(
    "classify",
    "a text to a label (topic, sentiment, spam, question type)",
    metrics=("accuracy", "macro_f1"),
    metric="accuracy",
    sources=("text", "words"),
    target="label",
)
"""Text classification: accuracy and macro F1."""
