"""Two texts as one source: premise and hypothesis, question and answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, final

from pydantic import BeforeValidator, Field

from windlass.core.fitting import Gives, Offers, Term
from windlass.core.options import Options
from windlass.core.records import Padded, Places
from windlass.data.encoded import Arrays
from windlass.data.examples import Value
from windlass.data.sides.base import CellError, Json, SourceSide, TokenizedSource, text_cell
from windlass.data.sides.text import TextSource
from windlass.data.sides.words import WordsOptions, WordsSource
from windlass.data.tokenizer import Tokenizer
from windlass.data.tokens import TextOptions


def text_by_default(value: Any) -> Any:
    """Options of a side by the name of their kind alone, or of kind `text` where they name none.

    >>> text_by_default("words"), text_by_default({"lowercase": True})
    ({'kind': 'words'}, {'kind': 'text', 'lowercase': True})
    """
    if isinstance(value, str):
        return {"kind": value}
    return {"kind": "text", **value} if isinstance(value, dict) else value


EachOptions = Annotated[TextOptions | WordsOptions, Field(discriminator="kind"), BeforeValidator(text_by_default)]
"""How a text of a pair can become tokens; what names no kind is text."""
EACH: dict[str, type[TokenizedSource]] = {"text": TextSource, "words": WordsSource}


class PairOptions(Options):
    """Two texts, with one vocabulary.

    >>> PairOptions(each={"tokens": "words"}).each.kind
    'text'
    """

    kind: Literal["pair"] = "pair"
    each: EachOptions = Field(TextOptions(), description="how each of the two texts becomes tokens")

    def declare(self, at: str) -> Iterator[Term]:
        """What each of the texts gives, and both of them."""
        yield from self.each.declare(at)
        yield Gives(f"{at} pair")
        yield Offers(
            f"{at} pair", f"model.encoder: <model.encoder> reads one text of {at}: pair: set model.encoder: pair"
        )


@final
@dataclass(frozen=True)
class PairSource(SourceSide):
    """Two texts as ids: inputs `source` and `second`, and the letters of words where they are read.

    >>> side = PairSource.fit(PairOptions(each={"tokens": "words"}), [("a cat", "an animal")])
    >>> {name: array.tolist() for name, array in side.encode(("a cat", "a dog")).items()}
    {'source': [4, 7], 'second': [4, 1]}
    >>> side.places(("a cat", "a dog")).parts["second"].names
    ('a', 'dog')
    """

    texts = 2
    instead: ClassVar[Mapping[str, str | None]] = {"bag of words": "bag of words of a pair"}

    options: PairOptions
    each: TokenizedSource

    @classmethod
    def fit(cls, options: PairOptions, values: Iterable[Value]) -> PairSource:
        texts = [text for value in values for text in value]
        return cls(options, without_end(EACH[options.each.kind].fit(options.each, texts)))

    @classmethod
    def read(cls, options: PairOptions, cell: object) -> Value:
        """Two texts, or one with a tab between them; a blank text is a pair of blank ones."""
        if isinstance(cell, str):
            cell = cell.split("\t") if cell.strip() else ["", ""]
        if not isinstance(cell, list | tuple) or len(cell) != 2:
            what = repr(cell)[:80]
            raise CellError("not a pair", f"the source must be two texts, with a tab between them or as a list: {what}")
        return text_cell(cell[0], "source"), text_cell(cell[1], "second text")

    @classmethod
    def blank(cls, value: Value) -> bool:
        """Whether either text is blank."""
        return any(not text.strip() for text in value)

    @classmethod
    def columns(cls, value: Value) -> tuple[str, ...]:
        return tuple(value)

    @property
    def sizes(self) -> dict[str, int]:
        """How many ids each input has; the second text's are the first's."""
        return self.each.sizes

    @property
    def vocabulary(self) -> Tokenizer:
        return self.each.vocabulary

    def with_words(self, words: Iterable[str], most: int) -> PairSource:
        return replace(self, each=self.each.with_words(words, most))

    def encode(self, value: Value) -> Arrays:
        arrays = self.each.encode(value[0])
        arrays.update((_second(name), array) for name, array in self.each.encode(value[1]).items())
        return arrays

    def collate(self, rows: Sequence[Arrays]) -> dict[str, Padded]:
        """The inputs of the first text by their own names, and those of the second."""
        names = [name for name in rows[0] if _second(name) in rows[0]]
        second = self.each.collate([{name: row[_second(name)] for name in names} for row in rows])
        return {**self.each.collate(rows), **{_second(name): padded for name, padded in second.items()}}

    def cost(self, arrays: Arrays) -> int:
        """The length of the longer text."""
        return max(len(arrays["source"]), len(arrays["second"]))

    def places(self, value: Value) -> Places:
        """The tokens of the first text; those of the second are its part `second`."""
        first, second = map(self.each.places, value)
        return replace(first, parts={"second": second})

    def unknown(self, value: Value) -> tuple[str, ...]:
        return tuple(dict.fromkeys(piece for text in value for piece in self.each.unknown(text)))

    def extend(self, values: Iterable[Value]) -> tuple[PairSource, tuple[str, ...]]:
        each, new = self.each.extend([text for value in values for text in value])
        return PairSource(self.options, each), new

    def random_values(self, count: int) -> list[Value]:
        return [*pairwise(self.vocabulary.random_texts(count))]

    def to_json(self) -> Json:
        return super().to_json() | {"each": self.each.to_json()}

    @classmethod
    def from_json(cls, options: PairOptions, content: Json) -> PairSource:
        return cls(options, without_end(EACH[options.each.kind].from_json(options.each, content["each"])))

    @classmethod
    def tiny(cls) -> tuple[PairSource, tuple[Value, ...]]:
        values = (("a cat sleeps", "an animal rests"), ("a dog", "a cat"), ("zebras", "a dog"))
        return cls.fit(PairOptions(each={"kind": "words", "min_count": 1}), values[:2]), values


def _second(name: str) -> str:
    """How an array or an input is called for the second text."""
    return "second" if name == "source" else f"second_{name}"


def without_end(each: TokenizedSource) -> TokenizedSource:
    """The side of a text, without the end mark.

    >>> without_end(TextSource.tiny()[0]).places("ab").names
    ('a', 'b')
    """
    return replace(each, end_mark=False) if isinstance(each, TextSource) else each
