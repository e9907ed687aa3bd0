"""What comes next in a text."""

from windlass.data.corpus import RUNNING_TEXT
from windlass.tasks.base import Task

LM = Task(
    "lm",
    "a language model: how likely a text is, and how it goes on",
    metrics=("nats", "perplexity", "bpc"),
    metric="nats",
    sources=("none",),
    reader=RUNNING_TEXT,
)
"""Language modelling: mean negative log likelihood a token, perplexity, bits a character."""
