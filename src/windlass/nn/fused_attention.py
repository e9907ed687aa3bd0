"""Scores of attention, forward and back by hand, for the fused decoder: one query a row at every step.

A query meets all keys at once, so that what autograd would keep of it, (T, B, S, A), is the largest thing in a decoder.
Here nothing of that size outlives a step: the way back works it out again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

PORTION = 2**19
"""How many sums of a query and a key there are at once on a CPU: 2 MB, which stay in a cache from pass to pass."""


def portion(keys: Tensor) -> int:
    """How many rows of keys (B, S, A) a score takes at once.

    >>> portion(torch.empty(64, 15, 512)), portion(torch.empty(64, 400, 512))
    (64, 2)
    """
    rows, each = keys.size(0), keys.size(1) * keys.size(2)
    return max(1, rows if keys.device.type != "cpu" else min(rows, PORTION // max(1, each)))


class ScoreTape:
    """What a score must remember of every step to walk back through it; queries come as they are `asked`, (B, A)."""

    d_v: Tensor | None = None  # (A,) gradient of the score's own vector
    d_coverage: Tensor | None = None  # (A,)

    def __init__(self, keys: Tensor, v: Tensor | None, coverage: Tensor | None, steps: int):
        self.keys, self.v, self.coverage = keys, v, coverage
        self.asked = keys.new_empty(steps, keys.size(0), keys.size(2))  # as `score` meets them
        self.asked_of = self.asked.unbind(0)

    def open(self) -> None:
        """Make room for the gradients."""
        self.d_coverage = None if self.coverage is None else torch.zeros_like(self.coverage)

    def score(self, t: int, asked: Tensor, covered: Tensor | None) -> Tensor:
        """How well the queries of step t fit: (B, S); covered (B, S) is what places received before."""
        raise NotImplementedError

    def back(self, t: int, d: Tensor, covered: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Gradients of asked and covered, given those of the scores (B, S)."""
        raise NotImplementedError

    def d_keys(self) -> Tensor:
        """The gradient of the keys, after the last step back."""
        raise NotImplementedError


