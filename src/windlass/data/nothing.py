"""The source of a language model: nothing goes in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from windlass.core.fitting import Gives, Term
from windlass.core.options import Options
from windlass.data.codecs import Inputs, TextCodec
from windlass.data.examples import Source
from windlass.data.tokens import TextOptions


class NothingOptions(Options):
    """Nothing goes in.

    >>> NothingOptions().kind
    'none'
    """

    kind: Literal["none"] = "none"

    def _terms(self, at: str) -> Iterator[Term]:
        yield Gives(f"{at} nothing")


@dataclass(frozen=True)
class NothingCodec:
    """Makes nothing of nothing.

    >>> NothingCodec(NothingOptions()).inputs("")
    {'source': []}
    """

    options: NothingOptions

    @classmethod
    def fit(cls, options: NothingOptions, texts: Iterable[Source]) -> NothingCodec:
        """There is nothing to learn."""
        return cls(options)

    @property
    def sizes(self) -> dict[str, int]:
        """No input has any ids."""
        return {}

    @property
    def tokens(self) -> TextCodec:
        """A codec that knows nothing."""
        return TextCodec(TextOptions(), ())

    def inputs(self, source: Source) -> Inputs:
        """No places."""
        return {"source": []}

    def pieces(self, source: Source) -> list[str]:
        """No places."""
        return []

    def unknown(self, source: Source) -> tuple[str, ...]:
        """Nothing is unknown."""
        return ()

    def extend(self, texts: Iterable[Source]) -> tuple[NothingCodec, tuple[str, ...]]:
        """Nothing is new."""
        return self, ()

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {"options": self.options.model_dump(mode="json")}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> NothingCodec:
        """The codec that `to_json` described."""
        return cls(NothingOptions.model_validate(content["options"]))
