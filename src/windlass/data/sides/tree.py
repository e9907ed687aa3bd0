"""Trees over the words of a sentence, written as brackets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final

from windlass.core.errors import DataError
from windlass.data.examples import Example, Value
from windlass.data.sides.base import Brackets, CellError, SourceSide
from windlass.data.sides.text import WrittenTarget
from windlass.data.tokens import TextOptions
from windlass.data.trees import Tree, with_words


@final
@dataclass(frozen=True)
class TreeTarget(WrittenTarget):
    """A tree, whose words are those of the source: options are those of a text with tokens of kind `tree`.

    >>> from windlass.core.records import Hypothesis
    >>> from windlass.data.sides.words import WordsSource
    >>> side, (value, *_) = TreeTarget.tiny()
    >>> ids = tuple(side.encode(value).tolist())
    >>> side.answer(Hypothesis(ids, 0.0, ()), WordsSource.tiny()[0], ("the", "cat", "runs"))[0]
    '(S (NP (DT the) (NN cat)) (VP runs))'
    """

    trees = True
    baselines = ("guessed trees",)

    @classmethod
    def match(cls, example: Example, source: type[SourceSide], options: Any) -> Example:
        """Check that the words of the tree are those of the sentence."""
        words = source.split(options, example.source)
        try:
            found = [Tree.read(text) for text in example.targets]
        except DataError as error:
            raise CellError("not a tree", str(error)) from None
        if any(tree.words != words for tree in found):
            raise CellError("not a tree", "the words of the tree are not those of the sentence")
        return replace(example, source=words, targets=tuple(map(str, found)))

    def brackets(self, source: SourceSide, values: Sequence[Value]) -> Brackets:
        """The tokens, and how many words each sentence has."""
        return self.tokenizer.symbols, [len(source.words(value)) for value in values]

    def _text(self, decoded: str, source: SourceSide, value: Value) -> str:
        return with_words(decoded, source.words(value))

    @classmethod
    def tiny(cls) -> tuple[TreeTarget, tuple[Value, ...]]:
        trees = ("(S (NP (DT the) (NN cat)) (VP runs))", "(S (NP (NN dogs)) (VP (VB run)))")
        return cls.fit(TextOptions(tokens="tree"), trees), trees
