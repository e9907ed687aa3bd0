"""What a search may write next: a constraint, and the one that keeps trees well-formed."""

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

    Its state is a record with a row a hypothesis, so that a search reorders it as it does a decoder's. Wherever a row
    can get to, at least one token must be allowed, and the end must be reached within the limit.
    """

    shortest: Tensor
    """The fewest tokens that an output of each sentence can have, the end mark among them: (B,)."""

    def begin(self, limits: Tensor) -> Any:
        """The state before the first token; an output has at most `limits` (B,) tokens."""

    def allowed(self, state: Any) -> Tensor:
        """Which tokens may come next: (N, V)."""

    def step(self, state: Any, tokens: Tensor) -> Any:
        """The state after tokens (N,)."""


_OTHER, _OPEN, _CLOSE, _WORD, _TAG, _END = range(6)


@dataclass(frozen=True)
class TreeState(Record):
    """Where each hypothesis stands in its tree.

    >>> TreeState(*(torch.zeros(2, dtype=torch.long),) * 6).select(torch.tensor([1])).depth.shape
    torch.Size([1])
    """

    depth: Tensor  # (N,) constituents that are open
    words: Tensor  # (N,) words that have no place yet
    left: Tensor  # (N,) tokens that may still come, the end mark among them
    empty: Tensor  # (N,) whether the constituent opened last has no part yet
    begun: Tensor  # (N,)
    labels: Tensor  # (N, D) of the constituents that are open, the outermost first


class WellFormed:
    """Brackets are balanced, no constituent is empty, every word of the sentence has its place, and there is one root.

    A constituent may be opened only as long as enough tokens are left to close it, so that no output is cut off. Where
    closing tokens have labels, the constituent that is open is the one that is closed.

    >>> tree = WellFormed(["(S", ")", "(NN _)"], words=[2])
    >>> state = tree.begin(torch.tensor([9]))
    >>> tree.allowed(state).nonzero()[:, 1].tolist()  # nothing but (S
    [4]
    >>> state = tree.step(state, torch.tensor([4]))
    >>> tree.allowed(state).nonzero()[:, 1].tolist()  # (S again, or a word: an empty constituent is not closed
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
        self.named = bool(((self.kinds == _CLOSE) & (self.labels >= 0)).any())

    def begin(self, limits: Tensor) -> TreeState:
        """No bracket yet."""
        nothing = torch.zeros_like(self.words)
        no = nothing > 0
        deep = int(limits.max()) if self.named and limits.numel() else 0
        return TreeState(nothing, self.words, limits, no, no, nothing.new_zeros(len(self.words), deep))

    def allowed(self, state: TreeState) -> Tensor:
        """By the kind of a token; where closing tokens have labels, by the label too."""
        inside, waiting = state.depth > 0, state.words > 0
        room = state.left >= state.words + state.depth + 3  # for its two brackets, all that is open, and the end
        of_kind = torch.stack(
            [
                torch.zeros_like(inside),
                waiting & room & (inside | ~state.begun),
                inside & ~state.empty & ((state.depth > 1) | ~waiting),
                inside & waiting,
                (inside & waiting) | (~state.begun & (state.words == 1)),
                ~inside & state.begun,
            ],
            dim=1,
        )
        found = of_kind[:, self.kinds]
        if self.named:
            open_ = state.labels.gather(1, (state.depth - 1).clamp(min=0)[:, None])
            found = found & ((self.kinds != _CLOSE) | (self.labels == open_))
        return found

    def step(self, state: TreeState, tokens: Tensor) -> TreeState:
        """Count; a hypothesis that no longer lives may do anything, and must only not break the counts."""
        kind = self.kinds[tokens]
        opens, places = kind == _OPEN, (kind == _WORD) | (kind == _TAG)
        labels = state.labels
        if self.named:
            at = state.depth[:, None].clamp(max=labels.size(1) - 1)
            labels = labels.scatter(1, at, torch.where(opens, self.labels[tokens], labels.gather(1, at)[:, 0])[:, None])
        return TreeState(
            (state.depth + opens.long() - (kind == _CLOSE).long()).clamp(min=0),
            (state.words - places.long()).clamp(min=0),
            state.left - 1,
            opens,
            state.begun | opens | places,
            labels,
        )


def _kind(symbol: str) -> int:
    if symbol == PLACE:
        return _WORD
    if symbol.startswith("("):
        return _TAG if symbol.endswith(")") else _OPEN
    return _CLOSE if symbol.startswith(")") else _OTHER
