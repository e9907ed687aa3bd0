"""The encoder of documents: words to sentences, sentences to a document, both levels recurrent."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from typing import Literal, Self, final

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from windlass.core.fitting import Gives, Needs, Term
from windlass.core.records import Batch, Memory
from windlass.encoders.base import Encoder, MemoryOptions, Sizes
from windlass.nn import fast
from windlass.nn.embedding import EmbeddingOptions, Learned
from windlass.nn.fast.recompute import recompute
from windlass.nn.fast.stack import InferenceStack
from windlass.nn.pooling import Attended, PoolOptions
from windlass.nn.recurrence import Stack, StackOptions

SHORTER = 0.6
"""Sentences are read together with others down to this share of the longest one's length: less padding, more steps."""


class SentenceLevel(StackOptions):
    """The network over sentences.

    >>> SentenceLevel(cell="gru").bidirectional
    True
    """

    bidirectional: bool = Field(True, description="read in both directions")


class WordLevel(SentenceLevel):
    """The network over the words of a sentence, and how its states become the vector of the sentence.

    >>> WordLevel(pool="max").pool.kind
    'max'
    """

    pool: PoolOptions = Field(Attended.Options(), description="how the states of the words become one vector")

    def _terms(self, at: str) -> Iterator[Term]:
        yield Gives(f"{at} two directions", self.bidirectional)
        yield from self.pool.declare_over(at, f"{at}.pool")


