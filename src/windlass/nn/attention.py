"""Attention: a distribution over the places of a memory, and the average of its values under it.

    e_j = score(q, k_j)     a = softmax(e) over real places     context = sum_j a_j v_j

A kind of attention is its score and nothing else; masking, softmax, the weighted sum and coverage are written once.
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
from windlass.core.options import Options, named
from windlass.core.records import Memory, Record
from windlass.nn.fast.activation import tanh_
from windlass.nn.fast.attention import CosineTape, FusedScore, ProductTape, ReluTape, TanhTape
from windlass.nn.fast.interface import FastScore
from windlass.nn.fast.onednn import linear
from windlass.nn.product import Product


class Score(FastScore, nn.Module, ABC):
    """How well a query fits a key. `prepare` does once for a batch what does not depend on the query."""

    size: int
    """The length of a prepared key: A."""

    @abstractmethod
    def prepare(self, keys: Tensor) -> Tensor:
        """(B, S, K) -> (B, S, A)."""

    def query_projection(self) -> Product | None:
        """What `compare` expects queries to have been multiplied by; None: nothing."""
        return None

    @abstractmethod
    def compare(self, query: Tensor, keys: Tensor) -> Tensor:
        """Projected queries (B, T, A) against prepared keys (B, S, A) -> (B, T, S)."""

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """Queries (B, T, Q) against prepared keys (B, S, A) -> (B, T, S)."""
        return self.compare(project_query(self.query_projection(), query), keys)


def project_query(product: Product | None, query: Tensor) -> Tensor:
    """Queries (B, T, Q) times the projection of a score, if it has one: (B, T, A).

    >>> project_query(Product(torch.ones(3, 2)), torch.ones(1, 1, 2)).tolist()
    [[[2.0, 2.0, 2.0]]]
    """
    return query if product is None else product(query.flatten(0, 1)).unflatten(0, query.shape[:2])


class _AttentionOptions(Options):
    keys: int | None = Field(None, ge=1, description="project the keys to this size; not given: as they are")
    values: int | None = Field(None, ge=1, description="project the values to this size; not given: as they are")
    coverage: bool = Field(False, description="let a score see how much its place was attended to before")


@final
class Additive(Score):
    """A one-layer network over the sum of both (Bahdanau et al. 2015).

    e = v . tanh(U q + W k)

    >>> score = Additive.Options(size=5).build(query_size=3, key_size=4)
    >>> score(torch.randn(2, 1, 3), score.prepare(torch.randn(2, 6, 4))).shape
    torch.Size([2, 1, 6])
    """

    class Options(_AttentionOptions):
        """Additive attention."""

        kind: Literal["additive"] = "additive"
        size: int = Field(256, ge=1, description="units of the layer")

        def build(self, query_size: int, key_size: int) -> Additive:
            """Make the score."""
            return Additive(query_size, key_size, self)

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
        joined = query[:, :, None] + keys[:, None]
        return (torch.tanh(joined) if torch.is_grad_enabled() else tanh_(joined)) @ self.v

    def fused(self, keys: Tensor, coverage: Tensor | None) -> FusedScore | None:
        """v . tanh(U q + W k)."""
        return FusedScore(TanhTape, keys, self.query.weight, self.v, coverage)


def _same_size(kind: str, query_size: int, key_size: int) -> None:
    if query_size != key_size:
        raise RecipeError(
            f"{kind} attention needs a query and keys of one size, not {query_size} and {key_size}: "
            f"set attention keys: {query_size}, or use kind: bilinear or additive"
        )


class _Product(Score):
    """A score that is a plain product with a prepared key."""

    def __init__(self, query_size: int, key_size: int, kind: str):
        super().__init__()
        _same_size(kind, query_size, key_size)
        self.size = key_size

    def prepare(self, keys: Tensor) -> Tensor:
        """k."""
        return keys

    def compare(self, query: Tensor, keys: Tensor) -> Tensor:
        """q . k."""
        return query @ keys.transpose(1, 2)

    def fused(self, keys: Tensor, coverage: Tensor | None) -> FusedScore | None:
        """q . k."""
        return FusedScore(ProductTape, keys, coverage=coverage)


@final
class Dot(_Product):
    """The product of query and key (Luong et al. 2015).

    e = q . k

    >>> score = Dot.Options().build(2, 2)
    >>> score(torch.tensor([[[1.0, 2.0]]]), torch.tensor([[[3.0, 4.0]]])).tolist()
    [[[11.0]]]
    """

    class Options(_AttentionOptions):
        """Dot-product attention."""

        kind: Literal["dot"] = "dot"

        def build(self, query_size: int, key_size: int) -> Dot:
            """Make the score."""
            return Dot(query_size, key_size, "dot")


@final
class ScaledDot(_Product):
    """The product of query and key, divided by the root of their length (Vaswani et al. 2017).

    e = q . k / sqrt(p)

    >>> score = ScaledDot.Options().build(4, 4)
    >>> score(torch.ones(1, 1, 4), torch.ones(1, 1, 4)).item()
    2.0
    """

    class Options(_AttentionOptions):
        """Scaled dot-product attention."""

        kind: Literal["scaled_dot"] = "scaled_dot"

        def build(self, query_size: int, key_size: int) -> ScaledDot:
            """Make the score."""
            return ScaledDot(query_size, key_size, "scaled_dot")

    def compare(self, query: Tensor, keys: Tensor) -> Tensor:
        """q . k / sqrt(p)."""
        return super().compare(query, keys) / math.sqrt(self.size)

    def fused(self, keys: Tensor, coverage: Tensor | None) -> FusedScore | None:
        """q . (k / sqrt(p))."""
        root = math.sqrt(self.size)
        return FusedScore(ProductTape, keys / root, coverage=None if coverage is None else coverage / root)


@final
class Bilinear(Score):
    """A product with a learned matrix between ("general" of Luong et al. 2015); sizes may differ.

    e = q . W k

    >>> score = Bilinear.Options().build(2, 1)
    >>> _ = score.key.weight.data.copy_(torch.tensor([[2.0], [3.0]]))
    >>> score(torch.tensor([[[1.0, 1.0]]]), score.prepare(torch.tensor([[[10.0]]]))).item()
    50.0
    """

    class Options(_AttentionOptions):
        """Bilinear attention."""

        kind: Literal["bilinear"] = "bilinear"

        def build(self, query_size: int, key_size: int) -> Bilinear:
            """Make the score."""
            return Bilinear(query_size, key_size)

    def __init__(self, query_size: int, key_size: int):
        super().__init__()
        self.size = query_size
        self.key = nn.Linear(key_size, query_size, bias=False)

    def prepare(self, keys: Tensor) -> Tensor:
        """W k."""
        return linear(keys, self.key.weight)

    def compare(self, query: Tensor, keys: Tensor) -> Tensor:
        """q . W k."""
        return query @ keys.transpose(1, 2)

    def fused(self, keys: Tensor, coverage: Tensor | None) -> FusedScore | None:
        """q . W k."""
        return FusedScore(ProductTape, keys, coverage=coverage)


@final
class Cosine(Score):
    """The cosine of the angle between query and key, sharpened by a factor.

    e = scale * (q . k) / (|q| |k|)

    A cosine lies in -1..1, so that with scale 1 no place can get more than e^2 times the weight of another.

    >>> score = Cosine.Options(scale=1).build(2, 2)
    >>> round(score(torch.tensor([[[3.0, 4.0]]]), torch.tensor([[[4.0, 3.0]]])).item(), 2)
    0.96
    """

    class Options(_AttentionOptions):
        """Cosine attention."""

        kind: Literal["cosine"] = "cosine"
        scale: float = Field(10.0, gt=0, description="factor on the cosine; 1 is the bare cosine")

        def build(self, query_size: int, key_size: int) -> Cosine:
            """Make the score."""
            return Cosine(query_size, key_size, self)

    def __init__(self, query_size: int, key_size: int, options: Options):
        super().__init__()
        _same_size("cosine", query_size, key_size)
        self.size = key_size
        self.scale = options.scale

    def prepare(self, keys: Tensor) -> Tensor:
        """k: coverage may still move it, so that it is normalised at the score."""
        return keys

    def compare(self, query: Tensor, keys: Tensor) -> Tensor:
        """scale * cos(q, k)."""
        return self.scale * F.normalize(query, dim=-1) @ F.normalize(keys, dim=-1).transpose(1, 2)

    def fused(self, keys: Tensor, coverage: Tensor | None) -> FusedScore | None:
        """(q / |q|) . (scale k / |k|); not with coverage, which gives a key another length at every step."""
        return None if coverage is not None else FusedScore(CosineTape, self.scale * F.normalize(keys, dim=-1))


@final
class Perceptron(Score):
    """A small network whose input is query and key side by side, and whose output is one number.

    e = v . relu(W [q; k] + b)

    >>> score = Perceptron.Options(size=5).build(3, 4)
    >>> score(torch.randn(2, 7, 3), score.prepare(torch.randn(2, 6, 4))).shape
    torch.Size([2, 7, 6])
    """

    class Options(_AttentionOptions):
        """Attention by a small network on [query; key]."""

        kind: Literal["mlp"] = "mlp"
        size: int = Field(256, ge=1, description="units of the hidden layer")

        def build(self, query_size: int, key_size: int) -> Perceptron:
            """Make the score."""
            return Perceptron(query_size, key_size, self)

    def __init__(self, query_size: int, key_size: int, options: Options):
        super().__init__()
        self.size = options.size
        self.query_size = query_size
        self.hidden = nn.Linear(query_size + key_size, options.size)
        self.out = nn.Linear(options.size, 1, bias=False)  # a bias would move all scores alike: nothing

    def prepare(self, keys: Tensor) -> Tensor:
        """The key's columns of W [q; k], and b."""
        return F.linear(keys, self.hidden.weight[:, self.query_size :], self.hidden.bias)

    def query_projection(self) -> Product | None:
        """The query's columns of W [q; k]."""
        return Product(self.hidden.weight[:, : self.query_size])

    def compare(self, query: Tensor, keys: Tensor) -> Tensor:
        """v . relu(W [q; k] + b)."""
        scores: Tensor = self.out(torch.relu(query[:, :, None] + keys[:, None]))
        return scores.squeeze(-1)

    def fused(self, keys: Tensor, coverage: Tensor | None) -> FusedScore | None:
        """v . relu(W [q; k] + b)."""
        return FusedScore(ReluTape, keys, self.hidden.weight[:, : self.query_size], self.out.weight[0], coverage)


