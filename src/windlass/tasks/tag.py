"""A tag for every word."""

from windlass.tasks.base import Task

TAG = Task(
    "tag",
    "a tag for every word of a sentence (parts of speech; names, as BIO)",
    metrics=("tag_accuracy",),
    metric="tag_accuracy",
    span_metrics=("span_f1", "span_precision", "span_recall"),
    sources=("words",),
    target="tags",
)
"""Tagging: tags that are right, and F1 of whole spans where tags mark spans."""