class SummedTape(ScoreTape):
    """v . act(q + k): a query and every key are added before they are squashed."""

    turn = 1.0  # what q and k are multiplied by before the activation
    rise = 1.0  # what comes out of its derivative must be multiplied by
    height = 1.0  # what comes out of the activation is multiplied by

    def __init__(self, keys: Tensor, v: Tensor | None, coverage: Tensor | None, steps: int):
        super().__init__(keys, v, coverage, steps)
        assert v is not None
        self.high = v * self.height
        self.rows = portion(keys)
        self.keys_of = keys.split(self.rows)
        self.wide = torch.empty_like(self.keys_of[0])  # (rows, S, A)

    def open(self) -> None:
        """Make room for the gradients."""
        super().open()
        self.d_v, self.found = torch.zeros_like(self.high), torch.zeros_like(self.keys)
        self.found_of = self.found.split(self.rows)
        self.steep = self.high * (self.rise / self.height)
        self.inner = torch.empty_like(self.wide)

    def activate(self, x: Tensor) -> Tensor:
        """The activation, in place."""
        raise NotImplementedError

    def slope(self, y: Tensor, out: Tensor) -> Tensor:
        """The activation's derivative, given what came out of it."""
        raise NotImplementedError

    def _wide(self, asked: Tensor, keys: Tensor, covered: Tensor | None) -> Tensor:
        """act(q + k), of some rows."""
        wide = self.wide[: len(keys)]
        torch.add(asked.unsqueeze(1), keys, alpha=self.turn, out=wide)
        if covered is not None and self.coverage is not None:
            wide.addcmul_(covered[..., None], self.coverage, value=self.turn)
        return self.activate(wide)

    def _covered(self, covered: Tensor | None) -> Sequence[Tensor | None]:
        return [None] * len(self.keys_of) if covered is None else covered.split(self.rows)

    def score(self, t: int, asked: Tensor, covered: Tensor | None) -> Tensor:
        """v . act(q + k)."""
        asked = torch.mul(asked, self.turn, out=self.asked_of[t])
        each = zip(asked.split(self.rows), self.keys_of, self._covered(covered), strict=True)
        found = [self._wide(*some) @ self.high for some in each]
        return found[0] if len(found) == 1 else torch.cat(found)

    def back(self, t: int, d: Tensor, covered: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """d v act'(q + k), summed over places for the query, over steps for the keys, which v meets at the end."""
        each = zip(self.asked_of[t].split(self.rows), self.keys_of, self._covered(covered), strict=True)
        parts = [self._back(some, *more) for some, *more in zip(each, d.split(self.rows), self.found_of, strict=True)]
        if len(parts) == 1:
            return parts[0]
        d_asked, d_covered = zip(*parts, strict=True)
        return torch.cat(d_asked), None if d_covered[0] is None else torch.cat(d_covered)

    def _back(
        self, some: tuple[Tensor, Tensor, Tensor | None], d: Tensor, found: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        assert self.d_v is not None
        wide, covered = self._wide(*some), some[2]
        self.d_v.addmv_(wide.flatten(0, 1).t(), d.flatten(), alpha=self.height)
        slope = self.slope(wide, out=self.inner[: len(wide)])
        found.addcmul_(d.unsqueeze(2), slope)
        d_asked = torch.bmm(d.unsqueeze(1), slope).squeeze(1).mul_(self.steep)
        if covered is None or self.coverage is None or self.d_coverage is None:
            return d_asked, None
        met = slope.flatten(0, 1).t() @ (d * covered).flatten()
        self.d_coverage.addcmul_(met, self.steep)
        return d_asked, d * (slope @ (self.steep * self.coverage))

    def d_keys(self) -> Tensor:
        """The sum over all steps."""
        return self.found.mul_(self.steep)


class TanhTape(SummedTape):
    """v . tanh(q + k), with tanh(x) = 2 sigmoid(2x) - 1: torch's sigmoid takes a sixth of the time of its tanh.

    The -1 moves all scores of a row alike, which a softmax does not see, and is left away.

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


class ReluTape(SummedTape):
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


class ProductTape(ScoreTape):
    """q . k.

    >>> tape = ProductTape(torch.tensor([[[3.0, 4.0]]]), None, None, steps=1)
    >>> tape.score(0, torch.tensor([[1.0, 2.0]]), None).tolist()
    [[11.0]]
    """

    def __init__(self, keys: Tensor, v: Tensor | None, coverage: Tensor | None, steps: int):
        super().__init__(keys, v, coverage, steps)
        self.d = keys.new_empty(steps, *keys.shape[:2])  # (T, B, S) gradients of the scores

    def score(self, t: int, asked: Tensor, covered: Tensor | None) -> Tensor:
        """q . k, and q . w for all that was received before."""
        self.asked_of[t].copy_(asked)
        scores = torch.bmm(asked[:, None], self.keys.transpose(1, 2))[:, 0]
        if covered is not None and self.coverage is not None:
            scores += covered * (asked @ self.coverage)[:, None]
        return scores

    def back(self, t: int, d: Tensor, covered: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """The keys, weighted; theirs waits for the end."""
        self.d[t] = d
        d_asked = torch.bmm(d[:, None], self.keys)[:, 0]
        if covered is None or self.coverage is None or self.d_coverage is None:
            return d_asked, None
        asked, moved = self.asked[t], (d * covered).sum(1)
        self.d_coverage.addmv_(asked.t(), moved)
        return d_asked.addr_(moved, self.coverage), d * (asked @ self.coverage)[:, None]

    def d_keys(self) -> Tensor:
        """One product for all steps."""
        return torch.bmm(self.d.permute(1, 2, 0), self.asked.transpose(0, 1))


class CosineTape(ProductTape):
    """(q / |q|) . k, for keys that were made ready: of length 1, times the score's factor.

    >>> tape = CosineTape(torch.tensor([[[0.6, 0.8]]]), None, None, steps=1)
    >>> round(tape.score(0, torch.tensor([[4.0, 3.0]]), None).item(), 2)
    0.96
    """

    def __init__(self, keys: Tensor, v: Tensor | None, coverage: Tensor | None, steps: int):
        super().__init__(keys, v, coverage, steps)
        self.lengths = keys.new_empty(steps, keys.size(0), 1)

    def score(self, t: int, asked: Tensor, covered: Tensor | None) -> Tensor:
        """(q / |q|) . k."""
        torch.clamp(asked.norm(dim=1, keepdim=True), min=1e-12, out=self.lengths[t])
        return super().score(t, asked / self.lengths[t], covered)

    def back(self, t: int, d: Tensor, covered: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """What is left across the query: along it, nothing changes."""
        across, d_covered = super().back(t, d, covered)
        along = (across * self.asked[t]).sum(1, keepdim=True)
        return torch.addcmul(across, self.asked[t], along, value=-1) / self.lengths[t], d_covered


@dataclass(frozen=True)
class Scoring:
    """A score made ready for the fused decoder.

    >>> Scoring(ProductTape, torch.zeros(2, 5, 3)).query is None
    True
    """

    tape: type[TanhTape] | type[ReluTape] | type[ProductTape] | type[CosineTape]
    keys: Tensor  # (B, S, A)
    query: Tensor | None = None  # (A, Q) what a query is multiplied by first
    v: Tensor | None = None  # (A,)
    coverage: Tensor | None = None  # (A,) what moves a key for all that its place received before
