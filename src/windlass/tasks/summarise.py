"""Summarisation."""

from windlass.tasks.base import Task

SUMMARISE = Task(
    "summarise",
    "a text to its summary or headline; unknown names are copied",
    metrics=("rouge_1", "rouge_2", "rouge_l"),
    metric="rouge_l",
    sources=("text", "document"),
    lead=8,
)
"""Summarisation: ROUGE, beside the lead baseline."""