@final
class HierarchicalEncoder(Encoder):
    """A recurrent network over the words of every sentence, and one over the sentences (Yang et al. 2016).

    h_ps = R_words(h_p,s-1, e(x_ps));  v_p = pool_s(h_ps);  states: all R_sentences(h_p-1, v_p);  summary: the last one

    Only real sentences are read, those of like length together, and never more than `at_once` words. Where a batch has
    more, training computes what it needs of them a second time, so that memory does not grow with a document's length.

    >>> from windlass.core.records import Padded
    >>> level = {"cell": "gru", "size": 4}
    >>> encoder = HierarchicalEncoder.Options(words=level, sentences=level).build(vocabulary=10)
    >>> memory = encoder(Batch({"source": Padded.nested([[[5, 6, 7], [8]], [[9]]])}, None, torch.arange(2)))
    >>> memory.states.shape, memory.mask.tolist(), memory.parts["word_attention"].states.shape
    (torch.Size([2, 2, 8]), [[True, True], [True, False]], torch.Size([2, 2, 3]))
    """

    class Options(MemoryOptions):
        """Words to sentences to a document."""

        kind: Literal["hierarchical"] = "hierarchical"
        embedding: EmbeddingOptions = Field(Learned(), description="the vectors of the words")
        words: WordLevel = Field(WordLevel(), description="the network over the words of a sentence")
        sentences: SentenceLevel = Field(SentenceLevel(), description="the network over the sentences")
        at_once: int = Field(
            32_000, ge=1, description="words, with padding, that are read at once; of more, the graph is made again"
        )

        @property
        def source_embedding(self) -> EmbeddingOptions:
            """How words become vectors."""
            return self.embedding

        def _terms(self, at: str) -> Iterator[Term]:
            yield from super()._terms(at)
            yield Gives(f"{at} final states")
            yield Gives(f"{at} two directions", self.sentences.bidirectional)
            yield Gives(f"{at} words")
            yield Needs(
                "source sentences", f"{at}: hierarchical reads sentences, not source: <source>: set source: document"
            )

        @classmethod
        def tiny(cls) -> tuple[Self, ...]:
            """Read at once, and in portions."""
            words, sentences = WordLevel.small(cell="gru", size=5), SentenceLevel.small(cell="gru", size=3)
            plain = cls.small(words=words, sentences=sentences, at_once=1000)
            return plain, plain.model_copy(update={"at_once": 7})

        def build(self, vocabulary: int | Sizes) -> HierarchicalEncoder:
            """Make the encoder."""
            return HierarchicalEncoder(vocabulary, self)

    def __init__(self, vocabulary: int | Sizes, options: Options):
        super().__init__()
        known = vocabulary if isinstance(vocabulary, int) else vocabulary["source"]
        self.embedding = options.embedding.build(known)
        self.words = Stack(self.embedding.size, options.words, options.words.bidirectional)
        self.pool = options.words.pool.build(self.words.size)
        self.sentences = Stack(self.pool.size, options.sentences, options.sentences.bidirectional)
        self.size = self.sentences.size
        self.lower_size = self.words.size  # of the states of the words
        self.part_sizes = {"words": self.lower_size}
        self.final_sizes = ((self.size,) * self.sentences.first.parts,) * options.sentences.layers
        self.at_once = options.at_once
        self.keep_lower = False  # whether the states of the words go into the memory, for a head that looks at them

    def keep(self, parts: Collection[str]) -> None:
        """The states of words are held for a head that reads them: they are many."""
        self.keep_lower = "words" in parts

    def forward(self, batch: Batch) -> Memory:
        """Run over the words of the sentences of `source`, then over the sentences."""
        return self._read(batch, self.words, self.sentences)

    def infer(self, batch: Batch, int8: bool = False) -> Memory:
        """The same with packed weights, if the stacks offer it."""
        words, sentences = (fast.inference(stack, int8) or stack for stack in (self.words, self.sentences))
        return self._read(batch, words, sentences)

    def _read(self, batch: Batch, words: Stack | InferenceStack, sentences: Stack | InferenceStack) -> Memory:
        source = batch.inputs["source"]
        values, mask = source.values, source.mask
        if values.dim() == 2:  # no row has any sentence
            values, mask = values[:, None], mask[:, None]
        B, P, S = mask.shape
        real = mask.any(-1)  # (B, P)
        vectors, within, lower = self._sentences(values.flatten(0, 1), mask.flatten(0, 1), words)
        states, final = sentences(vectors.view(B, P, -1), real)
        summary = ends(states, real, bool(self.sentences.backward_cells))
        parts = {}
        if lower is not None:
            parts["words"] = Memory(lower.view(B, P * S, -1), mask.flatten(1), summary)
        if within is not None:
            parts["word_attention"] = Memory.of_weights(within.view(B, P, S), real)
        return Memory(states, real, summary, final, "sentences", parts)

    def _sentences(
        self, values: Tensor, mask: Tensor, words: Stack | InferenceStack
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Ids (B * P, S) -> vectors (B * P, D), the weights of words (B * P, S), and, if kept, their states."""
        rows, S = mask.shape
        like: Tensor = self.embedding.table
        vectors = like.new_zeros(rows, self.pool.size)
        within = like.new_zeros(rows, S) if self.weighs else None
        lower = like.new_zeros(rows, S, self.lower_size) if self.keep_lower else None
        lengths = mask.sum(1)
        plan = portions(lengths.tolist(), self.at_once)
        long = len(plan) > 1 and sum(len(part) * int(lengths[part[0]]) for part in plan) > self.at_once
        weights = [*self.embedding.parameters(), *self.words.parameters(), *self.pool.parameters()]
        places, found, kept = [], [], []
        for part in plan:
            at = torch.tensor(part, device=mask.device)
            width = int(lengths[part[0]])
            make = partial(self._portion, values[at, :width], mask[at, :width], words)
            made = recompute(make, weights) if long else make()
            places.append(at)
            found.append(made[0])
            if within is not None:
                within[at, :width] = made[1].detach()
            if lower is not None:
                kept.append(F.pad(made[-1], (0, 0, 0, S - width)))
        if places:
            every = torch.cat(places)
            vectors = vectors.index_copy(0, every, torch.cat(found))
            lower = None if lower is None else lower.index_copy(0, every, torch.cat(kept))
        return vectors, within, lower

    @property
    def weighs(self) -> bool:
        """Whether words have weights: where they are pooled by attention."""
        return isinstance(self.pool, Attended)

    def _portion(self, ids: Tensor, mask: Tensor, words: Stack | InferenceStack) -> tuple[Tensor, ...]:
        """Sentences (N, S) -> vectors (N, D); then, where there are any, weights (N, S) and kept states (N, S, Dw)."""
        states, _ = words(self.embedding(ids), mask)
        summary = ends(states, mask, bool(self.words.backward_cells))
        pooled, weights = self.pool(Memory(states, mask, summary))
        return pooled, *([] if weights is None else [weights]), *([states] if self.keep_lower else [])


def ends(states: Tensor, mask: Tensor, bidirectional: bool) -> Tensor:
    """The state where a network has read everything: (B, D). Zeros where there was nothing to read.

    Of two directions: [forward state of the last place; backward state of the first].

    >>> ends(torch.tensor([[[1.0, 2.0], [3.0, 4.0], [0.0, 0.0]]]), torch.tensor([[True, True, False]]), True).tolist()
    [[3.0, 2.0]]
    """
    rows = torch.arange(states.size(0), device=states.device)
    places = torch.arange(states.size(1), device=states.device)
    last = states[rows, (places * mask).max(1).values]
    if not bidirectional:
        return last
    first = states[rows, mask.to(torch.uint8).argmax(1)]
    half = states.size(2) // 2
    return torch.cat([last[:, :half], first[:, half:]], dim=1)


def portions(lengths: list[int], most: int) -> list[list[int]]:
    """Which rows to read together, the longest first: of like length, and with padding at most so many places.

    A row with nothing in it is left out.

    >>> portions([2, 9, 0, 8, 1, 1], 20)
    [[1, 3], [0], [4, 5]]
    """
    order = sorted((n for n, length in enumerate(lengths) if length), key=lambda n: -lengths[n])
    found: list[list[int]] = []
    for row in order:
        if found:
            width = lengths[found[-1][0]]
            if lengths[row] >= SHORTER * width and (len(found[-1]) + 1) * width <= most:
                found[-1].append(row)
                continue
        found.append([row])
    return found


__all__ = ["HierarchicalEncoder", "SentenceLevel", "WordLevel", "ends", "portions"]
