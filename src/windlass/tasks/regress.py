"""Regression from a text, or from a pair of texts."""

from windlass.tasks.base import Task

REGRESS = Task(
    "regress",
    "a text to a number (a rating, a year, a price)",
    metrics=("pearson", "spearman", "mse"),
    metric="pearson",
    sources=("text", "words", "document"),
    target="number",
)
"""Regression: Pearson and Spearman correlation, and mean squared error."""

SIMILARITY = Task(
    "similarity",
    "a pair of texts to a number (how similar are they?)",
    metrics=("pearson", "spearman", "mse"),
    metric="pearson",
    sources=("pair",),
    target="number",
)
"""Semantic similarity: regression from a pair of texts."""
