"""Any number of labels for a text."""

from windlass.tasks.base import Task

MULTILABEL = Task(
    "multilabel",
    "a text to any number of labels, separated by commas (topics, keywords)",
    metrics=("micro_f1", "label_macro_f1", "exact_match"),
    metric="micro_f1",
    sources=("text", "words", "document"),
    target="labels",
)
"""Multi-label classification: F1 over all assignments and over labels, and sets that are exactly right."""
