"""Figures of bracketed trees: constituents that are right, as evalb counts them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from windlass.core.errors import DataError
from windlass.data.trees import Tree
from windlass.metrics.edit import check_pairs

NOT_COUNTED = frozenset({"TOP", "ROOT", "S1"})
"""Labels of a root that every tree has."""


def _tree(text: str) -> Tree | None:
    try:
        return Tree.read(text)
    except DataError:
        return None


def _brackets(tree: Tree) -> Counter[tuple[str, int, int]]:
    return Counter(found for found in tree.constituents() if found[0] not in NOT_COUNTED)


def bracket_f1(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Precision, recall and F1 of constituents, each with its label and words right, over all sentences, in percent.

    As in evalb (PARSEVAL), tags of words and a root called TOP, ROOT or S1 are not counted, and of the same constituent
    twice, as in a chain, both are. Punctuation is a word like others here. An output that is no tree, or not one of the
    sentence's words, has no constituent; `well_formed` is how many are one.

    >>> gold = "(S (NP (DT the) (NN cat)) (VP (VBZ sleeps)))"
    >>> bracket_f1(["(S (NP (DT the)) (VP (NN cat) (VBZ sleeps)))"], [[gold]])["bracket_f1"]  # S of S, NP, VP
    33.33...
    """
    check_pairs(predictions, references)
    right = found = gold = well = 0
    for prediction, answers in zip(predictions, references, strict=True):
        true = Tree.read(answers[0])
        tree = _tree(prediction)
        counted = _brackets(true)
        gold += counted.total()
        if tree is not None and tree.words == true.words:
            guessed = _brackets(tree)
            well += 1
            found += guessed.total()
            right += (guessed & counted).total()
    return {
        "bracket_f1": 200 * right / max(1, found + gold),
        "bracket_precision": 100 * right / max(1, found),
        "bracket_recall": 100 * right / max(1, gold),
        "well_formed": 100 * well / len(predictions),
    }
