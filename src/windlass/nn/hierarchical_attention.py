"""Hierarchical attention: over sentences (or turns), and over the words of each."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from windlass.core.records import Memory, Record
from windlass.nn.attention import Attention, AttentionOptions, Keys, MemoryAttention, masked_softmax, project_query
from windlass.nn.product import Product


@dataclass(frozen=True)
class _HierarchicalKeys(Record):
    sentences: Tensor  # (B, P, A)
    words: Tensor  # (B, P * S, A'), sentence by sentence
    mask: Tensor  # (B, P) of the sentences

    def size(self, axis: int) -> int:
        return self.sentences.size(axis)


class _ConcatProduct(Product):
    """The concatenation of two products with the same input; None stands for the input itself."""

    def __init__(self, first: Product | None, second: Product | None, identity: Tensor):
        self.parts = (first, second)
        with torch.no_grad():  # both in one matrix, for inference; gradients flow through the parts
            self.weight = torch.cat([identity if part is None else part.weight for part in self.parts])

    def __call__(self, x: Tensor, add: Tensor | None = None) -> Tensor:
        products = torch.cat([x if part is None else part(x) for part in self.parts], dim=1)
        return products if add is None else products + add


class HierarchicalAttention(MemoryAttention):
    """Attention over sentences u_p, and over the words h_ps of each, with the decoder's state as the query.

    b = softmax over p of score(q, u_p)      a_p = softmax over s of score'(q, h_ps)      w_ps = b_p a_ps
    context = sum_ps w_ps [u_p; h_ps] = [sum_p b_p u_p; sum_ps w_ps h_ps]

    The weights w sum to 1 over all words, so they also serve for copying. The coverage of a sentence is the sum of that
    of its words.

    >>> from windlass.nn.attention import Bilinear
    >>> score = Bilinear.Options()
    >>> attend = HierarchicalAttention(score, score, query_size=3, memory_size=4, words_size=5)
    >>> words = Memory(torch.randn(2, 6, 5), torch.ones(2, 6) > 0, torch.zeros(2, 4))
    >>> memory = Memory(torch.randn(2, 3, 4), torch.ones(2, 3) > 0, torch.zeros(2, 4), parts={"words": words})
    >>> context, weights = attend(torch.randn(2, 1, 3), attend.prepare(memory))
    >>> context.shape, weights.shape, round(weights.sum().item(), 4)
    (torch.Size([2, 1, 9]), torch.Size([2, 1, 6]), 2.0)
    """

    origin: Tensor

    def __init__(
        self, sentences: AttentionOptions, words: AttentionOptions, query_size: int, memory_size: int, words_size: int
    ):
        super().__init__()
        self.sentences = Attention(sentences, query_size, memory_size)
        self.words = Attention(words, query_size, words_size)
        self.size = self.sentences.size + self.words.size
        self.query_size = query_size
        projection = self.sentences.query_projection()
        self.split = query_size if projection is None else projection.weight.size(0)  # the words' queries begin here
        # Has the dtype and device of the module, which may have no weights.
        self.register_buffer("origin", torch.zeros(0), persistent=False)

    @property
    def uses_coverage(self) -> bool:
        """Whether a score sees the attention that each place has received so far."""
        return self.sentences.uses_coverage or self.words.uses_coverage

    def query_projection(self) -> Product:
        """The projections of both levels, concatenated."""
        identity = torch.eye(self.query_size, dtype=self.origin.dtype, device=self.origin.device)
        return _ConcatProduct(self.sentences.query_projection(), self.words.query_projection(), identity)

    def prepare(self, memory: Memory) -> Keys:
        """Project the keys and values of both levels, once per batch."""
        sentences, words = self.sentences.prepare(memory), self.words.prepare(memory.parts["words"])
        S = words.values.size(1) // max(1, sentences.values.size(1))
        values = torch.cat([sentences.values.repeat_interleave(S, dim=1), words.values], dim=-1)  # (B, P * S, D + D')
        keys = _HierarchicalKeys(sentences.keys, words.keys, sentences.mask)
        return Keys(keys, values, words.mask, self.query_projection())

    def forward(self, query: Tensor, keys: Keys, coverage: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Queries (B, T, Q) -> contexts (B, T, D + D') and weights (B, T, P * S); coverage is (B, T, P * S)."""
        weights = self.weigh(project_query(keys.query_projection, query), keys.keys, keys.mask, coverage)
        return weights @ keys.values, weights

    def impose(self, row: Tensor, query: Tensor, keys: Keys, *_: Tensor | None) -> tuple[Tensor, Tensor]:
        """`row` in place of the weights of every query over all words."""
        return self.words.impose(row, query, keys)

    def weigh(
        self, query: Tensor, keys: _HierarchicalKeys, mask: Tensor | None, coverage: Tensor | None = None
    ) -> Tensor:
        """Weights (B, T, P * S) of projected queries over all words; without a mask every word is real."""
        P = keys.mask.size(1)
        of_sentences = None if coverage is None else coverage.unflatten(2, (P, -1)).sum(-1)
        b = self.sentences.weigh(query[..., : self.split], keys.sentences, keys.mask, of_sentences)  # (B, T, P)
        scores = self.words.scores(query[..., self.split :], keys.words, coverage).unflatten(2, (P, -1))
        a = masked_softmax(scores, None if mask is None else mask[:, None].unflatten(2, (P, -1)))  # (B, T, P, S)
        return (b[..., None] * a).flatten(2)
