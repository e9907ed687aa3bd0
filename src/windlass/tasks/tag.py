"""Sequence labelling of words."""

from windlass.tasks.base import Task

TAG = Task(
    "tag",
    "a sentence to a tag per word (parts of speech; named entities as BIO)",
    metrics=("tag_accuracy",),
    metric="tag_accuracy",
    span_metrics=("span_f1", "span_precision", "span_recall"),
    sources=("words",),
    target="tags",
)
"""Tagging: accuracy of tags, and span F1 if tags mark spans."""
