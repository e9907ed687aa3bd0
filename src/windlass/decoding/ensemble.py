"""The decoder of a search: one model, or an ensemble that averages the probabilities of the next token."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from windlass.core.records import Batch, Member, Memory, Record
from windlass.nn import fast


class Decoder(Protocol):
    """A head as a search sees it. The source has a row for each sentence, the state one for each hypothesis."""

    def begin(self, memory: Memory, batch: Batch | None = None) -> tuple[Any, Any]:
        """Return source and state before the first token."""

    def step(self, tokens: Tensor, state: Any, source: Any) -> tuple[Tensor, Any, Tensor | None]:
        """Return log probabilities (N, V), the new state, and attention (N, S)."""


@runtime_checkable
class LimitsOutput(Protocol):
    """A head that cannot write without end."""

    def most_steps(self, batch: Batch | None) -> Tensor | int | None:
        """The most tokens that the output of every row (B,) can have, end mark included; None: any number."""


@dataclass(frozen=True)
class _SearchState(Record):
    """The state of a search in every model of an ensemble."""

    sources: tuple[Any, ...]
    states: tuple[Any, ...]

    def reorder(self, hypotheses: Tensor) -> _SearchState:
        """Continue each hypothesis from another one of its sentence."""
        return _SearchState(self.sources, tuple(s.select(hypotheses) for s in self.states))

    def keep(self, sentences: Tensor, hypotheses: Tensor) -> _SearchState:
        """Keep some of the sentences, and their hypotheses."""
        sources = tuple(s.select(sentences) for s in self.sources)
        return _SearchState(sources, tuple(s.select(hypotheses) for s in self.states))

    def widen(self, k: int) -> _SearchState:
        """Repeat the one hypothesis of each sentence k times."""
        return _SearchState(self.sources, tuple(s.repeat(k) for s in self.states))


class Ensemble:
    """One model, or the weighted mean of the probabilities of several.

    >>> from windlass.heads.recurrent import RecurrentDecoder
    >>> head = RecurrentDecoder(RecurrentDecoder.Options(size=8), vocabulary=10, memory_size=6, final_sizes=())
    >>> member = Member(head, Memory(torch.randn(2, 5, 6), torch.ones(2, 5) > 0, torch.randn(2, 6)))
    >>> ensemble = Ensemble([member, member])
    >>> logprobs, state, weights = ensemble.step(torch.tensor([2, 2]), ensemble.begin())
    >>> bool(torch.allclose(logprobs.exp().sum(1), torch.ones(2)))
    True
    """

    def __init__(self, members: Sequence[Member]):
        self.members = members
        # A head itself in training, or if it has no inference form.
        self.decoders: list[Decoder] = [
            (fast.inference(head, int8) if isinstance(head, fast.OffersInference) else None) or head
            for head, _, _, int8, _ in members
        ]
        total = sum(member.weight for member in members)
        self.log_weights = [math.log(member.weight / total) for member in members]
        # Whether the log probabilities are new tensors at every step, which the caller may overwrite.
        self.owns_output = all(getattr(decoder, "owns_output", False) for decoder in self.decoders)

    def most_steps(self, limits: Tensor) -> Tensor:
        """These limits (B,), or what the members can write, if that is less."""
        for head, _, batch, _, _ in self.members:
            if isinstance(head, LimitsOutput) and (most := head.most_steps(batch)) is not None:
                limits = torch.minimum(limits, torch.as_tensor(most, device=limits.device))
        return limits

    def begin(self) -> _SearchState:
        """The state of every model before the first token."""
        pairs = [decoder.begin(m.memory, m.batch) for decoder, m in zip(self.decoders, self.members, strict=True)]
        return _SearchState(tuple(source for source, _ in pairs), tuple(state for _, state in pairs))

    def step(self, tokens: Tensor, state: _SearchState) -> tuple[Tensor, _SearchState, Tensor | None]:
        """Feed tokens (N,) to every model; attention is the mean, or the first model's if shapes differ.

        The caller may overwrite the log probabilities.
        """
        inputs = zip(self.decoders, state.states, state.sources, strict=True)
        outputs = [decoder.step(tokens, before, source) for decoder, before, source in inputs]
        state = _SearchState(state.sources, tuple(after for _, after, _ in outputs))
        if len(outputs) == 1:
            logprobs, _, attention = outputs[0]
            return logprobs if self.owns_output else logprobs.clone(), state, attention
        each = [logp + weight for (logp, _, _), weight in zip(outputs, self.log_weights, strict=True)]
        logprobs = torch.logsumexp(torch.stack(each), dim=0)
        weights = [w for _, _, w in outputs if w is not None]
        same_shape = bool(weights) and all(w.shape == weights[0].shape for w in weights)
        attention = torch.stack(weights).mean(0) if same_shape else weights[0] if weights else None
        return logprobs, state, attention
