"""What is said next."""

from windlass.data.corpus import DIALOGS
from windlass.tasks.base import Task

REPLY = Task(
    "reply",
    "the next turn of a dialog, from the whole of it or from the last turn",
    metrics=("bleu", "distinct_1", "distinct_2"),
    metric="perplexity",
    forced=("perplexity",),
    sources=("document", "text"),
    reader=DIALOGS,
)
"""Dialogs: how likely the right replies are, BLEU, and how varied replies are."""
