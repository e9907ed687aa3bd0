"""The text head: p(y | memory) = product over t of p(y_t | y_1 .. y_{t-1}, memory), by a decoder of any kind."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from windlass.core.marks import BOS
from windlass.core.options import Part
from windlass.core.records import Batch, Carry, Hypothesis, Member, Memory, Scored
from windlass.decoding.search import SearchRequest, forced_hypotheses, search
from windlass.heads.base import Head, LossOptions, gold
from windlass.heads.copying import CopySource, Gate, in_vocabulary
from windlass.heads.running import score_chunk
from windlass.nn.attention import MemoryAttention
from windlass.nn.copying import copy_share, mixed_logprob
from windlass.nn.embedding import Embedding
from windlass.nn.loss import alignment_loss, copy_loss, coverage_loss, doubly_stochastic_loss, output_loss

if TYPE_CHECKING:
    from windlass.heads.kinds import DecoderOptions


class Source(Protocol):
    """What a decoder reads at every step, with a row for each sentence; a record."""

    @property
    def copies(self) -> CopySource | None:
        """What can be copied, with copying."""

    @property
    def places(self) -> Tensor | None:
        """The real places of the attention (B, S), if there is any."""


class Step(NamedTuple):
    """What a decoder computes for a token, (N, ...), or for all tokens of a target, (B, T, ...).

    >>> Step(torch.zeros(2, 3)).weights is None
    True
    """

    s: Tensor  # (N, H) the state
    context: Tensor | None = None  # (N, D)
    o: Tensor | None = None  # (N, R) the readout, if it is computed with the state
    weights: Tensor | None = None  # (N, S) attention


class _TeacherForced(NamedTuple):
    readout: Tensor  # (B, T, R) the input of the output layer
    weights: Tensor | None  # (B, T, S) attention
    gate: Tensor | None  # (B, T) with copying: the gate's logit
    places: Tensor | None  # (B, S) the real places of the attention


class TextHead(Part, Head):
    """A decoder with an output layer: p(y_t) = softmax(V o_t + b), or mixed with what it copies.

    Its kinds differ in `begin` (source and state before the first token), `advance` (one step), `unroll` (all steps of
    a given target) and `run_chunk` (running text). Training, search and forced decoding are written once.
    """

    searches = True
    options: DecoderOptions
    embedding: Embedding | None  # None without feedback
    output: nn.Linear
    gate: Gate | None  # with copying
    prefix: str | None  # the input that is read before the first token

    @abstractmethod
    def begin(self, memory: Memory, batch: Batch | None = None) -> tuple[Any, Any]:
        """Prepare a memory; return it with the state before the first target token.

        The batch has the prefix and the ids that can be copied, if the decoder reads them.
        """

    @abstractmethod
    def advance(self, e: Tensor, state: Any, source: Any) -> tuple[Step, Any]:
        """One step, with embedded tokens e (N, E); return what it computes, and the new state."""

    @abstractmethod
    def unroll(self, e: Tensor, state: Any, source: Any, weights: bool) -> Step:
        """All steps over embedded tokens e (B, T, E); attention may be left out unless `weights`."""

    @abstractmethod
    def run_chunk(self, batch: Batch, carry: Carry | None) -> tuple[Tensor, Carry]:
        """Run over a chunk of running text; return readouts (B, T, R) and the state at the end of each row.

        Rows that continue the last batch start from `carry`, the others from the initial state.
        """

    @abstractmethod
    def readout(self, step: Step, e: Tensor) -> Tensor:
        """The input of the output layer (..., R), after steps with embedded tokens e (..., E)."""

    @property
    @abstractmethod
    def attentions(self) -> Sequence[MemoryAttention]:
        """The attention over the memory, in each layer that has one."""

    def tie_output(self) -> None:
        """Share the embedding with the output layer, if there is one."""
        if self.embedding is not None:
            assert isinstance(self.embedding.table, nn.Parameter)
            self.embedding.scale_for_tying()
            self.output.weight = self.embedding.table

    # -- step by step: the decoder of a search

    def step(self, tokens: Tensor, state: Any, source: Any) -> tuple[Tensor, Any, Tensor | None]:
        """Feed in the last tokens (N,); return log probabilities (N, V), the new state and attention (N, S).

        With copying, the log probabilities are (N, V + K), for K out-of-vocabulary tokens of the sources.
        """
        e = self.embed(tokens)
        step, state = self.advance(e, state, source)
        return self._logprobs(step, e, source), state, step.weights

    def _logprobs(self, step: Step, e: Tensor, source: Source) -> Tensor:
        """The log probabilities after a step."""
        logits = self.output(self.readout(step, e))
        if self.gate is None or step.weights is None or source.copies is None:
            return torch.log_softmax(logits, dim=-1)
        return self.gate.mix(logits, step.s, e, step.weights, source.copies)

    def embed(self, tokens: Tensor) -> Tensor:
        """Embed tokens (...) as they are fed back: (..., E)."""
        if self.embedding is None:
            return self.output.weight.new_zeros(*tokens.shape, 0)
        e: Tensor = self.embedding(self.reads(tokens))
        return e

    def reads(self, tokens: Tensor) -> Tensor:
        """What a step reads after these outputs."""
        return tokens if self.gate is None else in_vocabulary(tokens, self.output.out_features)

    # -- teacher forcing: training and forced decoding

    def teacher_force(
        self, memory: Memory, batch: Batch, sampling_prob: float = 0.0, weights: bool = True
    ) -> _TeacherForced:
        """Run the decoder over reference targets (B, T).

        With probability `sampling_prob` it reads its own last output instead (scheduled sampling). Attention may be
        left out unless `weights`.
        """
        target = gold(batch).values
        source, state = self.begin(memory, batch)
        tokens = torch.cat([torch.full_like(target[:, :1], BOS), target[:, :-1]], dim=1)
        if sampling_prob > 0:
            steps, e = self._sample(tokens, state, source, sampling_prob)
        else:
            e = self.embed(tokens)  # (B, T, E)
            steps = self.unroll(e, state, source, weights or self.gate is not None)
        gate = None
        if self.gate is not None and steps.weights is not None and source.copies is not None:
            gate = self.gate(steps.s, e, steps.weights, source.copies)
        return _TeacherForced(self.readout(steps, e), steps.weights, gate, source.places)

    def _sample(self, tokens: Tensor, state: Any, source: Source, sampling_prob: float) -> tuple[Step, Tensor]:
        """Scheduled sampling (Bengio et al. 2015): for every token, read the reference or the model's own output."""
        steps: list[Step] = []
        embedded: list[Tensor] = []
        last = tokens[:, 0]
        for t, reference in enumerate(tokens.unbind(1)):
            sampled = torch.rand(last.shape, device=last.device) < sampling_prob
            e = self.embed(torch.where(sampled, last, reference) if t else reference)
            step, state = self.advance(e, state, source)
            with torch.no_grad():
                last = self._logprobs(step, e, source).argmax(-1)
            steps.append(step)
            embedded.append(e)
        return stack_steps(steps), torch.stack(embedded, 1)

    def score(
        self,
        memory: Memory,
        batch: Batch,
        loss: LossOptions | None = None,
        carry: Carry | None = None,
        sampling_prob: float = 0.0,
    ) -> Scored:
        """The training loss of whole targets with their end marks, or of a chunk of running text."""
        loss = loss or LossOptions()
        if batch.continues is not None:
            return score_chunk(self, batch, carry, loss.label_smoothing)
        wanted = bool(loss.coverage or loss.alignment or loss.doubly_stochastic)
        target, forced = gold(batch), self.teacher_force(memory, batch, sampling_prob, wanted)
        reference, output, readout = target.values[target.mask], self.output, forced.readout[target.mask]
        if forced.gate is None:
            value, nll = output_loss(readout, output.weight, output.bias, reference, loss.label_smoothing)
        else:
            gate, share = forced.gate[target.mask], self._copy_share(forced, batch)[target.mask]
            value, nll = copy_loss(readout, output.weight, output.bias, gate, share, reference, loss.label_smoothing)
        penalties: dict[str, Tensor] = {}
        if loss.coverage and forced.weights is not None:
            penalties["coverage"] = coverage_loss(forced.weights)[target.mask].sum()
        if loss.alignment and batch.alignment is not None and forced.weights is not None:
            weights, links = forced.weights, batch.alignment
            if self.options.aligns_late:  # the step after a word, which reads it, aligns it
                weights, links = weights[:, 1:], links[:, :-1]
            penalties["alignment"] = alignment_loss(weights, links)
        if loss.doubly_stochastic and forced.weights is not None and forced.places is not None:
            weights = forced.weights * target.mask[..., None]
            penalties["doubly_stochastic"] = doubly_stochastic_loss(weights, forced.places)
        for name, penalty in penalties.items():
            value = value + getattr(loss, name) * penalty
        return Scored(value, target.mask.sum(), {"nll": nll} | {n: term.detach() for n, term in penalties.items()})

    def reference_logprobs(self, memory: Memory, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Log probabilities (B, T) of the targets, zero on padding, and attention (B, T, S)."""
        forced, target = self.teacher_force(memory, batch), gold(batch)
        oov = target.values >= self.output.out_features
        logprobs = torch.log_softmax(self.output(forced.readout), dim=-1)
        logp = logprobs.gather(2, target.values.masked_fill(oov, 0)[..., None]).squeeze(2)
        if forced.gate is not None:
            logp = mixed_logprob(logp, forced.gate, self._copy_share(forced, batch), oov)
        return logp * target.mask, forced.weights

    def _copy_share(self, forced: _TeacherForced, batch: Batch) -> Tensor:
        """The attention (B, T) on places that hold the reference token."""
        assert batch.copyable is not None
        assert forced.weights is not None
        return copy_share(forced.weights, batch.copyable, gold(batch).values)

    # -- prediction

    @classmethod
    def predict(cls, members: Sequence[Member], request: SearchRequest) -> list[list[Hypothesis]]:
        """Search for the best outputs."""
        return search(members, request)

    @torch.no_grad()
    def force(self, memory: Memory, batch: Batch) -> list[Hypothesis]:
        """Score the batch's targets, with their attention."""
        return forced_hypotheses(gold(batch), *self.reference_logprobs(memory, batch))


def stack_steps(steps: Sequence[Step]) -> Step:
    """Steps (B, ...) as one (B, T, ...).

    >>> stack_steps([Step(torch.zeros(2, 3))] * 5).s.shape
    torch.Size([2, 5, 3])
    """
    stacked = (None if parts[0] is None else torch.stack(parts, 1) for parts in zip(*steps, strict=True))
    return Step(*stacked)  # type: ignore[arg-type]
