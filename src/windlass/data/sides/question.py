"""A question about a picture."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from torch import nn

from windlass.core.fitting import Gives, Offers, Term
from windlass.core.options import Options, named
from windlass.core.records import Padded, Places
from windlass.data.encoded import Arrays
from windlass.data.examples import Value, as_text
from windlass.data.sides.base import CellError, Json, SourceSide, TokenizedSource, Track, text_cell
from windlass.data.sides.numbers import NumbersOptions, NumbersSource
from windlass.data.sides.pair import EACH, EachOptions, without_end
from windlass.data.sides.picture import PictureOptions, PictureSource
from windlass.data.tokenizer import Tokenizer
from windlass.data.tokens import TextOptions, WordTokens

SeenOptions = Annotated[PictureOptions | NumbersOptions, Field(discriminator="kind"), named]
"""What a question can be about: a picture, or the features of one."""
SEEN: dict[str, type[Any]] = {"picture": PictureSource, "numbers": NumbersSource}


class QuestionOptions(Options):
    """A question about a picture.

    >>> QuestionOptions(picture={"kind": "picture", "cnn": "small"}).question.tokens.kind
    'words'
    """

    kind: Literal["question"] = "question"
    picture: SeenOptions = Field(PictureOptions(), description="the picture, or its features as numbers")
    question: EachOptions = Field(
        TextOptions(tokens=WordTokens(cut="punctuation"), lowercase=True),
        description="how the question becomes tokens",
    )

    def declare(self, at: str) -> Iterator[Term]:
        """What the question gives, and both of them."""
        yield from self.question.declare(at)
        yield Gives(f"{at} question")
        yield Offers(
            f"{at} question",
            f"model.encoder: <model.encoder> reads one of the two of {at}: question: set model.encoder: question",
        )


@final
@dataclass(frozen=True)
class QuestionSource(SourceSide):
    """A picture and a question: inputs `picture`, and `source` with the tokens of the question.

    A value is (picture, question). Its places are the regions of the picture; the tokens of the question are their part
    `question`.

    >>> side = QuestionSource.fit(QuestionOptions(picture="numbers"), [(((1, 4), (3, 4)), "what colour")])
    >>> {name: array.tolist() for name, array in side.encode((((3, 4),), "what form")).items()}
    {'source': [5, 1], 'picture': [[1.0, 0.0]]}
    >>> side.places((((3, 4),), "what form")).parts["question"].names
    ('what', 'form')
    """

    texts = 2
    instead: ClassVar[Mapping[str, str | None]] = {"bag of words": "bag of words of the question"}
    beside = ("nearest",)

    options: QuestionOptions
    picture: PictureSource | NumbersSource
    question: TokenizedSource

    @classmethod
    def fit(cls, options: QuestionOptions, values: Iterable[Value]) -> QuestionSource:
        known = list(values)
        picture = SEEN[options.picture.kind].fit(options.picture, dict.fromkeys(picture for picture, _ in known))
        question = EACH[options.question.kind].fit(options.question, [question for _, question in known])
        return cls(options, picture, without_end(question))

    @classmethod
    def read(cls, options: QuestionOptions, cell: object) -> Value:
        """A picture and a question, or a line with a tab between them."""
        if isinstance(cell, str):
            cell = cell.split("\t") if cell.strip() else ["", ""]
        if not isinstance(cell, list | tuple) or len(cell) != 2:
            what = "a picture and a question, with a tab between them or as a list"
            raise CellError("not a pair", f"the source must be {what}: {repr(cell)[:80]}")
        return SEEN[options.picture.kind].read(options.picture, cell[0]), text_cell(cell[1], "question")

    @classmethod
    def locate(cls, options: QuestionOptions, value: Value, folder: Path) -> Value:
        return SEEN[options.picture.kind].locate(options.picture, value[0], folder), value[1]

    @classmethod
    def blank(cls, value: Value) -> bool:
        """Whether either of the two is blank."""
        picture, question = value
        return not question.strip() or not (picture.strip() if isinstance(picture, str) else picture)

    @classmethod
    def columns(cls, value: Value) -> tuple[str, ...]:
        return as_text(value[0]), value[1]

    @classmethod
    def held_out_by(cls, value: Value) -> str:
        """The picture: a dev set asks about others than training."""
        return as_text(value[0])

    @property
    def sizes(self) -> dict[str, int]:
        return {**self.question.sizes, "picture": self.picture.sizes["source"]}

    def front(self) -> nn.Module | None:
        return self.picture.front()

    @property
    def vocabulary(self) -> Tokenizer | None:
        return self.question.vocabulary

    def with_words(self, words: Iterable[str], most: int) -> QuestionSource:
        return replace(self, question=self.question.with_words(words, most))

    def prepare(
        self, values: Iterable[Value], note: Callable[[str], None], track: Track, new: bool = True
    ) -> tuple[QuestionSource, dict[Value, str]]:
        """Compute the features of the pictures. Returns the side, and the values whose picture is unreadable."""
        known = list(values)
        picture, failed = self.picture.prepare((value[0] for value in known), note, track, new)
        return replace(self, picture=picture), {value: failed[value[0]] for value in known if value[0] in failed}

    def portion(self, values: Sequence[Value]) -> int:
        return self.picture.portion([picture for picture, _ in values])

    def loaded(self, values: Iterable[Value]) -> tuple[QuestionSource, dict[Value, str]]:
        known = list(values)
        picture, failed = self.picture.loaded(picture for picture, _ in known)
        return replace(self, picture=picture), {value: failed[value[0]] for value in known if value[0] in failed}

    def encode(self, value: Value) -> Arrays:
        return self.encode_all([value])[0]

    def encode_all(self, values: Sequence[Value]) -> list[Arrays]:
        """The arrays of the questions by their own names, and those of the pictures."""
        seen = self.picture.encode_all([picture for picture, _ in values])
        return [
            {**self.question.encode(question), **{_picture(name): array for name, array in arrays.items()}}
            for (_, question), arrays in zip(values, seen, strict=True)
        ]

    def collate(self, rows: Sequence[Arrays]) -> dict[str, Padded]:
        """Inputs `picture`, (B, S, ...), and those of the question."""
        return {**self.question.collate(rows), "picture": self.picture.collate([*map(_seen, rows)])["source"]}

    def cost(self, arrays: Arrays) -> int:
        """The regions of the picture or, if there are more, the tokens of the question."""
        return max(self.question.cost(arrays), self.picture.cost(_seen(arrays)))

    def vector(self, value: Value) -> NDArray[np.float32]:
        """The mean of the regions beside the counts of the question's tokens, both of length 1."""
        counts = np.bincount(self.question.encode(value[1])["source"], minlength=self.question.sizes["source"])
        parts = self.picture.vector(value[0]), counts.astype(np.float32)
        return np.concatenate([part / max(float(np.linalg.norm(part)), 1e-6) for part in parts])

    def places(self, value: Value) -> Places:
        """The regions of the picture; the tokens of the question are their part `question`."""
        return replace(self.picture.places(value[0]), parts={"question": self.question.places(value[1])})

    def shown(self, value: Value) -> NDArray[Any] | None:
        """The picture."""
        return self.picture.shown(value[0])

    def unknown(self, value: Value) -> tuple[str, ...]:
        return self.question.unknown(value[1])

    def extend(self, values: Iterable[Value]) -> tuple[QuestionSource, tuple[str, ...]]:
        question, new = self.question.extend([question for _, question in values])
        return replace(self, question=question), new

    def random_values(self, count: int) -> list[Value]:
        return [*zip(self.picture.random_values(count), self.question.random_values(count), strict=False)]

    def to_json(self) -> Json:
        return super().to_json() | {"picture": self.picture.to_json(), "question": self.question.to_json()}

    @classmethod
    def from_json(cls, options: QuestionOptions, content: Json) -> QuestionSource:
        picture = SEEN[options.picture.kind].from_json(options.picture, content["picture"])
        question = EACH[options.question.kind].from_json(options.question, content["question"])
        return cls(options, picture, without_end(question))

    @classmethod
    def tiny(cls) -> tuple[QuestionSource, tuple[Value, ...]]:
        from windlass.media.samples import sample_features

        asked = ("what colour is it ?", "what form", "how many zebras")
        values = tuple(zip(sample_features(), asked, strict=True))
        return cls.fit(QuestionOptions(picture="numbers"), values[:2]), values


def _picture(name: str) -> str:
    """How an array of the picture is called beside those of the question."""
    return "picture" if name == "source" else f"picture_{name}"


def _seen(arrays: Arrays) -> Arrays:
    """The arrays of the picture by their own names."""
    names = {_picture(name): name for name in ("source", "rows")}
    return {names[name]: array for name, array in arrays.items() if name in names}
