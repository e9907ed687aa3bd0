"""The records that travel from a file to a prediction, and the names of their axes.

    B  batch rows          S  source places       T  target places      V  outputs (vocabulary)
    K  hypotheses a row    L  layers              E  embedding          H  hidden
    D  memory              A  attention           N  rows of a search (B * K)
    P  sentences           C  characters of a word

A mask is True where something is real. Everything is batch first; only `nn/recurrence.py` runs time first inside.
A record is frozen. `map` rebuilds it with a function applied to every tensor, however deeply nested, so `to`,
`select` and `repeat` are written once and beam search can reorder the state of any decoder without knowing it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple, Self, final

import torch
from torch import Tensor

CellState = tuple[Tensor, ...]
"""The state of one layer: (h,) or (h, c), each (B, H). The first part is what the layer puts out."""


def _map(value: Any, fn: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, Tensor):
        return fn(value)
    if isinstance(value, Record):
        return value.map(fn)
    if isinstance(value, tuple):
        return tuple(_map(v, fn) for v in value)
    if isinstance(value, dict):
        return {k: _map(v, fn) for k, v in value.items()}
    return value


@dataclass(frozen=True)
class Record:
    """A frozen, batch-first bundle of tensors.

    >>> Padded(torch.tensor([[5, 6], [7, 0]]), torch.tensor([[True, True], [True, False]])).repeat(2).values.tolist()
    [[5, 6], [5, 6], [7, 0], [7, 0]]
    """

    def map(self, fn: Callable[[Tensor], Tensor]) -> Self:
        """Return the same record with `fn` applied to every tensor in it."""
        return type(self)(**{f.name: _map(getattr(self, f.name), fn) for f in fields(self)})

    def to(self, device: torch.device | str) -> Self:
        """Return the record on another device."""
        return self.map(lambda t: t.to(device))

    def select(self, rows: Tensor) -> Self:
        """Return the rows named by an index (or a mask) over B."""
        return self.map(lambda t: t[rows])

    def repeat(self, k: int) -> Self:
        """Return every row k times, copies of a row side by side."""
        return self.map(lambda t: t.repeat_interleave(k, dim=0))


@dataclass(frozen=True)
class Padded(Record):
    """Sequences of unequal length in one tensor, with the mask that tells which places are real.

    >>> Padded.of([[4, 5, 6], [7]]).mask.tolist()
    [[True, True, True], [True, False, False]]
    """

    values: Tensor  # (B, S) ids, (B, P, S) where places have places of their own, or (B, S, D) features
    mask: Tensor  # (B, S), or (B, P, S)

    @classmethod
    def of(cls, rows: list[list[int]], pad: int = 0) -> Padded:
        """Pad lists of ids to the longest of them."""
        lengths = torch.tensor([len(r) for r in rows])
        width = max(1, int(lengths.max())) if rows else 1
        values = torch.tensor([r + [pad] * (width - len(r)) for r in rows], dtype=torch.long).view(-1, width)
        return cls(values, torch.arange(width) < lengths[:, None])

    @classmethod
    def nested(cls, rows: Sequence[Sequence[Sequence[int]]], pad: int = 0) -> Padded:
        """Pad lists of lists of ids, such as the letters of the words of sentences: (B, S, C)."""
        wide = max((len(row) for row in rows), default=0)
        flat = cls.of([list(part) for row in rows for part in [*row, *[[]] * (max(1, wide) - len(row))]], pad)
        return cls(*(t.view(len(rows), max(1, wide), -1) for t in (flat.values, flat.mask)))

    @property
    def lengths(self) -> Tensor:
        """How many places of each row are real: (B,), or (B, P)."""
        return self.mask.sum(-1)


@dataclass(frozen=True)
class Batch(Record):
    """What a model sees at once.

    >>> source = Padded.of([[4, 5], [6]])
    >>> Batch(inputs={"source": source}, target=None, keys=torch.tensor([0, 1])).size
    2
    """

    inputs: dict[str, Padded]
    target: Padded | None  # of texts, ids that end with the end mark; the mask is the loss mask
    keys: Tensor  # (B,) which examples these are
    alignment: Tensor | None = None  # (B, T, S) gold attention; a row of zeros where nothing is known
    continues: Tensor | None = None  # (B,) of running text: the row goes on from that of the batch before

    @property
    def size(self) -> int:
        """The number of rows."""
        return self.keys.numel()

    @property
    def lengths(self) -> Tensor:
        """How many places of the source are real in each row, words of sentences counted one by one: (B,)."""
        source = self.inputs.get("source")
        return torch.zeros_like(self.keys) if source is None else source.mask.flatten(1).sum(1)

    @property
    def copyable(self) -> Tensor | None:
        """What the places of the source hold, in the target's vocabulary extended by the row's own words: (B, S)."""
        held = self.inputs.get("copy")
        return None if held is None else held.values.flatten(1)


@dataclass(frozen=True)
class Memory(Record):
    """What an encoder leaves for a head to read.

    >>> Memory.empty(3).states.shape
    torch.Size([3, 0, 0])
    """

    states: Tensor  # (B, S, D)
    mask: Tensor  # (B, S)
    summary: Tensor  # (B, D)
    final: tuple[CellState, ...] = ()  # the last state of every layer, to start a stacked decoder
    places: str = "tokens"  # what the S places are: tokens, sentences, a grid
    parts: dict[str, Memory] = field(default_factory=dict)  # the words of sentences, the second text of a pair

    @classmethod
    def empty(cls, rows: int, device: torch.device | str = "cpu") -> Memory:
        """The memory of a model that reads nothing."""
        states, mask = torch.zeros(rows, 0, 0, device=device), torch.zeros(rows, 0, dtype=torch.bool, device=device)
        return cls(states, mask, torch.zeros(rows, 0, device=device))

    @classmethod
    def of_weights(cls, weights: Tensor, mask: Tensor) -> Memory:
        """Attention that an encoder computed, as a part of its memory: the states (B, S, S') are distributions."""
        return cls(weights, mask, weights.new_zeros(weights.size(0), 0))


@dataclass(frozen=True)
class Carry(Record):
    """What the next chunk of running text starts from: the last state of every layer, or its last keys and values.

    >>> carry = Carry(((torch.ones(2, 3), torch.zeros(2, 3)),))
    >>> Carry.of(carry.tensors()).layers[0][0].tolist() == carry.layers[0][0].tolist()
    True
    """

    layers: tuple[CellState, ...]

    def tensors(self) -> dict[str, Tensor]:
        """All of it by name, for a checkpoint."""
        return {f"{n}.{k}": part for n, layer in enumerate(self.layers) for k, part in enumerate(layer)}

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> Carry | None:
        """What `tensors` gave; None where there is nothing."""
        layers: dict[int, dict[int, Tensor]] = {}
        for name, tensor in tensors.items():
            layer, part = map(int, name.split("."))
            layers.setdefault(layer, {})[part] = tensor
        if not layers:
            return None
        return cls(tuple(tuple(layer[k] for k in sorted(layer)) for _, layer in sorted(layers.items())))


@dataclass(frozen=True)
class Scored(Record):
    """The outcome of a training step: a sum, and over how many tokens it was taken.

    >>> Scored(torch.tensor(6.0), torch.tensor(3)).mean.item()
    2.0
    """

    loss_sum: Tensor  # () what is minimised, summed over tokens
    count: Tensor  # () tokens
    terms: dict[str, Tensor] | None = None  # () each: the parts of the loss, summed, for the log
    carry: Carry | None = None  # what the next chunk of running text starts from

    @property
    def mean(self) -> Tensor:
        """The loss a token."""
        return self.loss_sum / self.count.clamp(min=1)


@dataclass(frozen=True)
class Hypothesis:
    """One output of a head for one row, in ids; the target side turns it into an answer.

    >>> Hypothesis(ids=(5, 6), score=-1.5, logprobs=(-1.0, -0.25, -0.25)).finished
    True
    """

    ids: tuple[int, ...]  # tokens without start and end marks; a label; a tag for every place
    score: float  # log probability; of a text, normalised by length as the search options say
    logprobs: tuple[float, ...]  # of every id and, where a text ended, of the end mark
    weights: Tensor | None = None  # (rows, S) attention over the source
    finished: bool = True  # False where the length limit cut a text off
    distribution: Tensor | None = None  # (V,) or (S, V) the probability of every label or tag
    value: float | None = None  # a number, from a head that predicts one
    total: float | None = None  # log probability of the whole output, where it is not the sum of `logprobs`

    @property
    def confidence(self) -> float | None:
        """The probability of the whole output; of a text that was cut off, of any text that begins with it.

        A number has none.
        """
        if self.value is not None:
            return None
        return math.exp(sum(self.logprobs) if self.total is None else self.total)


class Member(NamedTuple):
    """One model of an ensemble as prediction sees it: its head, and what it has read.

    >>> Member(None, Memory.empty(2)).int8
    False
    """

    head: Any
    memory: Memory
    batch: Batch | None = None
    int8: bool = False  # whether the head multiplies in 8 bits
    weight: float = 1.0  # of its probabilities in the mean


@dataclass(frozen=True)
class Span:
    """A part of an input, and its label.

    >>> Span(3, 6, "place", text="Ulm").label
    'place'
    """

    begin: int  # in characters of the input, from 0
    end: int  # the first character after it
    label: str
    text: str


@dataclass(frozen=True)
class Places:
    """What the places of a memory stand for, so that attention over them can be drawn.

    >>> Places("sentences", ("A cat.",), within=(Places("words", ("A", "cat", ".")),)).lowest.names
    ('A', 'cat', '.')
    """

    kind: str  # tokens, words, sentences; a grid, frames, a spectrogram, steps
    names: tuple[str, ...]
    offsets: tuple[tuple[int, int], ...] = ()  # of words: where each is in the characters of the input
    within: tuple[Places, ...] = ()  # of sentences: the words of each
    parts: dict[str, Places] = field(default_factory=dict)  # of a pair: the places of the second text
    unread: int = 0  # words beyond what the model reads
    joined: int = 1  # how many places of the input each stands for, where an encoder joins them

    def grouped(self, k: int) -> Places:
        """The places of an encoder that joins k at a time, each named by its first and its last.

        >>> Places("steps", ("1", "2", "3", "4", "5")).grouped(2).names
        ('1-2', '3-4', '5')
        """
        if k == 1:
            return self
        groups = (self.names[n : n + k] for n in range(0, len(self.names), k))
        names = tuple(group[0] if len(group) == 1 else f"{group[0]}-{group[-1]}" for group in groups)
        return Places(self.kind, names, parts=self.parts, joined=k * self.joined)

    @property
    def lowest(self) -> Places:
        """The places of the lowest level in one row: the words of all sentences, or the places themselves."""
        if not self.within:
            return self
        names = tuple(name for part in self.within for name in part.names)
        return Places(self.within[0].kind, names, unread=self.unread)


@dataclass(frozen=True)
class Answer:
    """What a prediction says. Every target side has an answer of its own, which adds what it knows to these."""

    written: ClassVar[bool] = False  # whether `tokens` are those of a text, each with a row of attention
    per_place: ClassVar[bool] = False  # whether there is a token for every place of the input

    tokens: tuple[str, ...] = ()  # the tokens of a text, the tags of words, one label
    probabilities: tuple[float, ...] = ()  # of every token; of a text that ended, also of the end mark

    def by_label(self) -> Mapping[str, float]:
        """The probability of every label that could have been chosen, the most probable first."""
        return {}

    def by_place(self) -> Mapping[str, tuple[float, ...]]:
        """The probability of every tag at every place."""
        return {}


@final
@dataclass(frozen=True)
class TextAnswer(Answer):
    """A text that a decoder wrote.

    >>> len(TextAnswer(("k", "a"), (0.9, 0.8, 0.9)).probabilities)
    3
    """

    written: ClassVar[bool] = True
    kind: str = "text"


@final
@dataclass(frozen=True)
class LabelAnswer(Answer):
    """One label of several.

    >>> LabelAnswer(("spam",), (0.9,), {"spam": 0.9, "ham": 0.1}).label
    'spam'
    """

    labels: dict[str, float] = field(default_factory=dict)  # every label, the most probable first
    kind: str = "label"

    @property
    def label(self) -> str:
        """The label."""
        return self.tokens[0]

    def by_label(self) -> Mapping[str, float]:
        """The probability of every label."""
        return self.labels


@final
@dataclass(frozen=True)
class TagsAnswer(Answer):
    """A tag for every place.

    >>> TagsAnswer(("DET", "NOUN"), (0.9, 0.8)).spans
    ()
    """

    per_place: ClassVar[bool] = True
    spans: tuple[Span, ...] = ()  # the parts of the input that the tags mark
    distribution: dict[str, tuple[float, ...]] = field(default_factory=dict)  # of tags that are probable anywhere
    kind: str = "tags"

    def by_place(self) -> Mapping[str, tuple[float, ...]]:
        """The probability of every tag at every place."""
        return self.distribution


@dataclass(frozen=True, repr=False)
class Prediction:
    """What a user gets for one input; `asdict` of it is the JSON that commands print (docs/predictions.md).

    >>> p = Prediction("k a t", TextAnswer(("k", "a", "t"), (0.9, 0.9, 0.9, 1.0)), score=-0.1, confidence=0.73)
    >>> p.text, p.answer.kind
    ('k a t', 'text')
    >>> p
    Prediction('k a t', score=-0.1, confidence=0.73)
    """

    text: str
    answer: Answer
    places: Places = Places("none", ())  # what the model read
    score: float = 0.0  # log probability; of a text, normalised by length as the search ranks
    confidence: float | None = 1.0  # probability of the whole answer under the model, 0 to 1; None of number or blank
    attention: tuple[tuple[float, ...], ...] | None = None  # rows over `places`: see docs/predictions.md
    word_attention: tuple[tuple[float, ...], ...] = ()  # of sentences: the weight of every word within its sentence
    unknown: tuple[str, ...] = ()  # what in the input the model has never seen
    finished: bool = True  # False where the length limit cut a text off
    alternatives: tuple[Prediction, ...] = ()  # the rest of the n-best list
    error: str | None = None  # why there is no answer: the input cannot be read

    def __repr__(self) -> str:
        """One line: the text, how sure the model is, and what is unusual about it."""
        shown = [repr(self.text), f"score={self.score:.4g}"]
        shown += [] if self.confidence is None else [f"confidence={self.confidence:.4g}"]
        shown += [f"{name}={value!r}" for name in ("unknown", "error") if (value := getattr(self, name))]
        shown += [] if self.finished else ["finished=False"]
        shown += [f"alternatives={[other.text for other in self.alternatives]}"] if self.alternatives else []
        return f"Prediction({', '.join(shown)})"
