"""Which of some labels a document has."""

from windlass.tasks.base import Task

CLASSIFY_DOCUMENT = Task(
    "classify-document",
    "a document, read as sentences of words, to one of some labels (topic, opinion, kind of letter)",
    metrics=("accuracy", "macro_f1"),
    metric="accuracy",
    sources=("document",),
    target="label",
)
"""Classification of documents: accuracy, and F1 as the mean over labels."""
