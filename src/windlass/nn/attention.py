"""Attention: a distribution over the places of a memory, and the mean of the values under it.

    e_j = score(q, k_j)     a = softmax(e) over real places     context = sum_j a_j v_j

The kinds of attention differ only in their score; masking, softmax, the weighted sum and coverage are written once.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, Literal, final

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from windlass.core.errors import RecipeError
from windlass.core.options import Options, Part, named
from windlass.core.records import Memory, Record
from windlass.nn.fast.activation import tanh_
from windlass.nn.fast.attention import CosineTape, FusedScore, ProductTape, ReluTape, TanhTape
from windlass.nn.fast.onednn import linear
from windlass.nn.product import Product


class Score(Part, nn.Module, ABC):
    """How well a query matches a key. `prepare` computes, once per batch, what does not depend on the query."""

    size: int
    """The size of a prepared key: A."""

    def prepare(self, keys: Tensor) -> Tensor:
        """(B, S, K) -> (B, S, A); the keys themselves, unless a score overrides it."""
        return keys

    def query_projection(self) -> Product | None:
        """The product that takes queries to those that `compare` expects; None: the identity."""
        return None

    @abstractmethod
    def compare(self, query: Tensor, keys: Tensor) -> Tensor:
        """Projected queries (B, T, A) against prepared keys (B, S, A) -> (B, T, S)."""

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """Queries (B, T, Q) against prepared keys (B, S, A) -> (B, T, S)."""
        return self.compare(project_query(self.query_projection(), query), keys)

    def fused(self, keys: Tensor, coverage: Tensor | None) -> FusedScore | None:
        """The score against prepared keys with its gradients by hand, for the fused decoder; None: there is none."""
        return None


def project_query(product: Product | None, query: Tensor) -> Tensor:
    """Queries (B, T, Q) -> (B, T, A): their product with a projection, or the queries themselves without one.

    >>> project_query(Product(torch.ones(3, 2)), torch.ones(1, 1, 2)).tolist()
    [[[2.0, 2.0, 2.0]]]
    """
    return query if product is None else product(query.flatten(0, 1)).unflatten(0, query.shape[:2])


class _AttentionOptions(Options):
    keys: int | None = Field(None, ge=1, description="project the keys to this size; none: no projection")
    values: int | None = Field(None, ge=1, description="project the values to this size; none: no projection")
    coverage: bool = Field(False, description="let the score see the attention that each place has received so far")

    def build(self, query_size: int, key_size: int) -> Score:
        """Build the score."""
        return self.part(query_size, key_size, self)  # type: ignore[no-any-return]


@final
class Additive(Score):
    """A feed-forward network with one hidden layer over query and key (Bahdanau et al. 2015).

    e = v . tanh(U q + W k)

    >>> score = Additive.Options(size=5).build(query_size=3, key_size=4)
    >>> score(torch.randn(2, 1, 3), score.prepare(torch.randn(2, 6, 4))).shape
    torch.Size([2, 1, 6])
    """

    class Options(_AttentionOptions):
        """Additive attention."""

        kind: Literal["additive"] = "additive"
        size: int = Field(256, ge=1, description="units of the hidden layer")

    def __init__(self, query_size: int, key_size: int, options: Options):
        super().__init__()
        self.size = options.size
        self.query = nn.Linear(query_size, options.size, bias=False)
        self.key = nn.Linear(key_size, options.size, bias=False)
        self.v = nn.Parameter(torch.empty(options.size).uniform_(-1, 1) * options.size**-0.5)

    def prepare(self, keys: Tensor) -> Tensor:
        """W k."""
        return linear(keys, self.key.weight)

    def query_projection(self) -> Product | None:
        """U q."""
        return Product(self.query.weight)

    def compare(self, query: Tensor, keys: Tensor) -> Tensor:
        """v . tanh(U q + W k)."""
        hidden = query[:, :, None] + keys[:, None]  # (B, T, S, A)
        return (torch.tanh(hidden) if torch.is_grad_enabled() else tanh_(hidden)) @ self.v

    def fused(self, keys: Tensor, coverage: Tensor | None) -> FusedScore | None:
        """v . tanh(U q + W k)."""
        return FusedScore(TanhTape, keys, self.query.weight, self.v, coverage)


class _DotProduct(Score):
    def __init__(self, query_size: int, key_size: int, options: Dot.Options | ScaledDot.Options | Cosine.Options):
        super().__init__()
        if query_size != key_size:
            raise RecipeError(
                f"{options.kind} attention needs queries and keys of the same size, not {query_size} and {key_size}: "
                f"set attention keys: {query_size}, or use kind: bilinear or additive"
            )
        self.size = key_size

    def compare(self, query: Tensor, keys: Tensor) -> Tensor:
        return query @ keys.transpose(1, 2)

    def fused(self, keys: Tensor, coverage: Tensor | None) -> FusedScore | None:
        return FusedScore(ProductTape, keys, coverage=coverage)


@final
class Dot(_DotProduct):
    """The dot product of query and key (Luong et al. 2015).

    e = q . k

    >>> score = Dot.Options().build(2, 2)
    >>> score(torch.tensor([[[1.0, 2.0]]]), torch.tensor([[[3.0, 4.0]]])).tolist()
    [[[11.0]]]
    """

    class Options(_AttentionOptions):
        """Dot-product attention."""

        kind: Literal["dot"] = "dot"


@final
class ScaledDot(_DotProduct):
    """The dot product of query and key, divided by the square root of their size A (Vaswani et al. 2017).

    e = q . k / sqrt(A)

    >>> score = ScaledDot.Options().build(4, 4)
    >>> score(torch.ones(1, 1, 4), torch.ones(1, 1, 4)).item()
    2.0
    """

    class Options(_AttentionOptions):
        """Scaled dot-product attention."""

        kind: Literal["scaled_dot"] = "scaled_dot"

    def compare(self, query: Tensor, keys: Tensor) -> Tensor:
        """q . k / sqrt(A)."""
        return super().compare(query, keys) / math.sqrt(self.size)

    def fused(self, keys: Tensor, coverage: Tensor | None) -> FusedScore | None:
        """q . (k / sqrt(A))."""
        root = math.sqrt(self.size)
        return FusedScore(ProductTape, keys / root, coverage=None if coverage is None else coverage / root)


@final
class Bilinear(_DotProduct):
    """A dot product through a learned matrix ("general" in Luong et al. 2015); sizes may differ.

    e = q . W k

    >>> score = Bilinear.Options().build(2, 1)
    >>> _ = score.key.weight.data.copy_(torch.tensor([[2.0], [3.0]]))
    >>> score(torch.tensor([[[1.0, 1.0]]]), score.prepare(torch.tensor([[[10.0]]]))).item()
    50.0
    """

    class Options(_AttentionOptions):
        """Bilinear attention."""

        kind: Literal["bilinear"] = "bilinear"

    def __init__(self, query_size: int, key_size: int, options: Options):
        nn.Module.__init__(self)
        self.size = query_size
        self.key = nn.Linear(key_size, query_size, bias=False)

    def prepare(self, keys: Tensor) -> Tensor:
        """W k."""
        return linear(keys, self.key.weight)


@final
class Cosine(_DotProduct):
    """The cosine similarity of query and key, times a factor.

    e = scale * (q . k) / (|q| |k|)

    A cosine lies in -1..1, so with scale 1 no place can have more than e^2 times the weight of another.

    >>> score = Cosine.Options(scale=1).build(2, 2)
    >>> round(score(torch.tensor([[[3.0, 4.0]]]), torch.tensor([[[4.0, 3.0]]])).item(), 2)
    0.96
    """

    class Options(_AttentionOptions):
        """Cosine attention."""

        kind: Literal["cosine"] = "cosine"
        scale: float = Field(10.0, gt=0, description="multiplies the cosine, which sharpens the softmax")

    def __init__(self, query_size: int, key_size: int, options: Options):
        super().__init__(query_size, key_size, options)
        self.scale = options.scale

    def compare(self, query: Tensor, keys: Tensor) -> Tensor:
        """scale * cos(q, k); keys are not normalised before, as coverage may still change them."""
        return self.scale * F.normalize(query, dim=-1) @ F.normalize(keys, dim=-1).transpose(1, 2)

    def fused(self, keys: Tensor, coverage: Tensor | None) -> FusedScore | None:
        """(q / |q|) . (scale k / |k|); none with coverage, which changes the norm of a key at every step."""
        return None if coverage is not None else FusedScore(CosineTape, self.scale * F.normalize(keys, dim=-1))


@final
class MLP(Score):
    """A multi-layer perceptron over the concatenation of query and key.

    e = v . relu(W [q; k] + b)

    >>> score = MLP.Options(size=5).build(3, 4)
    >>> score(torch.randn(2, 7, 3), score.prepare(torch.randn(2, 6, 4))).shape
    torch.Size([2, 7, 6])
    """

    class Options(_AttentionOptions):
        """Attention by a multi-layer perceptron on [query; key]."""

        kind: Literal["mlp"] = "mlp"
        size: int = Field(256, ge=1, description="units of the hidden layer")

    def __init__(self, query_size: int, key_size: int, options: Options):
        super().__init__()
        self.size = options.size
        self.query_size = query_size
        self.hidden = nn.Linear(query_size + key_size, options.size)
        self.out = nn.Linear(options.size, 1, bias=False)  # no bias: softmax would cancel it

    def prepare(self, keys: Tensor) -> Tensor:
        """The columns of W for the key, times k, plus b."""
        return F.linear(keys, self.hidden.weight[:, self.query_size :], self.hidden.bias)

    def query_projection(self) -> Product | None:
        """The columns of W for the query."""
        return Product(self.hidden.weight[:, : self.query_size])

    def compare(self, query: Tensor, keys: Tensor) -> Tensor:
        """v . relu(W [q; k] + b)."""
        scores: Tensor = self.out(torch.relu(query[:, :, None] + keys[:, None]))
        return scores.squeeze(-1)

    def fused(self, keys: Tensor, coverage: Tensor | None) -> FusedScore | None:
        """v . relu(W [q; k] + b)."""
        return FusedScore(ReluTape, keys, self.hidden.weight[:, : self.query_size], self.out.weight[0], coverage)


AttentionOptions = Annotated[
    Additive.Options | Dot.Options | ScaledDot.Options | Bilinear.Options | Cosine.Options | MLP.Options,
    Field(discriminator="kind"),
    named,
]
"""Every attention that a recipe can name."""


@dataclass(frozen=True)
class Keys(Record):
    """A memory prepared for attention, once per batch.

    >>> keys = Keys(torch.zeros(2, 5, 3), torch.zeros(2, 5, 4), torch.ones(2, 5, dtype=torch.bool))
    >>> keys.select(torch.tensor([1])).values.shape
    torch.Size([1, 5, 4])
    """

    keys: Any  # (B, S, A), or those of both levels of a hierarchical attention
    values: Tensor  # (B, S, D)
    mask: Tensor  # (B, S)
    query_projection: Product | None = None  # of the score


class MemoryAttention(nn.Module, ABC):
    """Attention over a memory: contexts for queries. The weights may also come from outside."""

    @abstractmethod
    def impose(self, row: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
        """What `forward` returns if every query attends with `row`, weights of the real places of one source."""


class Attention(MemoryAttention):
    """Attention over a memory, with any score.

    With coverage, the key of a place is k_j + w * (sum of the attention that it has received so far). For the additive
    score this is the coverage of See et al. (2017).

    >>> attend = Attention(Additive.Options(size=5), query_size=3, memory_size=4)
    >>> memory = Memory(torch.randn(2, 6, 4), torch.ones(2, 6, dtype=torch.bool), torch.zeros(2, 4))
    >>> context, weights = attend(torch.randn(2, 1, 3), attend.prepare(memory))
    >>> context.shape, round(weights.sum().item(), 4)
    (torch.Size([2, 1, 4]), 2.0)
    """

    def __init__(self, options: AttentionOptions, query_size: int, memory_size: int):
        super().__init__()
        self.project_keys = nn.Linear(memory_size, options.keys, bias=False) if options.keys else nn.Identity()
        self.project_values = nn.Linear(memory_size, options.values, bias=False) if options.values else nn.Identity()
        self.score: Score = options.build(query_size, options.keys or memory_size)
        self.coverage = nn.Parameter(torch.empty(self.score.size).uniform_(-0.1, 0.1)) if options.coverage else None
        self.size = options.values or memory_size

    @property
    def uses_coverage(self) -> bool:
        """Whether the score sees the attention that each place has received so far."""
        return self.coverage is not None

    def query_projection(self) -> Product | None:
        """The score's projection of queries, if it has one."""
        return self.score.query_projection()

    def prepare(self, memory: Memory) -> Keys:
        """Project keys and values, once per batch."""
        keys = self.score.prepare(self.project_keys(memory.states))
        return Keys(keys, self.project_values(memory.states), memory.mask, self.score.query_projection())

    def forward(self, query: Tensor, keys: Keys, coverage: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Queries (B, T, Q) -> contexts (B, T, D) and weights (B, T, S); coverage is (B, T, S)."""
        weights = self.weigh(project_query(keys.query_projection, query), keys.keys, keys.mask, coverage)
        return weights @ keys.values, weights

    def impose(self, row: Tensor, query: Tensor, keys: Keys, *_: Tensor | None) -> tuple[Tensor, Tensor]:
        """`row` in place of the weights of every query."""
        weights = spread(row.to(keys.values), keys.mask).expand(1, query.size(1), -1)
        return weights @ keys.values, weights

    def weigh(self, query: Tensor, keys: Tensor, mask: Tensor | None, coverage: Tensor | None = None) -> Tensor:
        """Weights (B, T, S) of projected queries (B, T, A) over prepared keys (B, S, A); no mask: all are real."""
        return masked_softmax(self.scores(query, keys, coverage), None if mask is None else mask[:, None])

    def scores(self, query: Tensor, keys: Tensor, coverage: Tensor | None = None) -> Tensor:
        """Scores (B, T, S) of projected queries (B, T, A) against prepared keys (B, S, A)."""
        if coverage is None or self.coverage is None:
            return self.score.compare(query, keys)
        B, T, S = coverage.shape
        covered = keys[:, None] + coverage[..., None] * self.coverage  # (B, T, S, A): keys for each query
        return self.score.compare(query.reshape(B * T, 1, -1), covered.flatten(0, 1)).view(B, T, S)


def spread(row: Tensor, real: Tensor | None) -> Tensor:
    """Weights of the real places of one sentence as weights of all places (S,); `real` is (1, S), or None if all are.

    >>> spread(torch.tensor([0.25, 0.75]), torch.tensor([[True, False, True]])).tolist()
    [0.25, 0.0, 0.75]
    """
    if real is None:
        return row
    weights = row.new_zeros(real.size(1))
    weights[real[0]] = row
    return weights


def masked_softmax(scores: Tensor, real: Tensor | None) -> Tensor:
    """Softmax over the real places of the last axis, zero on the others; all zeros if none is real.

    >>> masked_softmax(torch.zeros(2, 2), torch.tensor([[True, False], [False, False]])).tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """
    if real is None:
        return torch.softmax(scores, dim=-1)
    # The smallest finite number, not -inf: a row without a real place becomes zeros, not NaN.
    return torch.softmax(scores.masked_fill(~real, torch.finfo(scores.dtype).min), dim=-1) * real
