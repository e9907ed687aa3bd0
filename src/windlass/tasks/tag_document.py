"""Sequence labelling of sentences."""

from windlass.tasks.base import Task

TAG_DOCUMENT = Task(
    "tag-document",
    "a dialog or document to a tag per turn or sentence (dialog acts)",
    metrics=("tag_accuracy",),
    metric="tag_accuracy",
    span_metrics=("span_f1", "span_precision", "span_recall"),
    sources=("document",),
    target="tags",
)
"""Sentence tagging: accuracy of tags, and span F1 if tags mark spans."""
