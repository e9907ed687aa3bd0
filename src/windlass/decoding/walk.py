"""What a search walks with: one model, or several that agree on a token at every step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from windlass.core.records import Batch, Member, Memory, Record
from windlass.nn import fast


class Steps(Protocol):
    """A head as a search sees it. The source holds a row a sentence, the state a row a hypothesis."""

    def begin(self, memory: Memory, batch: Batch | None = None) -> tuple[Any, Any]:
        """Return source and state before the first token."""

    def step(self, tokens: Tensor, state: Any, source: Any) -> tuple[Tensor, Any, Tensor | None]:
        """Return log probabilities (N, V), the new state, and attention (N, S)."""


@runtime_checkable
class Owned(Protocol):
    """Steps whose log probabilities are made anew every time, so that they may be written into."""

    fresh: bool


def prepared(head: Steps, int8: bool = False) -> Steps:
    """The inference form of a head, in 8 bits if set; a head in training, or one that offers none, stays as it is.

    >>> from windlass.heads.options import TextHeadOptions
    >>> from windlass.heads.text import TextHead
    >>> head = TextHead(TextHeadOptions(size=8), vocabulary=10, memory_size=6, final_sizes=())
    >>> prepared(head) is head, prepared(head.eval()) is head
    (True, False)
    """
    return (fast.inference(head, int8) or head) if isinstance(head, fast.OffersInference) else head


@dataclass(frozen=True)
class Walk(Record):
    """Where a search stands in every model it walks with.

    >>> Walk((), ()).states
    ()
    """

    sources: tuple[Any, ...]
    states: tuple[Any, ...]

    def reorder(self, hypotheses: Tensor) -> Walk:
        """Let every hypothesis go on from another one of its own sentence."""
        return Walk(self.sources, tuple(s.select(hypotheses) for s in self.states))

    def keep(self, sentences: Tensor, hypotheses: Tensor) -> Walk:
        """Go on with some of the sentences, and the hypotheses that are theirs."""
        return Walk(tuple(s.select(sentences) for s in self.sources), tuple(s.select(hypotheses) for s in self.states))

    def widen(self, k: int) -> Walk:
        """Give every sentence k hypotheses instead of one."""
        return Walk(self.sources, tuple(s.repeat(k) for s in self.states))


class Walker:
    """One model, or an ensemble: the mean of the models' probabilities.

    >>> from windlass.heads.options import TextHeadOptions
    >>> from windlass.heads.text import TextHead
    >>> head = TextHead(TextHeadOptions(size=8), vocabulary=10, memory_size=6, final_sizes=())
    >>> member = Member(head, Memory(torch.randn(2, 5, 6), torch.ones(2, 5) > 0, torch.randn(2, 6)))
    >>> walker = Walker([member, member])
    >>> logprobs, walk, weights = walker.step(torch.tensor([2, 2]), walker.begin())
    >>> bool(torch.allclose(logprobs.exp().sum(1), torch.ones(2)))
    True
    """

    def __init__(self, members: Sequence[Member]):
        self.members = members
        self.heads: list[Steps] = [prepared(member.head, member.int8) for member in members]
        self.owned = all(isinstance(head, Owned) for head in self.heads)

    def begin(self) -> Walk:
        """The state of every model before the first token."""
        pairs = [head.begin(m.memory, m.batch) for head, m in zip(self.heads, self.members, strict=True)]
        return Walk(tuple(source for source, _ in pairs), tuple(state for _, state in pairs))

    def step(self, tokens: Tensor, walk: Walk) -> tuple[Tensor, Walk, Tensor | None]:
        """Feed tokens (N,) to every model; attention is the mean, or the first model's where places differ.

        The log probabilities are the caller's own, to be written into.
        """
        outcomes = [h.step(tokens, s, m) for h, s, m in zip(self.heads, walk.states, walk.sources, strict=True)]
        walk = Walk(walk.sources, tuple(state for _, state, _ in outcomes))
        if len(outcomes) == 1:
            own = outcomes[0][0] if self.owned else outcomes[0][0].clone()
            return own, walk, outcomes[0][2]
        logprobs = torch.logsumexp(torch.stack([logp for logp, _, _ in outcomes]), dim=0)
        weights = [w for _, _, w in outcomes if w is not None]
        alike = bool(weights) and all(w.shape == weights[0].shape for w in weights)
        seen = torch.stack(weights).mean(0) if alike else weights[0] if weights else None
        return logprobs - math.log(len(outcomes)), walk, seen
