"""Two texts as one source: premise and hypothesis, question and answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from windlass.core.errors import DataError
from windlass.core.fitting import Gives, Needs, Offers, Term
from windlass.core.options import Options
from windlass.data.codecs import Inputs, TextCodec
from windlass.data.examples import Source
from windlass.data.tokens import TextOptions
from windlass.data.words import WordsCodec, WordsOptions


def text_unless_said(value: Any) -> Any:
    """Options of a side by the name of their kind alone, or of kind `text` where they name none.

    >>> text_unless_said("words"), text_unless_said({"lowercase": True})
    ({'kind': 'words'}, {'kind': 'text', 'lowercase': True})
    """
    if isinstance(value, str):
        return {"kind": value}
    return {"kind": "text", **value} if isinstance(value, dict) else value


EachOptions = Annotated[TextOptions | WordsOptions, Field(discriminator="kind"), BeforeValidator(text_unless_said)]
"""How a text of a pair can become tokens; what names no kind is text."""


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
        yield Needs("data.second", "data.second is the column of a pair's second text: name it")


def both(source: Source) -> tuple[str, str]:
    """The two texts of a pair, which may also come as one text with a tab between them.

    >>> both("a cat\\tan animal"), both(("a cat", "an animal"))[1]
    (('a cat', 'an animal'), 'an animal')
    """
    parts = source.split("\t") if isinstance(source, str) else source
    if len(parts) != 2:
        raise DataError(f"a pair is two texts, with a tab between them, not {len(parts)}: {' | '.join(parts)[:80]!r}")
    return parts[0], parts[1]


@dataclass(frozen=True)
class PairCodec:
    """Turns two texts into ids: inputs `source` and `second`, and the letters of words where they are read.

    >>> codec = PairCodec.fit(PairOptions(each={"tokens": "words"}), [("a cat", "an animal")])
    >>> codec.inputs(("a cat", "a dog"))
    {'source': [4, 7], 'second': [4, 1]}
    """

    options: PairOptions
    each: TextCodec | WordsCodec

    @classmethod
    def fit(cls, options: PairOptions, sources: Iterable[Source]) -> PairCodec:
        """Learn one vocabulary from both texts."""
        texts = [text for source in sources for text in both(source)]
        if isinstance(options.each, WordsOptions):
            return cls(options, WordsCodec.fit(options.each, texts))
        return cls(options, TextCodec.fit(options.each, texts))

    @property
    def sizes(self) -> dict[str, int]:
        """How many ids each input has; the second text's are the first's."""
        return self.each.sizes

    @property
    def tokens(self) -> TextCodec:
        """The codec of the tokens, which have vectors."""
        return self.each.tokens

    def inputs(self, source: Source) -> Inputs:
        """The ids of both texts."""
        first, second = (self.each.inputs(text) for text in both(source))
        named = {"second" if name == "source" else f"second_{name}": ids for name, ids in second.items()}
        return {**first, **named}

    def pieces(self, source: Source) -> list[str]:
        """What the places of the first text stand for."""
        return self.each.pieces(both(source)[0])

    def second_pieces(self, source: Source) -> list[str]:
        """What the places of the second text stand for."""
        return self.each.pieces(both(source)[1])

    def unknown(self, source: Source) -> tuple[str, ...]:
        """What in either text training has not shown."""
        return tuple(dict.fromkeys(piece for text in both(source) for piece in self.each.unknown(text)))

    def extend(self, sources: Iterable[Source]) -> tuple[PairCodec, tuple[str, ...]]:
        """Add what new pairs bring, with every old id unchanged."""
        each, new = self.each.extend([text for source in sources for text in both(source)])
        return PairCodec(self.options, each), new

    def to_json(self) -> dict[str, Any]:
        """Everything `from_json` needs, as plain JSON values."""
        return {"options": self.options.model_dump(mode="json"), "each": self.each.to_json()}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> PairCodec:
        """The codec that `to_json` described."""
        options = PairOptions.model_validate(content["options"])
        if isinstance(options.each, WordsOptions):
            return cls(options, WordsCodec.from_json(content["each"]))
        return cls(options, TextCodec.from_json(content["each"]))
