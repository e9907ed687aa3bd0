"""Constrained search: which tokens may come next, and the constraint that keeps trees well-formed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from windlass.core.marks import EOS, MARKS
from windlass.core.records import Record
from windlass.data.trees import PLACE


class Constraint(Protocol):
    """Says which tokens may come next, for all rows of a search at once.

    Its state is a record with a row for each hypothesis, which a search reorders like a decoder's state. In every
    reachable state at least one token is allowed, and the end mark can be reached within the limit.
    """

    shortest: Tensor
    """The length of the shortest output of each sentence, with the end mark: (B,)."""

    def begin(self, limits: Tensor) -> Any:
        """The state before the first token; an output has at most `limits` (B,) tokens."""

    def allowed(self, state: Any) -> Tensor:
        """Which tokens may come next: (N, V)."""

    def step(self, state: Any, tokens: Tensor) -> Any:
        """The state after tokens (N,)."""


_OTHER, _OPEN, _CLOSE, _WORD, _TAG, _END = range(6)


@dataclass(frozen=True)
class _TreeState(Record):
    depth: Tensor  # (N,) open constituents
    words: Tensor  # (N,) words that are still to come
    left: Tensor  # (N,) tokens that are still allowed, with the end mark
    empty: Tensor  # (N,) whether the last token opened a constituent
    begun: Tensor  # (N,) whether the tree has begun
    labels: Tensor  # (N, D) of the open constituents, from the root down


class WellFormed:
    """Balanced brackets, no empty constituent, a leaf for every word of the sentence, and one root.

    A constituent is opened only if enough tokens are left to close it, so that no output is cut off. A labelled closing
    token must match the innermost open constituent.

    >>> tree = WellFormed(["(S", ")", "(NN _)"], words=[2])
    >>> state = tree.begin(torch.tensor([9]))
    >>> tree.allowed(state).nonzero()[:, 1].tolist()  # nothing but (S
    [4]
    >>> state = tree.step(state, torch.tensor([4]))
    >>> tree.allowed(state).nonzero()[:, 1].tolist()  # (S or a word: an empty constituent cannot be closed
    [4, 6]
    """

    def __init__(self, symbols: Sequence[str], words: Sequence[int], device: torch.device | str = "cpu"):
        kinds, labels = [_OTHER] * len(MARKS), [-1] * len(MARKS)
        known: dict[str, int] = {}
        kinds[EOS] = _END
        for symbol in symbols:
            kind = _kind(symbol)
            name = symbol[1:]
            labelled = kind == _OPEN or (kind == _CLOSE and name)
            kinds.append(kind)
            labels.append(known.setdefault(name, len(known)) if labelled else -1)
        self.kinds = torch.tensor(kinds, device=device)  # (V,)
        self.labels = torch.tensor(labels, device=device)  # (V,)
        self.words = torch.tensor(list(words), device=device)  # (B,)
        self.shortest = self.words + 3
        self.labelled = bool(((self.kinds == _CLOSE) & (self.labels >= 0)).any())

    def begin(self, limits: Tensor) -> _TreeState:
        """The state before the first bracket."""
        nothing = torch.zeros_like(self.words)
        no = nothing > 0
        deep = int(limits.max()) if self.labelled and limits.numel() else 0
        return _TreeState(nothing, self.words, limits, no, no, nothing.new_zeros(len(self.words), deep))

    def allowed(self, state: _TreeState) -> Tensor:
        """By the kind of the token and, for a labelled closing token, by its label."""
        inside, pending = state.depth > 0, state.words > 0
        room = state.left >= state.words + state.depth + 3  # for its two brackets, the open ones, and the end mark
        of_kind = torch.stack(
            [
                torch.zeros_like(inside),
                pending & room & (inside | ~state.begun),
                inside & ~state.empty & ((state.depth > 1) | ~pending),
                inside & pending,
                (inside & pending) | (~state.begun & (state.words == 1)),
                ~inside & state.begun,
            ],
            dim=1,
        )
        allowed = of_kind[:, self.kinds]
        if self.labelled:
            open_ = state.labels.gather(1, (state.depth - 1).clamp(min=0)[:, None])
            allowed = allowed & ((self.kinds != _CLOSE) | (self.labels == open_))
        return allowed

    def step(self, state: _TreeState, tokens: Tensor) -> _TreeState:
        """Update the counts; those of finished hypotheses are clamped, as their tokens are arbitrary."""
        kind = self.kinds[tokens]
        opens, leaves = kind == _OPEN, (kind == _WORD) | (kind == _TAG)
        labels = state.labels
        if self.labelled:
            at = state.depth[:, None].clamp(max=labels.size(1) - 1)
            labels = labels.scatter(1, at, torch.where(opens, self.labels[tokens], labels.gather(1, at)[:, 0])[:, None])
        return _TreeState(
            (state.depth + opens.long() - (kind == _CLOSE).long()).clamp(min=0),
            (state.words - leaves.long()).clamp(min=0),
            state.left - 1,
            opens,
            state.begun | opens | leaves,
            labels,
        )


def _kind(symbol: str) -> int:
    if symbol == PLACE:
        return _WORD
    if symbol.startswith("("):
        return _TAG if symbol.endswith(")") else _OPEN
    return _CLOSE if symbol.startswith(")") else _OTHER
