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
        """There is nothing to learn."""
        return cls(options)

    @classmethod
    def read(cls, options: NothingOptions, cell: object) -> Value:
        """Nothing."""
        return ""

    @property
    def sizes(self) -> dict[str, int]:
        """There is no input."""
        return {}

    def encode(self, value: Value) -> Arrays:
        """No arrays."""
        return {}

    def collate(self, rows: Sequence[Arrays]) -> dict[str, Padded]:
        """No inputs."""
        return {}

    def cost(self, arrays: Arrays) -> int:
        """Nothing."""
        return 0

    def places(self, value: Value) -> Places:
        """No places."""
        return Places("tokens", ())

    def unknown(self, value: Value) -> tuple[str, ...]:
        """Nothing is unknown."""
        return ()

    def extend(self, values: Iterable[Value]) -> tuple[NoSource, tuple[str, ...]]:
        """Nothing is new."""
        return self, ()

    def to_json(self) -> Json:
        """The options."""
        return {"options": self.options.model_dump(mode="json")}

    @classmethod
    def from_json(cls, content: Json) -> NoSource:
        """The side that was saved."""
        return cls(NothingOptions.model_validate(content["options"]))

    @classmethod
    def tiny(cls) -> tuple[NoSource, tuple[Value, ...]]:
        """The side, and its value three times."""
        return cls(NothingOptions()), ("", "", "")
