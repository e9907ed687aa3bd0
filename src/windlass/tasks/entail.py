"""Whether one text follows from another."""

from windlass.tasks.base import Task

ENTAIL = Task(
    "entail",
    "two texts to one of some labels (does the second follow from the first?)",
    metrics=("accuracy", "macro_f1"),
    metric="accuracy",
    sources=("pair",),
    target="label",
)
"""Judging a pair: accuracy, and F1 as the mean over labels."""
