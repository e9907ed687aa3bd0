"""A number for a text, or for two."""

from windlass.tasks.base import Task

REGRESS = Task(
    "regress",
    "a text to a number (a rating, a year, a price)",
    metrics=("pearson", "spearman", "mse"),
    metric="pearson",
    sources=("text", "words", "document"),
    target="number",
)
"""Regression: correlation with the right numbers, and the mean squared error."""

SIMILARITY = Task(
    "similarity",
    "two texts to a number (how similar are they?)",
    metrics=("pearson", "spearman", "mse"),
    metric="pearson",
    sources=("pair",),
    target="number",
)
"""Regression from a pair of texts."""
