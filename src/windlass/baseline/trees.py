"""Baselines of trees: right-branching, and the commonest tree of sentences as long."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from windlass.data.examples import Pairs, Value
from windlass.data.trees import Tree, joined_tokens, with_words

RIGHT, COMMONEST = "right-branching", "commonest tree of its length"


@dataclass(frozen=True)
class TreeGuess:
    """A tree of a known shape where there is one for the sentence's length, else one that branches to the right.

    Every word has its commonest tag, and the commonest of all where it was never seen. Plain data, as JSON keeps it.

    >>> TreeGuess(RIGHT, {"the": "DT"}, "NN", "S", "NP", {}).predict(["the big cat"])
    ['(S (DT the) (NP (NN big) (NN cat)))']
    """

    name: str
    tags: Mapping[str, str]
    tag: str  # blank where words have no tags
    root: str
    inner: str
    shapes: Mapping[str, str]  # by the number of words

    def predict(self, sources: Sequence[Value]) -> list[str]:
        """Return a tree for every source."""
        return [self._one(source.split() if isinstance(source, str) else source) for source in sources]

    def _one(self, words: Sequence[str]) -> str:
        shape = self.shapes.get(str(len(words)))
        return self._right(words) if shape is None else with_words(shape, words)

    def _right(self, words: Sequence[str]) -> str:
        found = []
        for n, word in enumerate(words):
            if n == 0 or n < len(words) - 1:
                found.append(f"({self.inner if n else self.root}")
            tag = self.tags.get(word, self.tag)
            found.append(f"({tag} _)" if tag else "_")
        return with_words(joined_tokens([*found, *[")"] * max(1, len(words) - 1)]), words)


def tree_guesses(train: Pairs) -> list[TreeGuess]:
    """Both baselines, the simplest first.

    >>> two = tree_guesses([(("I", "see"), "(S (NP (PRP I)) (VP (VBP see)))")])
    >>> [guess.predict(["you see"])[0] for guess in two]
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
    usual = {word: found.most_common(1)[0][0] for word, found in tags.items()}
    tag = every.most_common(1)[0][0]
    label = inner.most_common(1)[0][0] if inner else root
    known = {length: found.most_common(1)[0][0] for length, found in shapes.items()}
    return [TreeGuess(RIGHT, usual, tag, root, label, {}), TreeGuess(COMMONEST, usual, tag, root, label, known)]


def _tagged(tree: Tree) -> list[tuple[str, str]]:
    """Words with their tags; a blank tag for a word that has none."""
    if tree.tags:
        return [(tree.words[0], tree.label)]
    return [pair for part in tree.parts for pair in ([(part, "")] if isinstance(part, str) else _tagged(part))]
