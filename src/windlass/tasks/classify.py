"""Which of some labels a text has."""

from windlass.tasks.base import Task

CLASSIFY = Task(
    "classify",
    "a text to one of some labels (topic, sentiment, spam, kind of question)",
    metrics=("accuracy", "macro_f1"),
    metric="accuracy",
    sources=("text", "words"),
    target="label",
)
"""Classification: accuracy, and F1 as the mean over labels."""
