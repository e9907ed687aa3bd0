"""Attention at two levels: over sentences (or turns), and over the words within each of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from windlass.core.records import Memory, Record
from windlass.nn.attention import Attention, AttentionOptions, Keys, masked_softmax, project_query
from windlass.nn.product import Product


@dataclass(frozen=True)
class LevelKeys(Record):
    """The prepared keys of both levels.

    >>> LevelKeys(torch.zeros(2, 3, 4), torch.zeros(2, 6, 5), torch.ones(2, 3) > 0).size(0)
    2
    """

    sentences: Tensor  # (B, P, A)
    words: Tensor  # (B, P * S, A'), a sentence after the other
    mask: Tensor  # (B, P) which sentences are real

    def size(self, axis: int) -> int:
        """The length of an axis of the upper keys."""
        return self.sentences.size(axis)


class Beside(Product):
    """Two products with the same input, side by side; None stands for the input itself.

    >>> Beside(None, Product(torch.tensor([[2.0, 0.0]])), torch.eye(2))(torch.ones(1, 2)).tolist()
    [[1.0, 1.0, 2.0]]
    """

    def __init__(self, first: Product | None, second: Product | None, same: Tensor):
        self.parts = (first, second)
        with torch.no_grad():  # both as one, for inference: gradients go through the parts
            self.weight = torch.cat([same if part is None else part.weight for part in self.parts])

    def __call__(self, x: Tensor, add: Tensor | None = None) -> Tensor:
        """Multiply, and add."""
        found = torch.cat([x if part is None else part(x) for part in self.parts], dim=1)
        return found if add is None else found + add


class Levels(nn.Module):
    """Attends to sentences u_p, and within each of them to its words h_ps, both with the decoder's state as the query.

    b = softmax over p of score(q, u_p)      a_p = softmax over s of score'(q, h_ps)      w_ps = b_p a_ps
    context = sum_ps w_ps [u_p; h_ps] = [sum_p b_p u_p; sum_ps w_ps h_ps]

    The weights w add up to 1 over all words, so that a word is copied with what its sentence and its place in it have.
    Coverage of a sentence is that of all its words.

    >>> from windlass.nn.attention import Bilinear
    >>> attend = Levels(Bilinear.Options(), Bilinear.Options(), query_size=3, memory_size=4, words_size=5)
    >>> words = Memory(torch.randn(2, 6, 5), torch.ones(2, 6) > 0, torch.zeros(2, 4))
    >>> memory = Memory(torch.randn(2, 3, 4), torch.ones(2, 3) > 0, torch.zeros(2, 4), parts={"words": words})
    >>> context, weights = attend(torch.randn(2, 1, 3), attend.prepare(memory))
    >>> context.shape, weights.shape, round(weights.sum().item(), 4)
    (torch.Size([2, 1, 9]), torch.Size([2, 1, 6]), 2.0)
    """

    origin: Tensor

    def __init__(
        self,
        sentences: AttentionOptions,
        words: AttentionOptions,
        query_size: int,
        memory_size: int,
        words_size: int,
    ):
        super().__init__()
        self.sentences = Attention(sentences, query_size, memory_size)
        self.words = Attention(words, query_size, words_size)
        self.size = self.sentences.size + self.words.size
        self.query_size = query_size
        product = self.sentences.query_projection()
        self.first = query_size if product is None else product.weight.size(0)  # where the words' queries begin
        # Knows the type and device of the weights, which a score without any does not.
        self.register_buffer("origin", torch.zeros(0), persistent=False)

    @property
    def covering(self) -> bool:
        """Whether a score sees how much was attended to before."""
        return self.sentences.covering or self.words.covering

    def query_projection(self) -> Product:
        """The projections of both levels."""
        same = torch.eye(self.query_size, dtype=self.origin.dtype, device=self.origin.device)
        return Beside(self.sentences.query_projection(), self.words.query_projection(), same)

    def prepare(self, memory: Memory) -> Keys:
        """Project keys and values of both levels, once for a batch."""
        upper, lower = self.sentences.prepare(memory), self.words.prepare(memory.parts["words"])
        S = lower.values.size(1) // max(1, upper.values.size(1))
        values = torch.cat([upper.values.repeat_interleave(S, dim=1), lower.values], dim=-1)
        return Keys(LevelKeys(upper.keys, lower.keys, upper.mask), values, lower.mask, self.query_projection())

    def forward(self, query: Tensor, keys: Keys, coverage: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Queries (B, T, Q) -> contexts (B, T, D + D') and weights (B, T, P * S); coverage is (B, T, P * S)."""
        weights = self.weigh(project_query(keys.query_projection, query), keys.keys, keys.mask, coverage)
        return weights @ keys.values, weights

    def weigh(self, query: Tensor, keys: LevelKeys, mask: Tensor | None, coverage: Tensor | None = None) -> Tensor:
        """Weights (B, T, P * S) of projected queries; no mask: every word is real."""
        P = keys.mask.size(1)
        first = self.first
        above = None if coverage is None else coverage.unflatten(2, (P, -1)).sum(-1)
        b = self.sentences.weigh(query[..., :first], keys.sentences, keys.mask, above)  # (B, T, P)
        scores = self.words.scores(query[..., first:], keys.words, coverage).unflatten(2, (P, -1))
        a = masked_softmax(scores, None if mask is None else mask[:, None].unflatten(2, (P, -1)))
        return (b[..., None] * a).flatten(2)
