"""The hierarchical encoder of documents: words to sentences, sentences to a document."""

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
from windlass.encoders.base import Encoder, MemoryOptions, VocabularySizes
from windlass.nn import fast
from windlass.nn.embedding import EmbeddingOptions, Learned
from windlass.nn.fast.recompute import recompute
from windlass.nn.fast.stack import InferenceStack
from windlass.nn.pooling import AttentionPooling, PoolOptions
from windlass.nn.recurrence import BidirectionalOptions, Stack

MIN_LENGTH_RATIO = 0.6
"""The shortest sentence of a bucket has at least this share of the longest one's length: less padding, more steps."""


class WordLevel(BidirectionalOptions):
    """The network over the words of a sentence, and the pooling of its states.

    >>> from windlass.core.fitting import misfits
    >>> list(misfits(WordLevel(pool="ends", bidirectional=False).declare("words")))
    ['words.pool: ends needs a bidirectional network: use pool: last']
    """

    pool: PoolOptions = Field(AttentionPooling.Options(), description="the pooling of word states to a sentence vector")

    def _terms(self, at: str) -> Iterator[Term]:
        yield Gives(f"{at} two directions", self.bidirectional)
        yield from self.pool.declare_over(at, f"{at}.pool")


@final
class HierarchicalEncoder(Encoder):
    """A recurrent network over the words of each sentence, and one over the sentences (Yang et al. 2016).

    h_ps = R_words(h_p,s-1, e(x_ps));  v_p = pool_s(h_ps);  states: all R_sentences(h_p-1, v_p);  summary: the last one

    Sentences are encoded in buckets of similar length, of at most `at_once` words each. If a batch needs several, the
    activations are recomputed in the backward pass: memory use does not grow with the length of a document.

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
        embedding: EmbeddingOptions = Field(Learned(), description="the embedding of the words")
        words: WordLevel = Field(WordLevel(), description="the network over the words of a sentence")
        sentences: BidirectionalOptions = Field(BidirectionalOptions(), description="the network over the sentences")
        at_once: int = Field(
            32_000,
            ge=1,
            description="words, with padding, to encode at once; for more, training recomputes activations",
        )

        def _terms(self, at: str) -> Iterator[Term]:
            yield from super()._terms(at)
            yield Gives(f"{at} final states", self.sentences.cell.stateful)
            yield Gives(f"{at} two directions", self.sentences.bidirectional)
            yield Gives(f"{at} words")
            yield Needs(
                "source sentences", f"{at}: hierarchical reads sentences, not source: <source>: set source: document"
            )

        @classmethod
        def tiny(cls) -> tuple[Self, ...]:
            """Read at once, and in portions."""
            words, sentences = WordLevel.small(cell="gru", size=5), BidirectionalOptions.small(cell="gru", size=3)
            plain = cls.small(words=words, sentences=sentences, at_once=1000)
            return plain, plain.model_copy(update={"at_once": 7})

    def __init__(self, vocabulary: int | VocabularySizes, options: Options):
        super().__init__()
        size = vocabulary if isinstance(vocabulary, int) else vocabulary["source"]
        self.embedding = options.embedding.build(size)
        self.words = Stack(self.embedding.size, options.words, options.words.bidirectional)
        self.pool = options.words.pool.build(self.words.size)
        self.sentences = Stack(self.pool.size, options.sentences, options.sentences.bidirectional)
        self.size = self.sentences.size
        self.part_sizes = {"words": self.words.size}
        self.final_sizes = ((self.size,) * self.sentences.first.parts,) * options.sentences.layers
        self.max_words_at_once = options.at_once
        self.keep_words = False  # whether the memory has the states of the words, for a head that reads them

    def keep(self, parts: Collection[str]) -> None:
        """Keep the states of the words only for a head that reads them: they are many."""
        self.keep_words = "words" in parts

    def forward(self, batch: Batch) -> Memory:
        """Encode the words of each sentence of `source`, then the sentences."""
        return self._encode(batch, self.words, self.sentences)

    def infer(self, batch: Batch, int8: bool = False) -> Memory:
        """`forward` with packed weights, if the stacks offer them."""
        words, sentences = (fast.inference(stack, int8) or stack for stack in (self.words, self.sentences))
        return self._encode(batch, words, sentences)

    def _encode(self, batch: Batch, words: Stack | InferenceStack, sentences: Stack | InferenceStack) -> Memory:
        source = batch.inputs["source"]
        values, mask = source.values, source.mask
        if values.dim() == 2:  # no row has a sentence
            values, mask = values[:, None], mask[:, None]
        B, P, S = mask.shape
        real = mask.any(-1)  # (B, P)
        vectors, word_weights, word_states = self._encode_sentences(values.flatten(0, 1), mask.flatten(0, 1), words)
        states, final = sentences(vectors.view(B, P, -1), real)
        summary = end_states(states, real, bool(self.sentences.backward_cells))
        parts = {}
        if word_states is not None:
            parts["words"] = Memory(word_states.view(B, P * S, -1), mask.flatten(1), summary)
        if word_weights is not None:
            parts["word_attention"] = Memory.of_weights(word_weights.view(B, P, S), real)
        return Memory(states, real, summary, final, "sentences", parts)

    def _encode_sentences(
        self, values: Tensor, mask: Tensor, words: Stack | InferenceStack
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Ids (B * P, S) -> vectors (B * P, D), weights (B * P, S) of words and, if kept, their states."""
        rows, S = mask.shape
        (table,) = self.embeddings()
        like = table.table
        vectors = like.new_zeros(rows, self.pool.size)
        word_weights = like.new_zeros(rows, S) if isinstance(self.pool, AttentionPooling) else None
        word_states = like.new_zeros(rows, S, self.words.size) if self.keep_words else None
        lengths = mask.sum(1)
        buckets = length_buckets(lengths.tolist(), self.max_words_at_once)
        padded = sum(len(bucket) * int(lengths[bucket[0]]) for bucket in buckets)
        long = len(buckets) > 1 and padded > self.max_words_at_once
        weights = [*self.embedding.parameters(), *self.words.parameters(), *self.pool.parameters()]
        indices, pooled, states = [], [], []
        for bucket in buckets:
            at = torch.tensor(bucket, device=mask.device)
            width = int(lengths[bucket[0]])
            encode = partial(self._encode_bucket, values[at, :width], mask[at, :width], words)
            outputs = recompute(encode, weights) if long else encode()
            indices.append(at)
            pooled.append(outputs[0])
            if word_weights is not None:
                word_weights[at, :width] = outputs[1].detach()
            if word_states is not None:
                states.append(F.pad(outputs[-1], (0, 0, 0, S - width)))
        if indices:
            order = torch.cat(indices)
            vectors = vectors.index_copy(0, order, torch.cat(pooled))
            word_states = None if word_states is None else word_states.index_copy(0, order, torch.cat(states))
        return vectors, word_weights, word_states

    def _encode_bucket(self, ids: Tensor, mask: Tensor, words: Stack | InferenceStack) -> tuple[Tensor, ...]:
        """Sentences (N, S) -> vectors (N, D), then, if any, weights (N, S) and word states (N, S, Dw)."""
        states, _ = words(self.embedding(ids), mask)
        summary = end_states(states, mask, bool(self.words.backward_cells))
        pooled, weights = self.pool(Memory(states, mask, summary))
        return pooled, *([] if weights is None else [weights]), *([states] if self.keep_words else [])


def end_states(states: Tensor, mask: Tensor, bidirectional: bool) -> Tensor:
    """The last output of a network (B, D), of each direction if it is bidirectional; zeros for an empty row.

    >>> states, mask = torch.tensor([[[1.0, 2.0], [3.0, 4.0], [0.0, 0.0]]]), torch.tensor([[True, True, False]])
    >>> end_states(states, mask, bidirectional=True).tolist()
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


def length_buckets(lengths: list[int], max_words: int) -> list[list[int]]:
    """Buckets of rows of similar length, longest first, each of at most `max_words` words with padding.

    Empty rows are left out.

    >>> length_buckets([2, 9, 0, 8, 1, 1], 20)
    [[1, 3], [0], [4, 5]]
    """
    order = sorted((n for n, length in enumerate(lengths) if length), key=lambda n: -lengths[n])
    buckets: list[list[int]] = []
    for row in order:
        if buckets:
            bucket, longest = buckets[-1], lengths[buckets[-1][0]]
            if lengths[row] >= MIN_LENGTH_RATIO * longest and (len(bucket) + 1) * longest <= max_words:
                bucket.append(row)
                continue
        buckets.append([row])
    return buckets
