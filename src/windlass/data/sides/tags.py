"""A tag for every place of the source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, final

from numpy.typing import NDArray
from pydantic import Field

from windlass.core.errors import DataError
from windlass.core.fitting import Gives, Term
from windlass.core.options import Options
from windlass.core.records import Hypothesis, Padded, Span, TagsAnswer
from windlass.core.wording import counted
from windlass.data.examples import Example, Value, as_text
from windlass.data.padding import pad
from windlass.data.schemes import Scheme, convert, follows, marked, spans, told
from windlass.data.sides.base import Answered, CellError, Json, SourceSide, Transitions, ids, text_cell
from windlass.data.sides.labels import SymbolsTarget

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
class TagsTarget(SymbolsTarget):
    """Tags in the model's scheme; answers are in the scheme of the training data.

    >>> from windlass.data.sides.words import WordsSource
    >>> side = TagsTarget.fit(TagsOptions(scheme="BIOES"), ["B-x I-x O", "B-x"])
    >>> side.symbols, side.encode("B-x I-x I-x").tolist()
    (('B-x', 'E-x', 'O', 'S-x', 'I-x'), [0, 4, 1])
    >>> side.outside
    2
    >>> side.answer(Hypothesis((0, 1, 3), -1.0, ()), WordsSource.tiny()[0], ("the", "cat", "runs"))[0]
    'B-x I-x B-x'
    """

    per_place = True
    baselines = ("most frequent tag of a word", "hidden Markov model")
    no_answer = TagsAnswer()

    data_scheme: Scheme = "none"  # of the training data

    @property
    def scheme(self) -> Scheme:
        """How the model marks spans."""
        asked: Literal["auto"] | Scheme = self.options.scheme
        return self.data_scheme if asked == "auto" else asked

    @classmethod
    def fit(cls, options: TagsOptions, values: Iterable[Value]) -> TagsTarget:
        rows = list(values)
        data: Scheme = "none" if options.scheme == "none" else told(tag for row in rows for tag in row.split())
        empty = cls(options, (), data)
        if data == "none" and empty.marks_spans:
            raise DataError(
                f"target.scheme: {options.scheme} is for tags that mark spans (B-x I-x O), and these do not: set none"
            )
        return empty.extend(rows)[0]

    @classmethod
    def symbols_in(cls, value: Value) -> Sequence[str]:
        return str(value).split()

    def _split(self, value: Value) -> list[str]:
        return convert(value.split(), self.scheme)

    def _symbols(self, values: Iterable[Value]) -> list[str]:
        """Every prefix of every label, seen or not: a span may be longer than those of the training data."""
        seen = super()._symbols(values)
        if self.scheme == "none":
            return seen
        labels = dict.fromkeys(tag.partition("-")[2] for tag in seen if tag != "O")
        whole = ["O", *(f"{prefix}-{label}" for label in labels for prefix in self.scheme.replace("O", ""))]
        return [*seen, *(tag for tag in whole if tag not in seen)]

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
                unit = source.unit.removesuffix("s")
                told = f"{counted(len(parts), unit)} but {counted(count, 'tag')}"
                mend = source.separated if isinstance(example.source, str) else f"give every {unit} a tag"
                raise CellError(kind, f"{told}: {mend}")
        return replace(example, source=source.with_parts(example.source, parts))

    @classmethod
    def mark_spans(cls, values: Iterable[Value]) -> bool:
        return marked(tag for value in values for tag in value.split())

    @property
    def marks_spans(self) -> bool:
        return self.scheme != "none"

    def encode(self, value: Value) -> NDArray[Any]:
        """The ids of the tags, in the model's scheme."""
        return ids(self._ids(value, "tag"))

    def collate(self, rows: Sequence[NDArray[Any]]) -> Padded:
        """The ids: (B, S)."""
        return pad(rows)

    def cost(self, array: NDArray[Any]) -> int:
        return len(array)

    def decode(self, numbers: Sequence[int]) -> str:
        """The tags of ids, in the scheme of the training data."""
        tags = [self.symbols[n] for n in numbers]
        return " ".join(tags if self.scheme == "none" else convert(tags, self.data_scheme))

    def answer(self, hypothesis: Hypothesis, source: SourceSide, value: Value, copied: Sequence[str] = ()) -> Answered:
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

    @property
    def outside(self) -> int | None:
        return self._index.get("O") if self.marks_spans else None

    @property
    def transitions(self) -> Transitions:
        scheme, tags = self.scheme, self.symbols
        return (
            [follows(scheme, None, tag) for tag in tags],
            [[follows(scheme, before, tag) for tag in tags] for before in tags],
            [follows(scheme, tag, None) for tag in tags],
        )

    def to_json(self) -> Json:
        return super().to_json() | {"written": self.data_scheme}

    @classmethod
    def from_json(cls, options: TagsOptions, content: Json) -> TagsTarget:
        return replace(super().from_json(options, content), data_scheme=content["written"])

    @classmethod
    def tiny(cls) -> tuple[TagsTarget, tuple[Value, ...]]:
        values = ("O B-x I-x", "B-x", "O O")
        return cls.fit(TagsOptions(), values), values
