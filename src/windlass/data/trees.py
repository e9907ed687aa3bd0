"""Bracketed trees, `(S (NP (DT the) (NN cat)) (VP (VBZ sleeps)))`, and how they become a line of tokens.

A tree is written from left to right: `(NP` opens a constituent, `)` closes it (or `)NP`, where closing names it too). A
word is not written but counted, as `_` (XX in Vinyals et al. 2015); a word with its tag, `(DT the)`, is one token,
`(DT _)`. The words are put back from the sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from windlass.core.errors import DataError

PLACE = "_"
DEEPEST = 200
"""How deep constituents may be nested: several times deeper than any sentence."""
_PART = re.compile(r"\(|\)|[^\s()]+")
_PLACES = re.compile(rf"(?<!\S){PLACE}(?=[\s)]|$)")
_ESCAPED = {"(": "-LRB-", ")": "-RRB-"}
_PLAIN = {"-LRB-": "(", "-RRB-": ")"}


@dataclass(frozen=True)
class Tree:
    """A constituent: its label, and its parts, which are constituents or words.

    >>> tree = Tree.read("(S (NP (PRP I))  (VP (VBP see)))")
    >>> str(tree), tree.words, tree.constituents()
    ('(S (NP (PRP I)) (VP (VBP see)))', ('I', 'see'), [('S', 0, 2), ('NP', 0, 1), ('VP', 1, 2)])
    """

    label: str
    parts: tuple[Tree | str, ...]

    @classmethod
    def read(cls, text: str) -> Tree:
        """The tree that a text spells; an outer bracket without a label is left out, or called TOP."""
        found = _PART.findall(text)
        open_: list[tuple[str, list[Tree | str]]] = []
        whole: Tree | None = None
        for n, part in enumerate(found):
            if whole is not None:
                raise _wrong("something follows its end", text)
            if part == "(":
                label = found[n + 1] if n + 1 < len(found) and found[n + 1] not in "()" else ""
                open_.append((label, []))
                if len(open_) > DEEPEST:
                    raise _wrong(f"it is nested more than {DEEPEST} deep", text)
            elif part == ")":
                if not open_:
                    raise _wrong("it closes what is not open", text)
                label, parts = open_.pop()
                if not parts:
                    raise _wrong(f"the constituent {label or '()'} is empty", text)
                if not label and open_:
                    raise _wrong("a constituent has no label", text)
                inner = parts[0] if len(parts) == 1 else None
                tree = inner if not label and isinstance(inner, Tree) else cls(label or "TOP", tuple(parts))
                if open_:
                    open_[-1][1].append(tree)
                else:
                    whole = tree
            elif not open_:
                raise _wrong("it does not begin with a bracket", text)
            elif found[n - 1] != "(":  # else it is the label
                open_[-1][1].append(part)
        if whole is None:
            raise _wrong("a bracket is not closed" if open_ else "there is nothing", text)
        return whole

    @property
    def tags(self) -> bool:
        """Whether it is one word with its tag."""
        return len(self.parts) == 1 and isinstance(self.parts[0], str)

    @property
    def words(self) -> tuple[str, ...]:
        """The words, brackets as treebanks write them (-LRB-) made plain."""
        return tuple(_PLAIN.get(word, word) for word in self._leaves())

    def _leaves(self) -> Iterator[str]:
        for part in self.parts:
            if isinstance(part, str):
                yield part
            else:
                yield from part._leaves()

    def constituents(self, begin: int = 0) -> list[tuple[str, int, int]]:
        """Label, first word and the word after the last, of all but tags; the outer ones first."""
        if self.tags:
            return []
        found: list[tuple[str, int, int]] = []
        at = begin
        for part in self.parts:
            if isinstance(part, str):
                at += 1
            else:
                found += part.constituents(at)
                at += len(part.words)
        return [(self.label, begin, at), *found]

    def tokens(self, words: Literal["placeholder", "kept"], close: Literal["plain", "labelled"]) -> list[str]:
        """The tree as a line of tokens.

        >>> tree = Tree.read("(NP (DT the) (NN cat))")
        >>> tree.tokens("placeholder", "labelled"), tree.tokens("kept", "plain")
        (['(NP', '(DT _)', '(NN _)', ')NP'], ['(NP', '(DT', 'the', ')', '(NN', 'cat', ')', ')'])
        """
        if self.tags and words == "placeholder":
            return [f"({self.label} {PLACE})"]
        found = [f"({self.label}"]
        for part in self.parts:
            if isinstance(part, Tree):
                found += part.tokens(words, close)
            else:
                found.append(part if words == "kept" else PLACE)
        return [*found, ")" if close == "plain" else f"){self.label}"]

    def __str__(self) -> str:
        return f"({self.label} {' '.join(map(str, self.parts))})"


def _wrong(what: str, text: str) -> DataError:
    return DataError(f"not a tree: {what}: {text[:60]!r}{' ...' if len(text) > 60 else ''}")


def joined_tokens(tokens: Sequence[str]) -> str:
    """Tokens as the text of a tree, whether they make one or not.

    >>> joined_tokens(["(NP", "(DT _)", "(NN _)", ")NP"])
    '(NP (DT _) (NN _))'
    """
    return " ".join(")" if token.startswith(")") else token for token in tokens).replace(" )", ")")


def shown(token: str) -> str:
    """A token for people: of a word with its tag, the tag.

    >>> shown("(NP"), shown("(DT _)")
    ('(NP', 'DT')
    """
    return token[1 : -len(PLACE) - 2] if token.endswith(f" {PLACE})") else token


def with_words(text: str, words: Sequence[str]) -> str:
    """Put words in their places.

    >>> with_words("(NP (DT _) (NN _))", ["the", "cat"])
    '(NP (DT the) (NN cat))'
    """
    coming = iter(words)

    def put(_: re.Match[str]) -> str:
        word = "".join(next(coming, PLACE).split())
        return word.replace("(", _ESCAPED["("]).replace(")", _ESCAPED[")"])

    return _PLACES.sub(put, text)
