"""The text head: a recurrent decoder, p(y | memory) = product over t of p(y_t | y_1 .. y_{t-1}, memory)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from windlass.core.marks import BOS
from windlass.core.records import Batch, Carry, Hypothesis, Member, Memory, Record, Scored
from windlass.decoding.search import SearchRequest, forced_hypotheses, search
from windlass.heads.base import Head, LossOptions, gold
from windlass.heads.copying import CopySource, Gate, in_vocabulary
from windlass.heads.fast.fused import fused_decoder
from windlass.heads.fast.inference import InferenceDecoder
from windlass.heads.initial_state import InitialState
from windlass.heads.options import AttentionContext, HierarchicalContext, TextHeadOptions
from windlass.heads.running import score_chunk
from windlass.nn import fast
from windlass.nn.attention import Attention, Keys
from windlass.nn.copying import copy_share, mixed_logprob
from windlass.nn.embedding import Embedding
from windlass.nn.fast.activation import tanh
from windlass.nn.fast.decoder import FusedDecoder, decode
from windlass.nn.fast.onednn import linear
from windlass.nn.hierarchical_attention import HierarchicalAttention
from windlass.nn.loss import alignment_loss, copy_loss, coverage_loss, doubly_stochastic_loss, output_loss
from windlass.nn.product import Product
from windlass.nn.recurrence import Stack, StackState


@dataclass(frozen=True)
class DecoderSource(Record):
    """What the decoder reads at every step, shared by all hypotheses of a row.

    >>> DecoderSource(None, torch.zeros(2, 3), None).select(torch.tensor([1])).summary.shape
    torch.Size([1, 3])
    """

    keys: Keys | None  # with attention
    summary: Tensor | None  # (B, D) with context: summary
    projected_summary: Tensor | None  # (B, G) the summary, projected for the first layer
    input_projections: tuple[Product, ...] = ()  # of the first layer: for token, context and fed
    copies: CopySource | None = None  # with copying


@dataclass(frozen=True)
class DecoderState(Record):
    """What changes from step to step, with a row for each hypothesis.

    >>> DecoderState(StackState(((torch.zeros(2, 3),),)), None, None).stack.top.shape
    torch.Size([2, 3])
    """

    stack: StackState
    fed: Tensor | None  # (N, R) the last readout o, with input feeding
    coverage: Tensor | None  # (N, S) the attention that each place has received so far


class _Step(NamedTuple):
    s: Tensor  # (N, H) the state
    context: Tensor | None  # (N, D)
    o: Tensor | None  # (N, R) the readout, with input feeding
    weights: Tensor | None  # (N, S) attention
    coverage_penalty: Tensor | None = None  # (N,) the coverage loss


class _TeacherForced(NamedTuple):
    readout: Tensor  # (B, T, R) the input of the output layer
    weights: Tensor | None  # (B, T, S) attention
    coverage_penalty: Tensor | None  # (B, T) the coverage loss
    gate: Tensor | None  # (B, T) with copying: the gate's logit
    places: Tensor | None  # (B, S) the real places of the attention


@final
class TextHead(Head):
    """A recurrent decoder.

    x_t = [e(y_{t-1}); c_t; o_{t-1}]        s_t = R(s_{t-1}, x_t)        p(y_t) = softmax(V o_t + b)

    context none:       no c_t: the decoder sees the memory only in s_0
    context summary:    c_t = summary
    query previous:     c_t = attend(s_{t-1}), part of x_t                         (Bahdanau et al. 2015)
    query current:      c_t = attend(s_t), part of o_t, not of x_t                 (Luong et al. 2015)
    input feeding:      o_{t-1} is part of x_t                                     (Luong et al. 2015)
    hierarchical:       attention over sentences and their words; see `nn/hierarchical_attention.py`
    readout:            o_t = s_t, or tanh(W [s_t; c_t]), or tanh(W [s_t; c_t; e(y_{t-1})])
    copying:            p(y_t) = g_t softmax(V o_t + b) + (1 - g_t) (attention on places that hold y_t)

    >>> head = TextHead(TextHeadOptions(size=8), vocabulary=10, memory_size=6, final_sizes=())
    >>> memory = Memory(torch.randn(2, 5, 6), torch.ones(2, 5) > 0, torch.randn(2, 6))
    >>> source, state = head.begin(memory)
    >>> logprobs, state, weights = head.step(torch.tensor([BOS, BOS]), state, source)
    >>> logprobs.shape, weights.shape
    (torch.Size([2, 10]), torch.Size([2, 5]))
    """

    searches = True

    def __init__(
        self,
        options: TextHeadOptions,
        vocabulary: int,
        memory_size: int,
        final_sizes: tuple[tuple[int, ...], ...],
        embedding: Embedding | None = None,
        tie: bool = False,
        words_size: int = 0,
        prefix: str | None = None,
    ):
        super().__init__()
        self.options, self.prefix = options, prefix  # the prefix: the input that is read before the first token
        reads = options.feedback or prefix is not None
        self.embedding = (embedding or options.embedding.build(vocabulary)) if reads else None
        self.embedding_size = self.embedding.size if self.embedding else 0  # E
        context = options.context
        self.attention = _attention(options, memory_size, words_size)
        attends = context if isinstance(context, AttentionContext | HierarchicalContext) else None
        self.queries_previous = attends is not None and attends.query == "previous"
        self.input_feeding = attends is not None and attends.input_feeding
        self.uses_coverage = self.attention is not None and self.attention.uses_coverage
        self.context_size = self.attention.size if self.attention else memory_size if context.constant else 0
        self.readout_size = options.readout_size
        self.widths = (  # of token, context and fed in the first layer's input
            self.embedding_size,
            self.context_size if self.queries_previous or context.constant else 0,
            self.readout_size if self.input_feeding else 0,
        )
        self.stack = Stack(sum(self.widths), options)
        self.start = InitialState(options.start, self.stack.first, options.layers, memory_size, final_sizes)
        if options.readout.joins:
            width = options.size + self.context_size + (self.embedding_size if options.readout.reads_output else 0)
            self.join = nn.Linear(width, self.readout_size, bias=False)
        self.output = nn.Linear(self.readout_size, vocabulary)
        self.gate = Gate(vocabulary, options.size, self.context_size, self.embedding_size) if options.copying else None
        if tie and self.embedding is not None:
            assert isinstance(self.embedding.table, nn.Parameter)
            self.embedding.scale_for_tying()
            self.output.weight = self.embedding.table

    # -- fast paths

    def fused(self, e: Tensor, state: DecoderState, source: DecoderSource) -> FusedDecoder | None:
        """The decoder over embedded tokens e (B, T, E) in one piece, if its cells and attention offer it."""
        return fused_decoder(self, e, state, source)

    def inference(self, int8: bool = False) -> InferenceDecoder:
        """The decoder with packed weights, for a search."""
        return InferenceDecoder(self, int8)

    # -- step by step: the decoder of a search

    def begin(self, memory: Memory, batch: Batch | None = None) -> tuple[DecoderSource, DecoderState]:
        """Prepare a memory; return it with the state before the first target token.

        The batch has the prefix and the ids that can be copied, if the decoder reads them.
        """
        keys = self.attention.prepare(memory) if self.attention else None
        summary = memory.summary if self.options.context.constant else None
        # For token, context and fed, which are known only step by step.
        projections = tuple(Product(columns) for columns in self.stack.first.weight_x.split(self.widths, dim=1))
        projected_summary = None if summary is None else projections[1](summary)
        layers = self.start(memory)
        stack = self.stack.begin(layers)
        prefix = None if batch is None or self.prefix is None else batch.inputs[self.prefix]
        if prefix is not None and self.embedding is not None:
            _, layers = self.stack(self.embedding(prefix.values), prefix.mask, stack)
            stack = replace(stack, layers=layers)  # keeps the masks of locked dropout: it is one sequence
        like = layers[0][0]
        fed = like.new_zeros(len(like), self.readout_size) if self.input_feeding else None
        coverage = like.new_zeros(keys.mask.shape) if self.uses_coverage and keys else None
        copies = None
        if self.gate and keys:
            copies = self.gate.prepare(None if batch is None else batch.copyable, keys.values, keys.mask)
        source = DecoderSource(keys, summary, projected_summary, projections, copies)
        return source, DecoderState(stack, fed, coverage)

    def step(
        self, tokens: Tensor, state: DecoderState, source: DecoderSource
    ) -> tuple[Tensor, DecoderState, Tensor | None]:
        """Feed in the last tokens (N,); return log probabilities (N, V), the new state and attention (N, S).

        With copying, the log probabilities are (N, V + K), for K out-of-vocabulary tokens of the sources.
        """
        e = self._embed(tokens)
        step, state = self._advance(e, self.stack.first.project(e), state, source)
        return self._logprobs(step, e, source), state, step.weights

    def _logprobs(self, step: _Step, e: Tensor, source: DecoderSource) -> Tensor:
        """The log probabilities after a step."""
        logits = self.output(self.read_out(step.s, step.context, e) if step.o is None else step.o)
        if self.gate is None or step.weights is None or source.copies is None:
            return torch.log_softmax(logits, dim=-1)
        return self.gate.mix(logits, step.s, e, step.weights, source.copies)

    def _embed(self, tokens: Tensor) -> Tensor:
        if self.embedding is None:
            return self.output.weight.new_zeros(*tokens.shape, 0)
        e: Tensor = self.embedding(self.reads(tokens))
        return e

    def reads(self, tokens: Tensor) -> Tensor:
        """What a step reads after these outputs: without feedback, the separator at every step."""
        if not self.options.feedback:
            return torch.full_like(tokens, BOS)
        return tokens if self.gate is None else in_vocabulary(tokens, self.output.out_features)

    def _attend(self, query: Tensor, state: DecoderState, source: DecoderSource) -> tuple[Tensor, Tensor]:
        """The attention of every hypothesis: queries (N, Q) -> contexts (N, D), weights (N, S)."""
        assert self.attention is not None
        assert source.keys is not None
        B = source.keys.mask.size(0)
        coverage = None if state.coverage is None else state.coverage.view(B, -1, state.coverage.size(1))
        context, weights = self.attention(query.view(B, -1, query.size(1)), source.keys, coverage)
        return context.flatten(0, 1), weights.flatten(0, 1)

    def _advance(
        self, e: Tensor, projected: Tensor, state: DecoderState, source: DecoderSource
    ) -> tuple[_Step, DecoderState]:
        """One step of the decoder, with an embedded token (N, E) and its projection (N, G)."""
        context = weights = penalty = o = None
        if source.projected_summary is not None and source.summary is not None:
            hypotheses = projected.size(0) // source.projected_summary.size(0)
            projected = projected + source.projected_summary.repeat_interleave(hypotheses, dim=0)
            context = source.summary.repeat_interleave(hypotheses, dim=0)
        if self.queries_previous:
            context, weights = self._attend(state.stack.top, state, source)
            projected = source.input_projections[1](context, projected)
        if state.fed is not None:
            projected = source.input_projections[2](state.fed, projected)
        s, stack = self.stack.step(projected, state.stack)
        if self.attention is not None and not self.queries_previous:
            context, weights = self._attend(s, state, source)
        if self.input_feeding:
            o = self.read_out(s, context, e)
        coverage = state.coverage
        if coverage is not None and weights is not None:
            penalty = coverage_loss(weights, coverage)
            coverage = coverage + weights
        return _Step(s, context, o, weights, penalty), DecoderState(stack, o, coverage)

    def read_out(self, s: Tensor, context: Tensor | None, e: Tensor) -> Tensor:
        """The readout o (..., R) of states (..., H), contexts (..., D) and tokens (..., E)."""
        readout = self.options.readout
        if readout.kind == "state":
            return s
        inputs = [s] if context is None else [s, context]
        if readout.kind == "deep":
            inputs.append(e)
        o = tanh(linear(torch.cat(inputs, dim=-1), self.join.weight))
        return F.dropout(o, readout.dropout, self.training)

    # -- teacher forcing: training and forced decoding

    def teacher_force(self, memory: Memory, batch: Batch, sampling_prob: float = 0.0) -> _TeacherForced:
        """Run the decoder over reference targets (B, T).

        With probability `sampling_prob` it reads its own last output instead (scheduled sampling).
        """
        target = gold(batch).values
        source, state = self.begin(memory, batch)
        tokens = torch.cat([torch.full_like(target[:, :1], BOS), target[:, :-1]], dim=1)
        if sampling_prob > 0:
            return self._force_sampled(tokens, state, source, sampling_prob)
        e = self._embed(tokens)  # (B, T, E)
        if not (self.queries_previous or self.input_feeding or self.uses_coverage):
            return self._force_parallel(e, state, source)
        fused = fast.fused(self, e, state, source)
        if fused is not None:
            return self._force_fused(e, fused, source)
        projected = self.stack.first.project(e.transpose(0, 1))  # (T, B, G)
        steps: list[_Step] = []
        for x_t, e_t in zip(projected.unbind(0), e.unbind(1), strict=True):
            step, state = self._advance(e_t, x_t, state, source)
            steps.append(step)
        return self._forced(_stack(steps), e, source)

    def _forced(self, steps: _Step, e: Tensor, source: DecoderSource) -> _TeacherForced:
        """What needs no recurrence, for all steps (B, T, ...) at once: readouts that are not fed, and the copy gate."""
        o, gate = self.read_out(steps.s, steps.context, e) if steps.o is None else steps.o, None
        if self.gate is not None and steps.weights is not None and source.copies is not None:
            gate = self.gate(steps.s, e, steps.weights, source.copies)
        places = None if source.keys is None else source.keys.mask
        return _TeacherForced(o, steps.weights, steps.coverage_penalty, gate, places)

    def _force_fused(self, e: Tensor, fused: FusedDecoder, source: DecoderSource) -> _TeacherForced:
        """All steps in one piece, with gradients derived by hand."""
        assert source.keys is not None
        states, attention, readouts = decode(fused)
        weights = attention.transpose(0, 1)  # (B, T, S)
        penalty = coverage_loss(weights, weights.cumsum(1) - weights) if self.uses_coverage else None
        o = None if readouts is None else readouts.transpose(0, 1)
        context = weights @ source.keys.values if o is None else None
        return self._forced(_Step(states.transpose(0, 1), context, o, weights, penalty), e, source)

    def _force_parallel(self, e: Tensor, state: DecoderState, source: DecoderSource) -> _TeacherForced:
        """All steps in parallel, if the stack's inputs do not depend on its outputs."""
        context = weights = None
        x = e
        if source.summary is not None:
            context = source.summary[:, None].expand(-1, e.size(1), -1)
            x = torch.cat([e, context], dim=-1)
        s, _ = self.stack(x, None, state.stack)
        if self.attention is not None:
            assert source.keys is not None
            context, weights = self.attention(s, source.keys)
        return self._forced(_Step(s, context, None, weights), e, source)

    def _force_sampled(
        self, tokens: Tensor, state: DecoderState, source: DecoderSource, sampling_prob: float
    ) -> _TeacherForced:
        """Scheduled sampling (Bengio et al. 2015): for every token, read the reference or the model's own output."""
        steps: list[_Step] = []
        embedded: list[Tensor] = []
        last = tokens[:, 0]
        for t, reference in enumerate(tokens.unbind(1)):
            sampled = torch.rand(last.shape, device=last.device) < sampling_prob
            e = self._embed(torch.where(sampled, last, reference) if t else reference)
            step, state = self._advance(e, self.stack.first.project(e), state, source)
            with torch.no_grad():
                last = self._logprobs(step, e, source).argmax(-1)
            steps.append(step)
            embedded.append(e)
        return self._forced(_stack(steps), torch.stack(embedded, 1), source)

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
        target, forced = gold(batch), self.teacher_force(memory, batch, sampling_prob)
        reference, output, readout = target.values[target.mask], self.output, forced.readout[target.mask]
        if forced.gate is None:
            value, nll = output_loss(readout, output.weight, output.bias, reference, loss.label_smoothing)
        else:
            gate, share = forced.gate[target.mask], self._copy_share(forced, batch)[target.mask]
            value, nll = copy_loss(readout, output.weight, output.bias, gate, share, reference, loss.label_smoothing)
        penalties: dict[str, Tensor] = {}
        if loss.coverage and forced.coverage_penalty is not None:
            penalties["coverage"] = forced.coverage_penalty[target.mask].sum()
        if loss.alignment and batch.alignment is not None and forced.weights is not None:
            weights, links = forced.weights, batch.alignment
            if self.options.context.aligns_late:  # the step after a word, which reads it, aligns it
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


def _attention(options: TextHeadOptions, memory_size: int, words_size: int) -> Attention | HierarchicalAttention | None:
    context = options.context
    if isinstance(context, HierarchicalContext):
        return HierarchicalAttention(context.score, context.within, options.size, memory_size, words_size)
    return Attention(context.score, options.size, memory_size) if isinstance(context, AttentionContext) else None


def _stack(steps: list[_Step]) -> _Step:
    """Steps (B, ...) as one (B, T, ...)."""
    stacked = (None if parts[0] is None else torch.stack(parts, 1) for parts in zip(*steps, strict=True))
    return _Step(*stacked)  # type: ignore[arg-type]
