"""A tag for every sentence."""

from windlass.tasks.base import Task

TAG_DOCUMENT = Task(
    "tag-document",
    "a tag for every turn of a dialog (dialog acts), or for every sentence of a document",
    metrics=("tag_accuracy",),
    metric="tag_accuracy",
    span_metrics=("span_f1", "span_precision", "span_recall"),
    sources=("document",),
    target="tags",
)
"""Tagging of sentences: tags that are right, and F1 of whole spans where tags mark spans."""
