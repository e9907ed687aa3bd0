"""Parsing baselines: right-branching trees, and the most frequent tree for the number of words."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from windlass.data.examples import Pairs, Value
from windlass.data.trees import Tree, joined_tokens, with_words

RIGHT, COMMONEST = "right-branching", "commonest tree of its length"


@dataclass(frozen=True)
class TreeBaseline:
    """A tree of the shape stored for the number of words or, without one, a right-branching tree.

    Every word has its most frequent tag, an unknown word the most frequent overall.

    >>> TreeBaseline(RIGHT, {"the": "DT"}, "NN", "S", "NP", {}).predict(["the big cat"])
    ['(S (DT the) (NP (NN big) (NN cat)))']
    """

    name: str
    tags: Mapping[str, str]
    tag: str  # of unknown words; blank if words have no tags
    root: str
    inner: str
    shapes: Mapping[str, str]  # by number of words

    def check(self) -> None:
        """Raise ValueError if the parts, read from a file, do not fit together: any do."""

    def predict(self, sources: Sequence[Value]) -> list[str]:
        """Return a tree for every source."""
        return [self._one(source.split() if isinstance(source, str) else source) for source in sources]

    def _one(self, words: Sequence[str]) -> str:
        shape = self.shapes.get(str(len(words)))
        return self._right(words) if shape is None else with_words(shape, words)

    def _right(self, words: Sequence[str]) -> str:
        tokens = []
        for n, word in enumerate(words):
            if n == 0 or n < len(words) - 1:
                tokens.append(f"({self.inner if n else self.root}")
            tag = self.tags.get(word, self.tag)
            tokens.append(f"({tag} _)" if tag else "_")
        return with_words(joined_tokens([*tokens, *[")"] * max(1, len(words) - 1)]), words)


def tree_baselines(train: Pairs) -> list[TreeBaseline]:
    """Fit both baselines, the simpler first.

    >>> two = tree_baselines([(("I", "see"), "(S (NP (PRP I)) (VP (VBP see)))")])
    >>> [baseline.predict(["you see"])[0] for baseline in two]
    ['(S (PRP you) (VBP see))', '(S (NP (PRP you)) (VP (VBP see)))']
    """
    tags: defaultdict[str, Counter[str]] = defaultdict(Counter)
    roots: Counter[str] = Counter()
    inner: Counter[str] = Counter()
    shapes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    every: Counter[str] = Counter()
    for _, text in train:
        tree = Tree.read(text)
        roots[tree.label] += 1
        inner.update(label for label, _, _ in tree.constituents()[1:])
        for word, tag in _tagged(tree):
            tags[word][tag] += 1
            every[tag] += 1
        shapes[str(len(tree.words))][joined_tokens(tree.tokens("placeholder", "plain"))] += 1
    root = roots.most_common(1)[0][0]
    frequent = {word: found.most_common(1)[0][0] for word, found in tags.items()}
    tag = every.most_common(1)[0][0]
    label = inner.most_common(1)[0][0] if inner else root
    known = {length: found.most_common(1)[0][0] for length, found in shapes.items()}
    return [
        TreeBaseline(RIGHT, frequent, tag, root, label, {}),
        TreeBaseline(COMMONEST, frequent, tag, root, label, known),
    ]


def _tagged(tree: Tree) -> list[tuple[str, str]]:
    """Words with their tags; a blank tag for a word without one."""
    if tree.tags:
        return [(tree.words[0], tree.label)]
    return [pair for part in tree.parts for pair in ([(part, "")] if isinstance(part, str) else _tagged(part))]
