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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Self

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

    >>> p = Padded(torch.tensor([[5, 6], [7, 0]]), torch.tensor([[True, True], [True, False]]))
    >>> p.select(torch.tensor([1])).values.tolist()
    [[7, 0]]
    >>> p.repeat(2).values.tolist()
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
        """Pad lists of lists of ids, such as the letters of the words of sentences: (B, S, C).

        >>> Padded.nested([[[4, 5], [6]], [[7]]]).values.tolist()
        [[[4, 5], [6, 0]], [[7, 0], [0, 0]]]
        """
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
    target: Padded | None  # ids that end with the end mark; the mask is the loss mask
    keys: Tensor  # (B,) which examples these are
    alignment: Tensor | None = None  # (B, T, S) gold attention; a row of zeros where nothing is known
    continues: Tensor | None = None  # (B,) of running text: the row goes on from that of the batch before

    @property
    def size(self) -> int:
        """How many rows there are."""
        return self.keys.numel()


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
    prefix: Padded | None = None  # ids a decoder must read before it begins
    limit: Tensor | None = None  # (B,) the length of the source, which bounds the length of the target
    layout: str = "tokens"  # what the S places are
    second: Memory | None = None  # of a pair: what was made of the second text
    links: Tensor | None = None  # (B, S of the second, S) of a pair: how the second text's words look at the first's
    copy: Tensor | None = None  # (B, S) ids of the places in the target's vocabulary, extended by the row's own words
    lower: Memory | None = None  # where places are sentences: their words, (B, P * S, Dw), a sentence after the other
    within: Tensor | None = None  # (B, P, S) how much each word counted in its sentence, where that was weighed

    @classmethod
    def empty(cls, rows: int, device: torch.device | str = "cpu") -> Memory:
        """The memory of a model that reads nothing."""
        return cls(
            torch.zeros(rows, 0, 0, device=device),
            torch.zeros(rows, 0, dtype=torch.bool, device=device),
            torch.zeros(rows, 0, device=device),
        )


@dataclass(frozen=True)
class Carry(Record):
    """What the next chunk of running text starts from: the last state of every layer.

    >>> carry = Carry(((torch.ones(2, 3), torch.zeros(2, 3)),))
    >>> sorted(carry.tensors())
    ['0.0', '0.1']
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


@dataclass(frozen=True)
class Span:
    """A part of an input, and its label.

    >>> "in Ulm"[slice(*Span(3, 6, "place", "Ulm").place)]
    'Ulm'
    """

    begin: int  # in characters of the input, from 0
    end: int  # the first character after it
    label: str
    text: str

    @property
    def place(self) -> tuple[int, int]:
        """From where to where."""
        return self.begin, self.end


@dataclass(frozen=True)
class Places:
    """What the places of a memory stand for, so that attention over them can be drawn.

    >>> Places("sentences", ("A cat.",), within=(Places("words", ("A", "cat", ".")),)).lowest.names
    ('A', 'cat', '.')
    """

    kind: str  # tokens, words, sentences; open to a grid, frames, a spectrogram
    names: tuple[str, ...]
    offsets: tuple[tuple[int, int], ...] = ()  # of words: where each is in the characters of the input
    within: tuple[Places, ...] = ()  # of sentences: the words of each
    parts: dict[str, Places] = field(default_factory=dict)  # of a pair: the places of the second text
    unread: int = 0  # words beyond what the model reads

    @property
    def lowest(self) -> Places:
        """The places of the lowest level in one row: the words of all sentences, or the places themselves."""
        if not self.within:
            return self
        return Places(self.within[0].kind, tuple(name for part in self.within for name in part.names))


@dataclass(frozen=True)
class TextAnswer:
    """A text that a decoder wrote.

    >>> TextAnswer(("k", "a"), (0.9, 0.8, 0.9)).kind
    'text'
    """

    tokens: tuple[str, ...]
    probabilities: tuple[float, ...]  # of every token and, where the text ended, of the end mark
    finished: bool = True  # False where the length limit cut it off
    kind: Literal["text"] = "text"


@dataclass(frozen=True)
class LabelAnswer:
    """One label of several.

    >>> LabelAnswer("spam", {"spam": 0.9, "ham": 0.1}).kind
    'label'
    """

    label: str
    probabilities: dict[str, float]  # of every label, the most probable first
    kind: Literal["label"] = "label"


@dataclass(frozen=True)
class TagsAnswer:
    """A tag for every place.

    >>> TagsAnswer(("DET", "NOUN"), (0.9, 0.8)).kind
    'tags'
    """

    tags: tuple[str, ...]
    probabilities: tuple[float, ...]  # of every tag
    spans: tuple[Span, ...] = ()  # the parts of the input that the tags mark
    distribution: dict[str, tuple[float, ...]] = field(default_factory=dict)  # each tag's probability at every place
    kind: Literal["tags"] = "tags"


Answer = TextAnswer | LabelAnswer | TagsAnswer
"""What a prediction can be; one record a head."""


@dataclass(frozen=True)
class Prediction:
    """What a user gets for one input.

    >>> p = Prediction(text="k a t", tokens=("k", "a", "t"), score=-0.1, confidence=0.9)
    >>> p.text
    'k a t'
    """

    text: str
    tokens: tuple[str, ...]
    score: float  # normalised log probability, as the search ranks
    confidence: float  # probability of the whole output under the model, 0 to 1
    probabilities: tuple[float, ...] = ()  # of every token (label, tag), and of the end of a text
    source_tokens: tuple[str, ...] = ()
    attention: tuple[tuple[float, ...], ...] | None = None  # a row a token (and the end), over source_tokens
    unknown: tuple[str, ...] = ()  # what in the input the model has never seen
    alternatives: tuple[Prediction, ...] = ()  # the rest of the n-best list
    finished: bool = True  # False where the length limit cut it off
    labels: dict[str, float] = field(default_factory=dict)  # of a label: the probability of each
    offsets: tuple[tuple[int, int], ...] = ()  # of tags: where in the input each of source_tokens is
    spans: tuple[Span, ...] = ()  # of tags: the parts of the input that they name
    chances: dict[str, tuple[float, ...]] = field(default_factory=dict)  # of tags: each one's probability at each word
    second_tokens: tuple[str, ...] = ()  # of a pair: those of the second text; attention has a row for each
    words: tuple[tuple[str, ...], ...] = ()  # of a document, whose source_tokens are sentences: the words of each
    word_weights: tuple[tuple[float, ...], ...] = ()  # how much each of these counted in its sentence, if weighed
    unread: int = 0  # of a document: how many words are beyond what the model reads
