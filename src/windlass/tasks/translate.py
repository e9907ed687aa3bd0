"""From one language to another."""

from windlass.tasks.base import Task

TRANSLATE = Task(
    "translate",
    "sentences from one language to another",
    metrics=("bleu", "bleu_lc", "chrf"),
    metric="bleu",
)
"""Translation: sacreBLEU, cased and lowercased, and chrF2."""
