"""Natural language inference."""

from windlass.tasks.base import Task

ENTAIL = Task(
    "entail",
    "a pair of texts to a label (does the second follow from the first?)",
    metrics=("accuracy", "macro_f1"),
    metric="accuracy",
    sources=("pair",),
    target="label",
)
"""Natural language inference: accuracy and macro F1."""
