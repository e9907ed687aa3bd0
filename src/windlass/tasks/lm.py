"""Language modelling."""

from windlass.data.corpus import RUNNING_TEXT
from windlass.tasks.base import Task

LM = Task(
    "lm",
    "a language model: the likelihood of texts, and their continuation",
    metrics=("nats", "perplexity", "bpc"),
    metric="nats",
    sources=("none",),
    reader=RUNNING_TEXT,
)
"""Language modelling: negative log likelihood per token, perplexity, bits per character."""
