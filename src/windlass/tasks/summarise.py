"""What a text says, in short."""

from windlass.tasks.base import Task

SUMMARISE = Task(
    "summarise",
    "a text to its summary or headline; names that were never seen are copied",
    metrics=("rouge_1", "rouge_2", "rouge_l"),
    metric="rouge_l",
    sources=("text", "document"),
    lead=8,
)
"""Summaries and headlines: ROUGE beside that of the first words."""
