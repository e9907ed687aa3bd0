"""Constituency parsing, and generation from trees."""

from windlass.tasks.base import Task

PARSE = Task(
    "parse",
    "a sentence to its bracketed tree, always well-formed",
    metrics=("bracket_f1", "bracket_precision", "bracket_recall", "well_formed", "accuracy"),
    metric="bracket_f1",
    sources=("words", "text"),
    target="tree",
)
"""Parsing as sequence-to-sequence (Vinyals et al. 2015): F1 of labelled brackets, and exact trees."""

UNPARSE = Task("unparse", "a bracketed tree to its sentence", metrics=("accuracy", "bleu", "chrf"), metric="bleu")
"""The reverse: exact sentences, BLEU and chrF2."""