AttentionOptions = Annotated[
    Additive.Options | Dot.Options | ScaledDot.Options | Bilinear.Options | Cosine.Options | Perceptron.Options,
    Field(discriminator="kind"),
    named,
]
"""Every attention a recipe can name."""


@dataclass(frozen=True)
class Keys(Record):
    """A memory made ready to be attended to.

    >>> Keys(torch.zeros(2, 5, 3), torch.zeros(2, 5, 4), torch.ones(2, 5, dtype=torch.bool)).values.shape
    torch.Size([2, 5, 4])
    """

    keys: Any  # (B, S, A); of an attention at two levels, those of both
    values: Tensor  # (B, S, D)
    mask: Tensor  # (B, S)
    query_projection: Product | None = None


class Attention(nn.Module):
    """Attends to a memory with a score of any kind.

    With coverage, the key of a place is moved by what the place has received so far, k_j + w * sum of earlier a_j,
    which for the additive score is the form of See et al. (2017).

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
    def covering(self) -> bool:
        """Whether the score sees how much was attended to before."""
        return self.coverage is not None

    def query_projection(self) -> Product | None:
        """The projection of queries, if the score has one."""
        return self.score.query_projection()

    def prepare(self, memory: Memory) -> Keys:
        """Project keys and values, once for a batch."""
        keys = self.score.prepare(self.project_keys(memory.states))
        return Keys(keys, self.project_values(memory.states), memory.mask, self.score.query_projection())

    def forward(self, query: Tensor, keys: Keys, coverage: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Queries (B, T, Q) -> contexts (B, T, D) and weights (B, T, S); coverage is (B, T, S)."""
        weights = self.weigh(project_query(keys.query_projection, query), keys.keys, keys.mask, coverage)
        return weights @ keys.values, weights

    def weigh(self, query: Tensor, keys: Tensor, mask: Tensor | None, coverage: Tensor | None = None) -> Tensor:
        """Weights (B, T, S) of projected queries (B, T, A) over prepared keys (B, S, A); no mask: all are real."""
        return masked_softmax(self.scores(query, keys, coverage), None if mask is None else mask[:, None])

    def scores(self, query: Tensor, keys: Tensor, coverage: Tensor | None = None) -> Tensor:
        """How well projected queries (B, T, A) fit prepared keys (B, S, A): (B, T, S)."""
        if coverage is None or self.coverage is None:
            return self.score.compare(query, keys)
        B, T, S = coverage.shape  # every query has keys of its own
        moved = keys[:, None] + coverage[..., None] * self.coverage
        return self.score.compare(query.reshape(B * T, 1, -1), moved.flatten(0, 1)).view(B, T, S)


def masked_softmax(scores: Tensor, real: Tensor | None) -> Tensor:
    """Softmax over the real places of the last axis, zero on the others; where none is real, zeros.

    >>> masked_softmax(torch.zeros(2, 2), torch.tensor([[True, False], [False, False]])).tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """
    if real is None:
        return torch.softmax(scores, dim=-1)
    # The least finite number rather than -inf: a row with no real place gives zeros, not NaN.
    return torch.softmax(scores.masked_fill(~real, torch.finfo(scores.dtype).min), dim=-1) * real
