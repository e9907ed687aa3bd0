"""The two sides of an example: every kind of source and of target, and the two of a model together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import BeforeValidator, Field
from torch import Tensor

from windlass.core.errors import BundleError, DataError, RecipeError
from windlass.core.marks import EOS, UNK
from windlass.core.options import Options, reason
from windlass.core.records import Answer, Batch, Hypothesis
from windlass.data.augment import Augment
from windlass.data.encoded import Encoded, EncodedStore
from windlass.data.examples import Alignment, Example, Value, frozen
from windlass.data.loader import Loader
from windlass.data.sides.base import CellError, SourceSide, TargetSide, ids
from windlass.data.sides.document import DocumentOptions, DocumentSource
from windlass.data.sides.labels import LabelOptions, LabelsOptions, LabelsTarget, LabelTarget
from windlass.data.sides.nothing import NoSource, NothingOptions
from windlass.data.sides.number import NumberOptions, NumberTarget
from windlass.data.sides.numbers import NumbersOptions, NumbersSource
from windlass.data.sides.pair import PairOptions, PairSource, text_by_default
from windlass.data.sides.picture import PictureOptions, PictureSource
from windlass.data.sides.question import QuestionOptions, QuestionSource
from windlass.data.sides.sound import SoundOptions, SoundSource
from windlass.data.sides.tags import TagsOptions, TagsTarget
from windlass.data.sides.text import TextSource, TextTarget, WrittenTarget
from windlass.data.sides.tree import TreeTarget
from windlass.data.sides.video import VideoOptions, VideoSource
from windlass.data.sides.words import WordsOptions, WordsSource
from windlass.data.store import View
from windlass.data.tokenizer import Tokenizer
from windlass.data.tokens import TextOptions

__all__ = [
    "SOURCES",
    "TARGETS",
    "CellError",
    "SideOptions",
    "Sides",
    "SourceOptions",
    "SourceSide",
    "TargetOptions",
    "TargetSide",
]

SourceOptions = Annotated[
    TextOptions
    | WordsOptions
    | DocumentOptions
    | NothingOptions
    | PairOptions
    | NumbersOptions
    | PictureOptions
    | VideoOptions
    | SoundOptions
    | QuestionOptions,
    Field(discriminator="kind"),
    BeforeValidator(text_by_default),
]
"""Every kind of source a recipe can name; one that names none is text."""
TargetOptions = Annotated[
    TextOptions | LabelOptions | LabelsOptions | TagsOptions | NumberOptions,
    Field(discriminator="kind"),
    BeforeValidator(text_by_default),
]
"""Every kind of target a recipe can name; one that names none is text."""

SOURCES: dict[str, type[SourceSide]] = {
    "text": TextSource,
    "words": WordsSource,
    "document": DocumentSource,
    "none": NoSource,
    "pair": PairSource,
    "numbers": NumbersSource,
    "picture": PictureSource,
    "video": VideoSource,
    "sound": SoundSource,
    "question": QuestionSource,
}
TARGETS: dict[str, type[TargetSide]] = {
    "text": TextTarget,
    "label": LabelTarget,
    "labels": LabelsTarget,
    "number": NumberTarget,
    "tags": TagsTarget,
    "tree": TreeTarget,
}


class SideOptions(Options):
    """The options of both sides: how cells are read before anything is fitted.

    >>> SideOptions(source="words", target="tags").match(Example("a cat", ("DET NOUN",), None, None)).source
    ('a', 'cat')
    """

    source: SourceOptions = TextOptions()
    target: TargetOptions = TextOptions()

    @cached_property
    def source_side(self) -> type[SourceSide]:
        """The class of the source."""
        return SOURCES[self.source.kind]

    @cached_property
    def target_side(self) -> type[TargetSide]:
        """The class of the target; a tree is a text whose tokens are brackets."""
        tree = isinstance(self.target, TextOptions) and self.target.tokens.kind == "tree"
        return TARGETS["tree" if tree else self.target.kind]

    def read_source(self, cell: object) -> Value:
        """The source of a cell."""
        return self.source_side.read(self.source, cell)

    def read_target(self, cell: object) -> Value:
        """One right answer of a cell."""
        return self.target_side.read(self.target, cell)

    def match(self, example: Example) -> Example:
        """The example with its sides brought into line."""
        return self.target_side.match(example, self.source_side, self.source)


@dataclass(frozen=True)
class Sides:
    """How the two sides of examples become arrays, and outputs become answers.

    For a model that copies, an example also has the ids of its source's places in the target's vocabulary, extended for
    this example by what its source holds beyond it. So a name that was never seen can be written by copying it.

        ids 0 .. V - 1    the target's own
        ids V, V + 1 ...  what the target's vocabulary has not, in the order of its first places in the source

    >>> sides = Sides.tiny()
    >>> Sides.from_json(sides.to_json()) == sides
    True
    >>> sides.encode("ab", "c").target.tolist()
    [6]
    >>> len(Sides.fit(SideOptions(), [Example("a", ("b",), None, None)], joint=True).target)
    6
    """

    source: SourceSide
    target: TargetSide
    copying: bool = False  # not saved: it is the model that copies, or does not

    @classmethod
    def fit(cls, options: SideOptions, examples: Sequence[Example], joint: bool = False) -> Sides:
        """Fit both sides to training data, `joint` with one vocabulary for two texts."""
        # One at a time, as they may come from a file.
        sources, targets = (e.source for e in examples), (e.target for e in examples)
        if joint:
            target_side = options.target_side
            assert isinstance(options.source, TextOptions)
            assert issubclass(target_side, WrittenTarget)
            source = TextSource.fit(options.source, chain(sources, targets))
            return cls(source, target_side(source.tokenizer))
        return cls(options.source_side.fit(options.source, sources), options.target_side.fit(options.target, targets))

    def extend(
        self, examples: Sequence[Example], joint: bool = False
    ) -> tuple[Sides, tuple[str, ...], tuple[str, ...]]:
        """Add the symbols of new examples. Returns the sides and the new symbols of each; `joint` as in `fit`."""
        sources, targets = (e.source for e in examples), (e.target for e in examples)
        if joint:
            source, new = self.source.extend(chain(sources, targets))
            assert isinstance(source, TextSource)
            assert isinstance(self.target, WrittenTarget)
            return replace(self, source=source, target=replace(self.target, tokenizer=source.tokenizer)), new, ()
        source, new_source = self.source.extend(sources)
        target, new_target = self.target.extend(targets)
        return replace(self, source=source, target=target), new_source, new_target

    @property
    def tokenizer(self) -> Tokenizer:
        """The target's tokenizer, where the target is written."""
        if not isinstance(self.target, WrittenTarget):
            raise RecipeError(f"this model writes no text: its target is {self.target.options.kind}")
        return self.target.tokenizer

    def read(self, cell: object) -> Value:
        """The value of a source that a user gives."""
        return self.source.read(self.source.options, frozen(cell))

    def encode(self, source: Value, target: Value | None = None, alignment: Alignment | None = None) -> Encoded:
        """A source, with its target and gold alignment if there are, as arrays."""
        arrays, answer = self.source.encode(source), None
        if self.copying:
            lent, copied = self._lent(source)
            own = {piece: n for n, piece in enumerate(copied, len(self.tokenizer))}
            held = [own[piece] if piece in own else self.tokenizer.find(piece) for piece in lent]
            arrays["copy"] = ids([*held, *[EOS] * (len(arrays["source"]) - len(lent))])
            if target is not None:
                answer = ids(self.tokenizer.encode(target, copied))
        elif target is not None:
            answer = self.target.encode(target)
        if alignment is None:
            return Encoded(arrays, answer)
        _check_links(alignment, self.source.length(arrays), 0 if answer is None else len(answer))
        return Encoded(arrays, answer, np.array(alignment, dtype=np.int32).reshape(-1, 2))

    def encode_all(self, sources: Sequence[Value]) -> list[Encoded]:
        """Several sources as arrays."""
        if self.copying:
            return [self.encode(source) for source in sources]
        return [Encoded(arrays, None) for arrays in self.source.encode_all(sources)]

    def encode_example(self, example: Example) -> Encoded:
        """An example with its first target as arrays."""
        try:
            return self.encode(example.source, example.target, example.alignment)
        except DataError as error:
            raise DataError(f"{example.place}: {error}") from None

    def respell(self, examples: Sequence[Example]) -> Sequence[Example]:
        """The examples with targets as the training data spells them; those that are on disk stay as they are."""
        if isinstance(examples, View) or not self.target.choices:
            return examples
        targets = [tuple(dict.fromkeys(map(self.target.respell, e.targets))) for e in examples]
        if all(e.targets == own for e, own in zip(examples, targets, strict=True)):
            return examples
        return tuple(replace(e, targets=own) for e, own in zip(examples, targets, strict=True))

    def copied(self, source: Value) -> tuple[str, ...]:
        """The symbols of a source beyond the target's vocabulary, which a model that copies can write."""
        return self._lent(source)[1] if self.copying else ()

    def _lent(self, source: Value) -> tuple[list[str], tuple[str, ...]]:
        lent = [piece for part in self.source.lends(source) for piece in part]
        return lent, tuple(dict.fromkeys(piece for piece in lent if piece and self.tokenizer.find(piece) == UNK))

    def answer(self, hypothesis: Hypothesis, source: Value) -> tuple[str, Answer]:
        """The text of an output for a source, and the same as a typed answer."""
        return self.target.answer(hypothesis, self.source, source, self.copied(source))

    def costs(self, row: Encoded) -> tuple[int, int]:
        """How many places a row takes in a batch: of the source, and of the target."""
        source, target = self.source.cost(row.source), 0 if row.target is None else self.target.cost(row.target)
        # A model that copies counts the end mark twice: its batches have always been cut so.
        return source + self.source.end_mark if self.copying else source, target

    def collate(self, rows: Sequence[Encoded], keys: Sequence[int]) -> Batch:
        """Make one batch of rows.

        >>> sides = Sides.tiny()
        >>> batch = sides.collate([sides.encode("bc", "c"), sides.encode("b", "ca")], keys=[0, 1])
        >>> batch.inputs["source"].values.tolist(), batch.target.values.tolist()
        ([[5, 6, 3], [5, 3, 0]], [[6, 3, 0], [6, 4, 3]])
        """
        inputs = self.source.collate([row.source for row in rows])
        if self.copying:  # the places are those of the source
            copies = [row.source | {"source": row.source["copy"]} for row in rows]
            inputs["copy"] = self.source.collate(copies)["source"]
        targets = [row.target for row in rows if row.target is not None]
        if targets and len(targets) != len(rows):
            raise DataError("some examples of a batch have a target and others have none; give all or none of them")
        target, alignment = self.target.collate(targets) if targets else None, None
        if target is not None and any(row.alignment is not None for row in rows):
            alignment = _gold(rows, target.mask.shape[1], inputs["source"].mask.shape[1])
        return Batch(inputs, target, torch.tensor(keys, dtype=torch.long), alignment)

    def store(self, rows: Iterable[Encoded], disk: bool = False) -> EncodedStore:
        """Hold rows in memory or on disk."""
        return EncodedStore(rows, self.costs, disk)

    def loader(
        self,
        rows: EncodedStore | Iterable[Encoded],
        batch_tokens: int,
        seed: int = 0,
        shuffle: bool = False,
        augment: Augment | None = None,
    ) -> Loader:
        """Serve rows as batches."""
        store = rows if isinstance(rows, EncodedStore) else self.store(rows)
        return Loader(store, self.collate, batch_tokens, seed, shuffle, augment)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {"source": self.source.to_json(), "target": self.target.to_json()}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Sides:
        """The sides that `to_json` described."""
        try:
            source, target = content["source"], content["target"]
            options = SideOptions(source=source["options"], target=target["options"])
            return cls(
                options.source_side.from_json(options.source, source),
                options.target_side.from_json(options.target, target),
            )
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise BundleError(f"damaged codec: {reason(error)}; take the file from a fresh copy") from error

    @classmethod
    def tiny(cls, copying: bool = False) -> Sides:
        """The letters a, b, c to the same letters, for tests and examples."""
        return cls(TextSource.tiny()[0], TextTarget.tiny()[0], copying)


def _check_links(links: Alignment, source: int, target: int) -> None:
    for i, j in links:
        if not (0 <= i < source and 0 <= j < target):
            raise DataError(
                f"alignment point {i}-{j} lies outside {source} source and {target} target tokens; alignments must "
                "count the tokens the model sees"
            )


def _gold(rows: Sequence[Encoded], width_target: int, width_source: int) -> Tensor:
    gold = torch.zeros(len(rows), width_target, width_source)
    for row, encoded in zip(gold, rows, strict=True):
        if encoded.alignment is not None and len(encoded.alignment):
            i, j = torch.from_numpy(encoded.alignment.astype(np.int64)).unbind(1)
            row[j, i] = 1.0
    return gold / gold.sum(2, keepdim=True).clamp(min=1.0)
