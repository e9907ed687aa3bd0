"""A sentence to its tree, and back."""

from windlass.tasks.base import Task

PARSE = Task(
    "parse",
    "a sentence to its bracketed tree, which is always well-formed",
    metrics=("bracket_f1", "bracket_precision", "bracket_recall", "well_formed", "accuracy"),
    metric="bracket_f1",
    sources=("words", "text"),
    target="tree",
)
"""Parsing as translation: F1 of labelled brackets, and whole trees that are right."""

UNPARSE = Task(
    "unparse",
    "a bracketed tree to its sentence",
    metrics=("accuracy", "bleu", "chrf"),
    metric="bleu",
)
"""The way back: whole sentences that are right, BLEU and chrF2."""
