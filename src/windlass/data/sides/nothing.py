"""The source of a language model: nothing goes in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, final

from windlass.core.fitting import Gives, Term
from windlass.core.options import Options
from windlass.core.records import Padded, Places
from windlass.data.encoded import Arrays
from windlass.data.examples import Value
from windlass.data.sides.base import Json, SourceSide


class NothingOptions(Options):
    """Nothing goes in.

    >>> NothingOptions().kind
    'none'
    """

    kind: Literal["none"] = "none"

    def _terms(self, at: str) -> Iterator[Term]:
        yield Gives(f"{at} nothing")


@final
@dataclass(frozen=True)
class NoSource(SourceSide):
    """No input at all; its only value is the empty text.

    >>> NoSource(NothingOptions()).collate([{}, {}])
    {}
    """

    options: NothingOptions

    @classmethod
    def fit(cls, options: NothingOptions, values: Iterable[Value]) -> NoSource:
        return cls(options)

    @classmethod
    def read(cls, options: NothingOptions, cell: object) -> Value:
        return ""

    @property
    def sizes(self) -> dict[str, int]:
        return {}

    def encode(self, value: Value) -> Arrays:
        return {}

    def collate(self, rows: Sequence[Arrays]) -> dict[str, Padded]:
        return {}

    def cost(self, arrays: Arrays) -> int:
        return 0

    def places(self, value: Value) -> Places:
        return Places("tokens", ())

    @classmethod
    def from_json(cls, options: NothingOptions, content: Json) -> NoSource:
        return cls(options)

    @classmethod
    def tiny(cls) -> tuple[NoSource, tuple[Value, ...]]:
        return cls(NothingOptions()), ("", "", "")
