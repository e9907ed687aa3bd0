"""Dialog response generation."""

from windlass.data.corpus import DIALOGS
from windlass.tasks.base import Task

REPLY = Task(
    "reply",
    "the next turn of a dialog, from all turns before it or the last one",
    metrics=("bleu", "distinct_1", "distinct_2"),
    metric="perplexity",
    likelihood_metrics=("perplexity",),
    sources=("document", "text"),
    reader=DIALOGS,
)
"""Dialog: perplexity of the references, BLEU, and the diversity of replies (distinct-n)."""
