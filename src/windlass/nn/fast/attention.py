"""Attention scores with gradients derived by hand, for the fused decoder: one query a row at every step.

A query meets all keys at once, so what autograd would store, (T, B, S, A), is the largest tensor in a decoder. Here
nothing of that size outlives a step: the backward pass recomputes it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

BLOCK = 2**19
"""Sums of a query and a key that are computed at once on a CPU: 2 MB, which stay in the cache from pass to pass."""


def block_rows(keys: Tensor) -> int:
    """How many rows of keys (B, S, A) are scored at once.

    >>> block_rows(torch.empty(64, 15, 512)), block_rows(torch.empty(64, 400, 512))
    (64, 2)
    """
    rows, each = keys.size(0), keys.size(1) * keys.size(2)
    return max(1, rows if keys.device.type != "cpu" else min(rows, BLOCK // max(1, each)))


class _ScoreTape(ABC):
    """A score's steps forward and backward. Queries (B, A) have been through their projection."""

    d_v: Tensor | None = None  # (A,) gradient of the score's own vector
    d_coverage: Tensor | None = None  # (A,)

    def __init__(self, keys: Tensor, v: Tensor | None, coverage: Tensor | None, steps: int):
        self.keys, self.v, self.coverage = keys, v, coverage
        self.queries = keys.new_empty(steps, keys.size(0), keys.size(2))
        self.query_of = self.queries.unbind(0)

    def start_backward(self) -> None:
        self.d_coverage = None if self.coverage is None else torch.zeros_like(self.coverage)

    @abstractmethod
    def score(self, t: int, query: Tensor, covered: Tensor | None) -> Tensor:
        """Scores (B, S) of the queries of step t; covered (B, S) is the attention that each place has received."""

    @abstractmethod
    def score_backward(self, t: int, d: Tensor, covered: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Gradients of query and covered from those of the scores (B, S)."""

    @abstractmethod
    def d_keys(self) -> Tensor:
        """The gradient of the keys, after the last step of the backward pass."""


class _SummedTape(_ScoreTape):
    """v . act(q + k), with act(x) = height * activate(turn * x) and act'(x) = rise * slope."""

    turn = 1.0
    rise = 1.0
    height = 1.0

    def __init__(self, keys: Tensor, v: Tensor | None, coverage: Tensor | None, steps: int):
        super().__init__(keys, v, coverage, steps)
        assert v is not None
        self.high = v * self.height
        self.rows = block_rows(keys)
        self.keys_of = keys.split(self.rows)
        self.wide = torch.empty_like(self.keys_of[0])  # (rows, S, A)

    def start_backward(self) -> None:
        super().start_backward()
        self.d_v, self.d_sums = torch.zeros_like(self.high), torch.zeros_like(self.keys)
        self.d_sums_of = self.d_sums.split(self.rows)
        self.steep = self.high * (self.rise / self.height)
        self.inner = torch.empty_like(self.wide)

    @abstractmethod
    def activate(self, x: Tensor) -> Tensor:
        """The activation, in place."""

    @abstractmethod
    def slope(self, y: Tensor, out: Tensor) -> Tensor:
        """The derivative of `activate` in terms of its output y."""

    def _wide(self, query: Tensor, keys: Tensor, covered: Tensor | None) -> Tensor:
        """activate(turn * (q + k)) for a block of rows."""
        wide = self.wide[: len(keys)]
        torch.add(query.unsqueeze(1), keys, alpha=self.turn, out=wide)
        if covered is not None and self.coverage is not None:
            wide.addcmul_(covered[..., None], self.coverage, value=self.turn)
        return self.activate(wide)

    def _covered(self, covered: Tensor | None) -> Sequence[Tensor | None]:
        return [None] * len(self.keys_of) if covered is None else covered.split(self.rows)

    def score(self, t: int, query: Tensor, covered: Tensor | None) -> Tensor:
        query = torch.mul(query, self.turn, out=self.query_of[t])
        blocks = zip(query.split(self.rows), self.keys_of, self._covered(covered), strict=True)
        scores = [self._wide(*block) @ self.high for block in blocks]
        return scores[0] if len(scores) == 1 else torch.cat(scores)

    def score_backward(self, t: int, d: Tensor, covered: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """d v act'(q + k): summed over places for the query, over steps for the keys, where v multiplies at the end."""
        blocks = zip(self.query_of[t].split(self.rows), self.keys_of, self._covered(covered), strict=True)
        parts = [
            self._block_backward(block, *rest)
            for block, *rest in zip(blocks, d.split(self.rows), self.d_sums_of, strict=True)
        ]
        if len(parts) == 1:
            return parts[0]
        d_query, d_covered = zip(*parts, strict=True)
        return torch.cat(d_query), None if d_covered[0] is None else torch.cat(d_covered)

    def _block_backward(
        self, block: tuple[Tensor, Tensor, Tensor | None], d: Tensor, d_sums: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        assert self.d_v is not None
        wide, covered = self._wide(*block), block[2]
        self.d_v.addmv_(wide.flatten(0, 1).t(), d.flatten(), alpha=self.height)
        slope = self.slope(wide, out=self.inner[: len(wide)])
        d_sums.addcmul_(d.unsqueeze(2), slope)
        d_query = torch.bmm(d.unsqueeze(1), slope).squeeze(1).mul_(self.steep)
        if covered is None or self.coverage is None or self.d_coverage is None:
            return d_query, None
        moved = slope.flatten(0, 1).t() @ (d * covered).flatten()
        self.d_coverage.addcmul_(moved, self.steep)
        return d_query, d * (slope @ (self.steep * self.coverage))

    def d_keys(self) -> Tensor:
        return self.d_sums.mul_(self.steep)


@final
class TanhTape(_SummedTape):
    """v . tanh(q + k), with tanh(x) = 2 sigmoid(2x) - 1, as torch's sigmoid is faster than its tanh.

    The -1 is left out: it shifts all scores of a row alike, which changes no softmax.

    >>> tape = TanhTape(torch.zeros(1, 2, 3), torch.ones(3), None, steps=1)
    >>> tape.score(0, torch.zeros(1, 3), None).tolist()
    [[3.0, 3.0]]
    """

    turn, rise, height = 2.0, 4.0, 2.0  # tanh' = 4 sigmoid (1 - sigmoid)

    def activate(self, x: Tensor) -> Tensor:
        """sigmoid(x)."""
        return x.sigmoid_()

    def slope(self, y: Tensor, out: Tensor) -> Tensor:
        """y (1 - y)."""
        return torch.addcmul(y, y, y, value=-1, out=out)


@final
class ReluTape(_SummedTape):
    """v . relu(q + k).

    >>> tape = ReluTape(torch.tensor([[[1.0, -1.0]]]), torch.ones(2), None, steps=1)
    >>> tape.score(0, torch.zeros(1, 2), None).tolist()
    [[1.0]]
    """

    def activate(self, x: Tensor) -> Tensor:
        """max(0, x)."""
        return x.relu_()

    def slope(self, y: Tensor, out: Tensor) -> Tensor:
        """1 where y is above 0."""
        return torch.gt(y, 0, out=out)


class ProductTape(_ScoreTape):
    """q . k.

    >>> tape = ProductTape(torch.tensor([[[3.0, 4.0]]]), None, None, steps=1)
    >>> tape.score(0, torch.tensor([[1.0, 2.0]]), None).tolist()
    [[11.0]]
    """

    def __init__(self, keys: Tensor, v: Tensor | None, coverage: Tensor | None, steps: int):
        super().__init__(keys, v, coverage, steps)
        self.d = keys.new_empty(steps, *keys.shape[:2])  # (T, B, S) gradients of the scores

    def score(self, t: int, query: Tensor, covered: Tensor | None) -> Tensor:
        """q . (k + w covered)."""
        self.query_of[t].copy_(query)
        scores = torch.bmm(query[:, None], self.keys.transpose(1, 2))[:, 0]
        if covered is not None and self.coverage is not None:
            scores += covered * (query @ self.coverage)[:, None]
        return scores

    def score_backward(self, t: int, d: Tensor, covered: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """The sum of the keys under d; the gradient of the keys waits for the end."""
        self.d[t] = d
        d_query = torch.bmm(d[:, None], self.keys)[:, 0]
        if covered is None or self.coverage is None or self.d_coverage is None:
            return d_query, None
        query, moved = self.queries[t], (d * covered).sum(1)
        self.d_coverage.addmv_(query.t(), moved)
        return d_query.addr_(moved, self.coverage), d * (query @ self.coverage)[:, None]

    def d_keys(self) -> Tensor:
        """One product for all steps."""
        return torch.bmm(self.d.permute(1, 2, 0), self.queries.transpose(0, 1))


@final
class CosineTape(ProductTape):
    """(q / |q|) . k, for keys of length 1 times the score's scale.

    >>> tape = CosineTape(torch.tensor([[[0.6, 0.8]]]), None, None, steps=1)
    >>> round(tape.score(0, torch.tensor([[4.0, 3.0]]), None).item(), 2)
    0.96
    """

    def __init__(self, keys: Tensor, v: Tensor | None, coverage: Tensor | None, steps: int):
        super().__init__(keys, v, coverage, steps)
        self.lengths = keys.new_empty(steps, keys.size(0), 1)

    def score(self, t: int, query: Tensor, covered: Tensor | None) -> Tensor:
        """(q / |q|) . k."""
        torch.clamp(query.norm(dim=1, keepdim=True), min=1e-12, out=self.lengths[t])
        return super().score(t, query / self.lengths[t], covered)

    def score_backward(self, t: int, d: Tensor, covered: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """The part of the gradient at right angles to the query: its length changes nothing."""
        whole, d_covered = super().score_backward(t, d, covered)
        along = (whole * self.queries[t]).sum(1, keepdim=True)
        return torch.addcmul(whole, self.queries[t], along, value=-1) / self.lengths[t], d_covered


@final
@dataclass(frozen=True)
class FusedScore:
    """A score against prepared keys, as the fused decoder runs it.

    >>> FusedScore(ProductTape, torch.zeros(2, 5, 3)).query is None
    True
    """

    tape: type[_ScoreTape]
    keys: Tensor  # (B, S, A)
    query: Tensor | None = None  # (A, Q) the projection of queries
    v: Tensor | None = None  # (A,)
    coverage: Tensor | None = None  # (A,) added to a key, times the attention that its place has received
