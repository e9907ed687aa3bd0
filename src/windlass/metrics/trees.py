"""Parsing metrics: labelled bracketing F1 (PARSEVAL), as evalb computes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from windlass.core.errors import DataError
from windlass.data.trees import Tree
from windlass.metrics.edit import check_references

IGNORED_LABELS = frozenset({"TOP", "ROOT", "S1"})
"""Root labels that every tree has."""


def _tree(text: str) -> Tree | None:
    try:
        return Tree.read(text)
    except DataError:
        return None


def _brackets(tree: Tree) -> Counter[tuple[str, int, int]]:
    return Counter(bracket for bracket in tree.constituents() if bracket[0] not in IGNORED_LABELS)


def bracket_f1(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return precision, recall and F1 of labelled constituents over all sentences, in percent.

    As in evalb, part-of-speech tags and the root labels TOP, ROOT and S1 are ignored, and repeated constituents of
    unary chains all count. Punctuation counts as words. An output that is not a tree over the words of the
    sentence has no constituents; `well_formed` is the percentage that are.

    >>> gold = "(S (NP (DT the) (NN cat)) (VP (VBZ sleeps)))"
    >>> bracket_f1(["(S (NP (DT the)) (VP (NN cat) (VBZ sleeps)))"], [[gold]])["bracket_f1"]  # S of S, NP, VP
    33.33...
    """
    check_references(predictions, references)
    correct = predicted = gold = well_formed = 0
    for prediction, texts in zip(predictions, references, strict=True):
        gold_tree = Tree.read(texts[0])
        tree = _tree(prediction)
        gold_brackets = _brackets(gold_tree)
        gold += gold_brackets.total()
        if tree is not None and tree.words == gold_tree.words:
            brackets = _brackets(tree)
            well_formed += 1
            predicted += brackets.total()
            correct += (brackets & gold_brackets).total()
    return {
        "bracket_f1": 200 * correct / max(1, predicted + gold),
        "bracket_precision": 100 * correct / max(1, predicted),
        "bracket_recall": 100 * correct / max(1, gold),
        "well_formed": 100 * well_formed / len(predictions),
    }
