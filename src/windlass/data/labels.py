"""Targets that are chosen, not written: one label, or a tag for every place of the source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from pydantic import Field

from windlass.core.errors import BundleError, DataError, nearest
from windlass.core.fitting import Gives, Term
from windlass.core.options import Options
from windlass.data.schemes import Scheme, convert, follows, told


class LabelOptions(Options):
    """One label of those that the training data has.

    >>> LabelOptions().kind
    'label'
    """

    kind: Literal["label"] = "label"


class TagsOptions(Options):
    """A tag for every place of the source; in a file, separated by spaces.

    >>> TagsOptions(scheme="BIOES").scheme
    'BIOES'
    """

    kind: Literal["tags"] = "tags"
    scheme: Literal["auto", "none", "BIO", "BIOES"] = Field(
        "auto",
        description="how the model marks spans, whatever way the file does; auto: as the file; none: not at all",
    )

    def _terms(self, at: str) -> Iterator[Term]:
        yield Gives(f"{at} for every place")


@dataclass(frozen=True)
class LabelCodec:
    """Turns labels into ids and back. There are no marks: the first label is 0.

    >>> codec = LabelCodec.fit(LabelOptions(), ["spam", "ham", "ham"])
    >>> codec.encode("spam"), codec.decode([0]), len(codec)
    ([1], 'ham', 2)
    """

    options: LabelOptions
    symbols: tuple[str, ...]

    @classmethod
    def fit(cls, options: LabelOptions, texts: Iterable[str]) -> LabelCodec:
        """Take the labels of the training data, the most frequent first."""
        return cls(options, _by_count(texts))

    @cached_property
    def _index(self) -> dict[str, int]:
        return {symbol: n for n, symbol in enumerate(self.symbols)}

    def __len__(self) -> int:
        return len(self.symbols)

    def encode(self, text: str) -> list[int]:
        """The id of a label."""
        return [_id(self._index, text, "label")]

    def decode(self, ids: Sequence[int]) -> str:
        """The label of an id."""
        return self.symbols[ids[0]]

    def token(self, number: int) -> str:
        """The label of an id."""
        return self.symbols[number]

    def unknown(self, text: str) -> tuple[str, ...]:
        """The label, where training has not shown it."""
        return () if text in self._index else (text,)

    def extend(self, texts: Iterable[str]) -> tuple[LabelCodec, tuple[str, ...]]:
        """Add labels that are new; no old id moves."""
        new = tuple(symbol for symbol in _by_count(texts) if symbol not in self._index)
        return LabelCodec(self.options, self.symbols + new), new

    def to_json(self) -> dict[str, Any]:
        """Everything `from_json` needs, as plain JSON values."""
        return {"options": self.options.model_dump(mode="json"), "symbols": list(self.symbols)}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> LabelCodec:
        """The codec that `to_json` described."""
        return cls(LabelOptions.model_validate(content["options"]), _symbols(content))


@dataclass(frozen=True)
class TagsCodec:
    """Turns tags into ids and back, in the model's scheme; what it writes is in the scheme of the training data.

    >>> codec = TagsCodec.fit(TagsOptions(scheme="BIOES"), ["B-x I-x O", "B-x"])
    >>> codec.symbols, codec.encode("B-x I-x I-x")
    (('B-x', 'E-x', 'O', 'S-x', 'I-x'), [0, 4, 1])
    >>> codec.decode([0, 1, 3])
    'B-x I-x B-x'
    """

    options: TagsOptions
    symbols: tuple[str, ...]
    written: Scheme = "none"  # by the training data

    @property
    def scheme(self) -> Scheme:
        """How the model marks spans."""
        return self.written if self.options.scheme == "auto" else self.options.scheme

    @classmethod
    def fit(cls, options: TagsOptions, texts: Iterable[str]) -> TagsCodec:
        """Take the tags of the training data, the most frequent first."""
        rows = [text.split() for text in texts]
        written: Scheme = "none" if options.scheme == "none" else told(tag for row in rows for tag in row)
        scheme = cls(options, (), written).scheme
        if scheme == "none":
            return cls(options, _by_count(tag for row in rows for tag in row), written)
        if written == "none":
            raise DataError(
                f"target.scheme: {options.scheme} is for tags that mark spans (B-x I-x O), and these do not: set none"
            )
        symbols = _by_count(tag for row in rows for tag in convert(row, scheme))
        return cls(options, cls._complete(symbols, scheme), written)

    @staticmethod
    def _complete(symbols: tuple[str, ...], scheme: Scheme) -> tuple[str, ...]:
        """Every prefix of every label, seen or not: a span may be longer than those of the training data."""
        labels = dict.fromkeys(tag.partition("-")[2] for tag in symbols if tag != "O")
        whole = ["O", *(f"{prefix}-{label}" for label in labels for prefix in scheme.replace("O", ""))]
        return symbols + tuple(tag for tag in whole if tag not in symbols)

    @cached_property
    def _index(self) -> dict[str, int]:
        return {symbol: n for n, symbol in enumerate(self.symbols)}

    def __len__(self) -> int:
        return len(self.symbols)

    def encode(self, text: str) -> list[int]:
        """The ids of tags, in the model's scheme."""
        return [_id(self._index, tag, "tag") for tag in convert(text.split(), self.scheme)]

    def decode(self, ids: Sequence[int]) -> str:
        """The tags of ids, in the scheme of the training data."""
        tags = [self.symbols[n] for n in ids]
        return " ".join(tags if self.scheme == "none" else convert(tags, self.written))

    def token(self, number: int) -> str:
        """The tag of an id, in the model's scheme."""
        return self.symbols[number]

    def unknown(self, text: str) -> tuple[str, ...]:
        """The tags that training has not shown."""
        return tuple(dict.fromkeys(t for t in convert(text.split(), self.scheme) if t not in self._index))

    def extend(self, texts: Iterable[str]) -> tuple[TagsCodec, tuple[str, ...]]:
        """Add tags that are new; no old id moves."""
        found = _by_count(tag for text in texts for tag in convert(text.split(), self.scheme))
        if self.scheme != "none":
            found = self._complete(found, self.scheme)
        new = tuple(tag for tag in found if tag not in self._index)
        return TagsCodec(self.options, self.symbols + new, self.written), new

    def allowed(self) -> tuple[list[bool], list[list[bool]], list[bool]]:
        """Which tag may come first, which after which, and which last, by the scheme of the model.

        >>> TagsCodec(TagsOptions(scheme="BIO"), ("O", "B-x", "I-x"), "BIO").allowed()[0]
        [True, True, False]
        """
        scheme, tags = self.scheme, self.symbols
        return (
            [follows(scheme, None, tag) for tag in tags],
            [[follows(scheme, before, tag) for tag in tags] for before in tags],
            [follows(scheme, tag, None) for tag in tags],
        )

    def to_json(self) -> dict[str, Any]:
        """Everything `from_json` needs, as plain JSON values."""
        content = {"options": self.options.model_dump(mode="json"), "symbols": list(self.symbols)}
        return content | {"written": self.written}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> TagsCodec:
        """The codec that `to_json` described."""
        options = TagsOptions.model_validate(content["options"])
        return cls(options, _symbols(content), content["written"])


def _by_count(symbols: Iterable[str]) -> tuple[str, ...]:
    counts = Counter(symbols)
    return tuple(sorted(counts, key=lambda symbol: (-counts[symbol], symbol)))


def _id(index: dict[str, int], symbol: str, what: str) -> int:
    if symbol not in index:
        raise DataError(f"no {what} {symbol!r} in the training data: {nearest(symbol, index)}")
    return index[symbol]


def _symbols(content: dict[str, Any]) -> tuple[str, ...]:
    symbols = content["symbols"]
    if not isinstance(symbols, list) or not all(isinstance(s, str) for s in symbols):
        raise BundleError("damaged codec: symbols must be a list of strings; take the file from a fresh copy")
    return tuple(symbols)
