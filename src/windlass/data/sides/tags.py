"""A tag for every place of the source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, final

from numpy.typing import NDArray
from pydantic import Field

from windlass.core.errors import DataError
from windlass.core.fitting import Gives, Term
from windlass.core.options import Options
from windlass.core.records import Answer, Hypothesis, Padded, Span, TagsAnswer
from windlass.data.examples import Example, Value, as_text
from windlass.data.padding import pad
from windlass.data.schemes import Scheme, convert, follows, marked, spans, told
from windlass.data.sides.base import (
    CellError,
    Json,
    SourceSide,
    TargetSide,
    Transitions,
    checked_symbols,
    ids,
    text_cell,
)
from windlass.data.sides.label import by_count, id_of

SEEN = 0.005
"""A tag that is nowhere in a sentence this probable is left out of an answer's distribution."""


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


@final
@dataclass(frozen=True)
class TagsTarget(TargetSide):
    """Tags in the model's scheme; answers are in the scheme of the training data.

    >>> from windlass.data.sides.words import WordsSource
    >>> side = TagsTarget.fit(TagsOptions(scheme="BIOES"), ["B-x I-x O", "B-x"])
    >>> side.symbols, side.encode("B-x I-x I-x").tolist()
    (('B-x', 'E-x', 'O', 'S-x', 'I-x'), [0, 4, 1])
    >>> side.answer(Hypothesis((0, 1, 3), -1.0, ()), WordsSource.tiny()[0], ("the", "cat", "runs"))[0]
    'B-x I-x B-x'
    """

    per_place = True
    baselines = ("most frequent tag of a word", "hidden Markov model")

    options: TagsOptions
    symbols: tuple[str, ...]
    data_scheme: Scheme = "none"  # of the training data

    @property
    def scheme(self) -> Scheme:
        """How the model marks spans."""
        return self.data_scheme if self.options.scheme == "auto" else self.options.scheme

    @classmethod
    def fit(cls, options: TagsOptions, values: Iterable[Value]) -> TagsTarget:
        """Take the tags of the training data, the most frequent first."""
        rows = [value.split() for value in values]
        data: Scheme = "none" if options.scheme == "none" else told(tag for row in rows for tag in row)
        scheme = cls(options, (), data).scheme
        if scheme == "none":
            return cls(options, by_count(tag for row in rows for tag in row), data)
        if data == "none":
            raise DataError(
                f"target.scheme: {options.scheme} is for tags that mark spans (B-x I-x O), and these do not: set none"
            )
        symbols = by_count(tag for row in rows for tag in convert(row, scheme))
        return cls(options, cls._complete(symbols, scheme), data)

    @staticmethod
    def _complete(symbols: tuple[str, ...], scheme: Scheme) -> tuple[str, ...]:
        """Every prefix of every label, seen or not: a span may be longer than those of the training data."""
        labels = dict.fromkeys(tag.partition("-")[2] for tag in symbols if tag != "O")
        whole = ["O", *(f"{prefix}-{label}" for label in labels for prefix in scheme.replace("O", ""))]
        return symbols + tuple(tag for tag in whole if tag not in symbols)

    @classmethod
    def read(cls, options: TagsOptions, cell: object) -> Value:
        """Tags separated by spaces, or a list of them."""
        if not isinstance(cell, list | tuple):
            return text_cell(cell, "target")
        tags = [str(tag) for tag in cell if isinstance(tag, str | int)]
        if len(tags) < len(cell) or any(len(tag.split()) != 1 for tag in tags):
            raise CellError("not tags", "the target is a list, but not of tags, which are texts without a space")
        return " ".join(tags)

    @classmethod
    def answers(cls, cell: object) -> list[object]:
        """The one right answer: a list holds the tags of one."""
        return [cell]

    @classmethod
    def match(cls, example: Example, source: type[SourceSide], options: Any) -> Example:
        """Check that there are as many tags as words or sentences."""
        parts = source.split(options, example.source)
        for tags in example.targets:
            count = len(tags.split())
            if count != len(parts):
                kind = f"unequal numbers of {source.unit} and tags"
                raise CellError(kind, f"{len(parts)} {source.unit} but {count} tags; {source.separated}")
        return replace(example, source=parts)

    @classmethod
    def mark_spans(cls, values: Iterable[Value]) -> bool:
        """Whether the tags of some examples mark spans."""
        return marked(tag for value in values for tag in value.split())

    @property
    def marks_spans(self) -> bool:
        """Whether the model marks spans."""
        return self.scheme != "none"

    @cached_property
    def _index(self) -> dict[str, int]:
        return {symbol: n for n, symbol in enumerate(self.symbols)}

    def __len__(self) -> int:
        return len(self.symbols)

    def encode(self, value: Value) -> NDArray[Any]:
        """The ids of the tags, in the model's scheme."""
        return ids([id_of(self._index, tag, "tag") for tag in convert(value.split(), self.scheme)])

    def collate(self, rows: Sequence[NDArray[Any]]) -> Padded:
        """The ids: (B, S)."""
        return pad(rows)

    def cost(self, array: NDArray[Any]) -> int:
        """How many tags there are."""
        return len(array)

    def decode(self, numbers: Sequence[int]) -> str:
        """The tags of ids, in the scheme of the training data.

        >>> TagsTarget.fit(TagsOptions(), ["NOUN VERB NOUN"]).decode([1, 0])
        'VERB NOUN'
        """
        tags = [self.symbols[n] for n in numbers]
        return " ".join(tags if self.scheme == "none" else convert(tags, self.data_scheme))

    @classmethod
    def no_answer(cls) -> Answer:
        """Nothing."""
        return TagsAnswer()

    def answer(
        self, hypothesis: Hypothesis, source: SourceSide, value: Value, copied: tuple[str, ...] = ()
    ) -> tuple[str, Answer]:
        """The tags with their probabilities, and the spans that they mark."""
        text = self.decode(hypothesis.ids)
        rows: list[list[float]] = [] if hypothesis.distribution is None else hypothesis.distribution.tolist()
        chances = tuple(row[tag] for row, tag in zip(rows, hypothesis.ids, strict=False))
        columns = {self.symbols[n]: column for n, column in enumerate(zip(*rows, strict=True)) if max(column) >= SEEN}
        return text, TagsAnswer(tuple(text.split()), chances, self._spans(text, source, value), columns)

    def _spans(self, text: str, source: SourceSide, value: Value) -> tuple[Span, ...]:
        """The spans that tags mark or, where they mark none, every word with its tag."""
        tags, offsets, whole = text.split(), source.places(value).offsets, as_text(value)
        if not offsets:
            return ()
        found = spans(tags) if self.data_scheme != "none" else [(n, n + 1, tag) for n, tag in enumerate(tags)]
        places = [(offsets[begin][0], offsets[end - 1][1], label) for begin, end, label in found]
        return tuple(Span(begin, end, label, whole[begin:end]) for begin, end, label in places)

    def unknown(self, value: Value) -> tuple[str, ...]:
        """The tags that training has not shown."""
        return tuple(dict.fromkeys(t for t in convert(value.split(), self.scheme) if t not in self._index))

    def extend(self, values: Iterable[Value]) -> tuple[TagsTarget, tuple[str, ...]]:
        """Add new tags."""
        found = by_count(tag for value in values for tag in convert(value.split(), self.scheme))
        if self.scheme != "none":
            found = self._complete(found, self.scheme)
        new = tuple(tag for tag in found if tag not in self._index)
        return TagsTarget(self.options, self.symbols + new, self.data_scheme), new

    @property
    def transitions(self) -> Transitions:
        """Which tag may come first, which after which, and which last, by the model's scheme.

        >>> TagsTarget(TagsOptions(scheme="BIO"), ("O", "B-x", "I-x"), "BIO").transitions[0]
        [True, True, False]
        """
        scheme, tags = self.scheme, self.symbols
        return (
            [follows(scheme, None, tag) for tag in tags],
            [[follows(scheme, before, tag) for tag in tags] for before in tags],
            [follows(scheme, tag, None) for tag in tags],
        )

    def to_json(self) -> Json:
        """Options, tags and the scheme of the training data."""
        content = {"options": self.options.model_dump(mode="json"), "symbols": list(self.symbols)}
        return content | {"written": self.data_scheme}

    @classmethod
    def from_json(cls, content: Json) -> TagsTarget:
        """The side of saved tags."""
        options = TagsOptions.model_validate(content["options"])
        return cls(options, checked_symbols(content), content["written"])

    @classmethod
    def tiny(cls) -> tuple[TagsTarget, tuple[Value, ...]]:
        """A side of tags that mark spans."""
        values = ("O B-x I-x", "B-x", "O O")
        return cls.fit(TagsOptions(), values), values
