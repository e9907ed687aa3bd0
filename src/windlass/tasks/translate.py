"""Machine translation."""

from windlass.tasks.base import Task

TRANSLATE = Task(
    "translate", "a sentence from one language to another", metrics=("bleu", "bleu_lc", "chrf"), metric="bleu"
)
"""Machine translation: sacreBLEU, cased and lowercased, and chrF2."""
