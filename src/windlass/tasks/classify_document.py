"""Document classification."""

from windlass.tasks.base import Task

CLASSIFY_DOCUMENT = Task(
    "classify-document",
    "a document, read sentence by sentence, to a label (topic, opinion, kind of letter)",
    metrics=("accuracy", "macro_f1"),
    metric="accuracy",
    sources=("document",),
    target="label",
)
"""Document classification: accuracy and macro F1."""
