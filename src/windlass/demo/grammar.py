"""A small probabilistic grammar of English, which generates sentences with their trees: parsing without a treebank.

Attachment depends on the words (`of` attaches to a noun, `with` to a verb, `near` to a noun and rarely to a verb), so
that a parser has to look at words, not only at their tags.
"""

from __future__ import annotations

import random

from windlass.data.trees import Tree

RULES = {
    "S": "5 NP VP . | 1 PP , NP VP . | 1 SBAR , NP VP . | 0.7 S1 CC S1 .",
    "S1": "1 NP VP",
    "NP": "4 DT NN | 2 DT JJ NN | 2 DTs NNS | 1 JJ NNS | 2 PRP | 1.5 NNP | 1.2 NP PPof | 0.5 NP PPnear | 0.6 NP CC NP"
    " | 0.6 NP REL",
    "VP": "2 VBZ | 4 VBD NP | 2 VBD NP PPwith | 0.3 VBD NP PPnear | 1 VBD SBAR1 | 0.8 MD VPbase | 0.7 VBD ADVP",
    "VPbase": "2 VB NP | 1 VB NP PPwith | 0.5 VB ADVP",
    "ADVP": "3 RB | 1 RB RB",
    "PP": "1 IN NP",
    "PPof": "1 INof NP",
    "PPwith": "1 INwith NP",
    "PPnear": "1 IN NP",
    "SBAR": "1 INwhen S1",
    "SBAR1": "1 INthat S1",
    "REL": "1 WHNP VP",
    "WHNP": "1 WP",
}
"""The rules of every symbol, each with its weight."""
LEXICON = {
    "DT": "the a every this some", "DTs": "the some these",
    "NN": "cat dog king letter garden river child telescope key house",
    "NNS": "cats dogs letters keys children houses", "JJ": "old small green clever quiet strange",
    "PRP": "she he it they", "NNP": "Anna Boris Maria Pierre", "VBZ": "sleeps waits laughs sings",
    "VBD": "saw found wrote heard opened carried watched", "VB": "see find open carry watch", "MD": "will can may must",
    "RB": "slowly often again quietly soon", "CC": "and or but", "IN": "near behind under", "INof": "of",
    "INwith": "with", "INwhen": "when because while", "INthat": "that", "WP": "who that", ".": ". ! ?", ",": ",",
}  # fmt: skip
TREE_LABELS = {
    "S1": "S", "VPbase": "VP", "PPof": "PP", "PPwith": "PP", "PPnear": "PP", "SBAR1": "SBAR", "REL": "SBAR",
    "DTs": "DT", "INof": "IN", "INwith": "IN", "INwhen": "IN", "INthat": "IN",
}  # fmt: skip
"""The label of a symbol in a tree, if it differs."""
MAX_DEPTH = 7
"""At this depth, recursive rules are no longer sampled."""


def _expand(symbol: str, rng: random.Random, depth: int) -> Tree:
    label = TREE_LABELS.get(symbol, symbol)
    if symbol in LEXICON:
        return Tree(label, (rng.choice(LEXICON[symbol].split()),))
    rules = [rule.split() for rule in RULES[symbol].split(" | ")]
    if depth >= MAX_DEPTH:
        rules = [rule for rule in rules if not {"NP", "SBAR1", "S1"} & set(rule)] or rules[:1]
    (parts,) = rng.choices([parts for _, *parts in rules], [float(rule[0]) for rule in rules])
    return Tree(label, tuple(_expand(part, rng, depth + 1) for part in parts))


def grammar_trees(count: int, seed: int = 1, longest: int = 24) -> list[Tree]:
    """Return `count` different trees of sentences of at most `longest` words; reproducible by seed.

    >>> trees = grammar_trees(3)
    >>> print(trees[0])
    (S ...)
    >>> trees == grammar_trees(3), len({tree.words for tree in trees})
    (True, 3)
    """
    trees: dict[tuple[str, ...], Tree] = {}
    rng = random.Random(seed)
    while len(trees) < count:
        tree = _expand("S", rng, 0)
        if len(tree.words) <= longest:
            trees.setdefault(tree.words, tree)
    return list(trees.values())
