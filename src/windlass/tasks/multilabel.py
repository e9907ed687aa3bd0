"""Multi-label classification."""

from windlass.tasks.base import Task

MULTILABEL = Task(
    "multilabel",
    "a text to any number of labels, separated by commas (topics, keywords)",
    metrics=("micro_f1", "label_macro_f1", "exact_match"),
    metric="micro_f1",
    sources=("text", "words", "document"),
    target="labels",
)
"""Multi-label classification: micro and macro F1, and exact match."""
