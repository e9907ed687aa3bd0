"""The text head: a recurrent decoder, p(y | memory) = product over t of p(y_t | y_1 .. y_{t-1}, memory)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from windlass.core.marks import BOS
from windlass.core.records import Batch, Carry, Hypothesis, Member, Memory, Record, Scored
from windlass.decoding.search import SearchRequest, forced_hypotheses, search
from windlass.heads.base import Head, LossOptions, gold
from windlass.heads.copying import Copies, Gate, in_vocabulary
from windlass.heads.fast.fused import fused_decoder
from windlass.heads.fast.inference import InferenceDecoder
from windlass.heads.options import AttentionContext, HierarchicalContext, TextHeadOptions
from windlass.heads.running import score_chunk
from windlass.heads.start import Start
from windlass.nn import fast
from windlass.nn.attention import Attention, Keys
from windlass.nn.copying import copied, mixed_logprob
from windlass.nn.embedding import Embedding
from windlass.nn.fast.activation import tanh
from windlass.nn.fast.decoder import FusedDecoder, decode
from windlass.nn.fast.onednn import linear
from windlass.nn.levels import Levels
from windlass.nn.loss import alignment_loss, copy_loss, coverage_loss, output_loss
from windlass.nn.product import Product
from windlass.nn.recurrence import Stack, StackState


@dataclass(frozen=True)
class DecoderSource(Record):
    """What a decoder reads of one row at every step; shared by all hypotheses of the row.

    >>> DecoderSource(None, None, None).keys is None
    True
    """

    keys: Keys | None  # for attention
    summary: Tensor | None  # (B, D) where the summary is seen at every step
    constant: Tensor | None  # (B, G) its share of the first layer's input, projected once
    input_projections: tuple[Product, ...] = ()  # of the first layer's input: token, context, fed
    copies: Copies | None = None  # what can be copied


@dataclass(frozen=True)
class DecoderState(Record):
    """What changes from step to step; a row a hypothesis.

    >>> DecoderState(StackState(((torch.zeros(2, 3),),)), None, None).stack.top.shape
    torch.Size([2, 3])
    """

    stack: StackState
    fed: Tensor | None  # (N, R) the last readout, with input feeding
    coverage: Tensor | None  # (N, S) attention received so far


@dataclass(frozen=True)
class StepOutput(Record):
    """What one step of the decoder computes."""

    s: Tensor  # (N, H) the state
    context: Tensor | None  # (N, D)
    o: Tensor | None  # (N, R) the readout, where the next step needs it
    weights: Tensor | None  # (N, S)
    coverage_penalty: Tensor | None  # (N,)
    state: DecoderState


@dataclass(frozen=True)
class TeacherForced(Record):
    """A target run through the decoder by teacher forcing.

    >>> TeacherForced(torch.zeros(2, 3, 4), None, None).readout.shape
    torch.Size([2, 3, 4])
    """

    readout: Tensor  # (B, T, R) what the output layer sees
    weights: Tensor | None  # (B, T, S)
    coverage_penalty: Tensor | None  # (B, T)
    gate: Tensor | None = None  # (B, T) where copying is on: the logit of writing


@final
class TextHead(Head):
    """A recurrent decoder with any context, start, feedback and readout.

    x_t = [e(y_{t-1}); context; fed]        s_t = R(s_{t-1}, x_t)        p(y_t) = softmax(V o_t + b)

    context none:       the memory is seen at the start only
    context summary:    the summary at every step
    query previous:     c_t = attend(s_{t-1}), part of x_t                        (Bahdanau et al. 2015)
    query current:      c_t = attend(s_t), part of o_t; with input feeding o_{t-1} is part of x_t   (Luong et al. 2015)
    hierarchical:       attends to sentences, and to the words of each; see `nn/levels.py`
    readout:            o_t = s_t, or tanh(W [s_t; c_t]), or tanh(W [s_t; c_t; e(y_{t-1})])
    copying:            p(y_t) = g_t softmax(V o_t + b) + (1 - g_t) sum of attention on places that hold y_t

    >>> head = TextHead(TextHeadOptions(size=8), vocabulary=10, memory_size=6, final_sizes=())
    >>> memory = Memory(torch.randn(2, 5, 6), torch.ones(2, 5) > 0, torch.randn(2, 6))
    >>> source, state = head.begin(memory)
    >>> logprobs, state, weights = head.step(torch.tensor([BOS, BOS]), state, source)
    >>> logprobs.shape, weights.shape
    (torch.Size([2, 10]), torch.Size([2, 5]))
    """

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
        self.prefix = prefix  # the input that is read before the first token is written, if there is one
        self.options = options
        self.embedding = (embedding or options.embedding.build(vocabulary)) if options.feedback else None
        self.embedded = self.embedding.size if self.embedding else 0  # E
        context = options.context
        self.attention = _attention(options, memory_size, words_size)
        asks = context if isinstance(context, AttentionContext | HierarchicalContext) else None
        self.previous = asks is not None and asks.query == "previous"
        self.feeding = asks is not None and asks.input_feeding
        self.covering = self.attention is not None and self.attention.covering
        self.context_size = self.attention.size if self.attention else memory_size if context.constant else 0
        self.readout_size = options.readout_size
        self.widths = (  # of the pieces of the first layer's input
            self.embedded,
            self.context_size if self.previous or context.constant else 0,
            self.readout_size if self.feeding else 0,
        )
        self.stack = Stack(sum(self.widths), options)
        self.start = Start(
            options.start, self.stack.first.parts, options.layers, options.size, memory_size, final_sizes
        )
        if options.readout.joins:
            seen = options.size + self.context_size + (self.embedded if options.readout.reads_output else 0)
            self.join = nn.Linear(seen, self.readout_size, bias=False)
        self.output = nn.Linear(self.readout_size, vocabulary)
        self.gate = Gate(vocabulary, options.size, self.context_size, self.embedded) if options.copying else None
        if tie and self.embedding is not None:
            assert isinstance(self.embedding.table, nn.Parameter)
            self.embedding.shrink()
            self.output.weight = self.embedding.table

    searches = True

    # -- one step at a time: what search sees

    def fused(self, e: Tensor, state: DecoderState, source: DecoderSource) -> FusedDecoder | None:
        """The decoder over embedded tokens e (B, T, E) in one piece, if cells and attention offer it."""
        return fused_decoder(self, e, state, source)

    def inference(self, int8: bool = False) -> InferenceDecoder:
        """The same steps with packed weights, for a search."""
        return InferenceDecoder(self, int8)

    def begin(self, memory: Memory, batch: Batch | None = None) -> tuple[DecoderSource, DecoderState]:
        """Prepare a memory, and return the state before the first target token.

        The batch holds what is read beside the memory: a prefix, and what can be copied.
        """
        keys = self.attention.prepare(memory) if self.attention else None
        seen = memory.summary if self.options.context.kind == "summary" else None
        projections = tuple(self.stack.first.pieces(*self.widths))
        constant = None if seen is None else projections[1](seen)
        layers = self.start(memory)
        B = memory.summary.size(0)
        begun = self.stack.begin(layers)
        prefix = None if batch is None or self.prefix is None else batch.inputs[self.prefix]
        if prefix is not None and self.embedding is not None:
            _, layers = self.stack(self.embedding(prefix.values), prefix.mask, begun)
            begun = replace(begun, layers=layers)  # the same sequence goes on, with the same locked dropout
        like = layers[0][0]
        fed = like.new_zeros(B, self.readout_size) if self.feeding else None
        coverage = like.new_zeros(keys.mask.shape) if self.covering and keys else None
        copies = None
        if self.gate and keys:
            copies = self.gate.prepare(None if batch is None else batch.copyable, keys.values, keys.mask)
        return DecoderSource(keys, seen, constant, projections, copies), DecoderState(begun, fed, coverage)

    def step(
        self, tokens: Tensor, state: DecoderState, source: DecoderSource
    ) -> tuple[Tensor, DecoderState, Tensor | None]:
        """Feed in the last tokens (N,); return log probabilities (N, V), the new state and attention (N, S).

        Where copying is on, they are (N, V + K), with K ids more for what sources hold beyond the vocabulary.
        """
        e = self._embed(tokens)
        step = self._advance(e, self.stack.first.project(e), state, source)
        return self._logprobs(step, e, source), step.state, step.weights

    def _logprobs(self, step: StepOutput, e: Tensor, source: DecoderSource) -> Tensor:
        """The log probabilities after a step."""
        logits = self.output(self._read(step.s, step.context, e) if step.o is None else step.o)
        if self.gate is None or step.weights is None or source.copies is None:
            return torch.log_softmax(logits, dim=-1)
        return self.gate.mix(logits, step.s, e, step.weights, source.copies)

    def _embed(self, tokens: Tensor) -> Tensor:
        if self.embedding is not None:
            known = tokens if self.gate is None else in_vocabulary(tokens, self.output.out_features)
            vectors: Tensor = self.embedding(known)
            return vectors
        return self.output.weight.new_zeros(*tokens.shape, 0)  # nothing is fed back

    def _attend(self, query: Tensor, state: DecoderState, source: DecoderSource) -> tuple[Tensor, Tensor]:
        """Attend for every hypothesis: queries (N, Q) -> contexts (N, D), weights (N, S)."""
        assert self.attention is not None
        assert source.keys is not None
        B = source.keys.mask.size(0)
        coverage = None if state.coverage is None else state.coverage.view(B, -1, state.coverage.size(1))
        context, weights = self.attention(query.view(B, -1, query.size(1)), source.keys, coverage)
        return context.flatten(0, 1), weights.flatten(0, 1)

    def _advance(self, e: Tensor, projected: Tensor, state: DecoderState, source: DecoderSource) -> StepOutput:
        """One step of the decoder, with an embedded token (N, E) and its projection (N, G)."""
        context = weights = penalty = o = None
        if source.constant is not None and source.summary is not None:
            hypotheses = projected.size(0) // source.constant.size(0)
            projected = projected + source.constant.repeat_interleave(hypotheses, dim=0)
            context = source.summary.repeat_interleave(hypotheses, dim=0)
        if self.previous:
            context, weights = self._attend(state.stack.top, state, source)
            projected = source.input_projections[1](context, projected)
        if state.fed is not None:
            projected = source.input_projections[2](state.fed, projected)
        s, stack = self.stack.step(projected, state.stack)
        if self.attention is not None and not self.previous:
            context, weights = self._attend(s, state, source)
        if self.feeding:
            o = self._read(s, context, e)
        coverage = state.coverage
        if coverage is not None and weights is not None:
            penalty = coverage_loss(weights, coverage)
            coverage = coverage + weights
        return StepOutput(s, context, o, weights, penalty, DecoderState(stack, o, coverage))

    def _read(self, s: Tensor, context: Tensor | None, e: Tensor) -> Tensor:
        readout = self.options.readout
        if readout.kind == "state":
            return s
        seen = [s] if context is None else [s, context]
        if readout.kind == "deep":
            seen.append(e)
        joined = linear(torch.cat(seen, dim=-1), self.join.weight)
        return F.dropout(tanh(joined), readout.dropout, self.training)

    # -- whole targets at once: training and forced decoding

    def teacher_force(self, memory: Memory, batch: Batch, sampling_prob: float = 0.0) -> TeacherForced:
        """Run targets (B, T) through the decoder, which reads the references.

        With `sampling_prob` it reads its own last output instead of the reference so often (scheduled sampling).
        """
        target = gold(batch).values
        source, state = self.begin(memory, batch)
        tokens = torch.cat([torch.full_like(target[:, :1], BOS), target[:, :-1]], dim=1)
        if sampling_prob > 0:
            return self._force_sampled(tokens, state, source, sampling_prob)
        e = self._embed(tokens)  # (B, T, E)
        if not (self.previous or self.feeding or self.covering):
            return self._force_at_once(e, state, source)
        whole = fast.fused(self, e, state, source)
        if whole is not None:
            return self._force_fused(e, whole, source)
        projected = self.stack.first.project(e.transpose(0, 1))  # (T, B, G)
        steps: list[StepOutput] = []
        for now, word in zip(projected.unbind(0), e.unbind(1), strict=True):
            steps.append(self._advance(word, now, state, source))
            state = steps[-1].state
        return self._gather(steps, e, source)

    def _gather(self, steps: list[StepOutput], e: Tensor, source: DecoderSource) -> TeacherForced:
        """Put steps side by side; the readout of them all is one product, unless each step needed its own."""
        o, weights = _stack([step.o for step in steps]), _stack([step.weights for step in steps])
        s, context = _stack([step.s for step in steps]), _stack([step.context for step in steps])
        assert s is not None
        o = self._read(s, context, e) if o is None else o
        return TeacherForced(
            o, weights, _stack([step.coverage_penalty for step in steps]), self._gates(s, e, weights, source)
        )

    def _gates(self, s: Tensor, e: Tensor, weights: Tensor | None, source: DecoderSource) -> Tensor | None:
        """The gate's logit at all steps (B, T), where copying is on."""
        if self.gate is None or weights is None or source.copies is None:
            return None
        logits: Tensor = self.gate(s, e, weights, source.copies)
        return logits

    def _force_fused(self, e: Tensor, whole: FusedDecoder, source: DecoderSource) -> TeacherForced:
        """All steps in one piece, with back-propagation by hand; what needs no step by step comes after."""
        assert source.keys is not None
        states, attended, read = decode(whole)
        weights = attended.transpose(0, 1)  # (B, T, S)
        penalty = coverage_loss(weights, weights.cumsum(1) - weights) if self.covering else None
        o, s = None if read is None else read.transpose(0, 1), states.transpose(0, 1)
        if o is None:
            o = self._read(s, weights @ source.keys.values, e)
        return TeacherForced(o, weights, penalty, self._gates(s, e, weights, source))

    def _force_at_once(self, e: Tensor, state: DecoderState, source: DecoderSource) -> TeacherForced:
        """Where nothing of a step's outcome is fed into the next, the sequence goes through in one piece."""
        context = weights = None
        x = e
        if source.summary is not None:
            context = source.summary[:, None].expand(-1, e.size(1), -1)
            x = torch.cat([e, context], dim=-1)
        s, _ = self.stack(x, None, state.stack)
        if self.attention is not None:
            assert source.keys is not None
            context, weights = self.attention(s, source.keys)
        return TeacherForced(self._read(s, context, e), weights, None, self._gates(s, e, weights, source))

    def _force_sampled(
        self, tokens: Tensor, state: DecoderState, source: DecoderSource, sampling_prob: float
    ) -> TeacherForced:
        """Scheduled sampling (Bengio et al. 2015): a coin for every token decides what is fed in."""
        steps: list[StepOutput] = []
        words: list[Tensor] = []
        last = tokens[:, 0]
        for t, right in enumerate(tokens.unbind(1)):
            coin = torch.rand(last.shape, device=last.device) < sampling_prob
            e = self._embed(torch.where(coin, last, right) if t else right)
            step = self._advance(e, self.stack.first.project(e), state, source)
            with torch.no_grad():
                last = self._logprobs(step, e, source).argmax(-1)
            steps.append(step)
            words.append(e)
            state = step.state
        return self._gather(steps, torch.stack(words, 1), source)

    def score(
        self,
        memory: Memory,
        batch: Batch,
        loss: LossOptions | None = None,
        carry: Carry | None = None,
        sampling_prob: float = 0.0,
    ) -> Scored:
        """The training loss of targets that end with the end mark, or of a chunk of running text."""
        loss = loss or LossOptions()
        if batch.continues is not None:
            return score_chunk(self, batch, carry, loss.label_smoothing)
        target, forced = gold(batch), self.teacher_force(memory, batch, sampling_prob)
        reference, output, readout = target.values[target.mask], self.output, forced.readout[target.mask]
        if forced.gate is None:
            value, nll = output_loss(readout, output.weight, output.bias, reference, loss.label_smoothing)
        else:
            gate, share = forced.gate[target.mask], self._copied(forced, batch)[target.mask]
            value, nll = copy_loss(readout, output.weight, output.bias, gate, share, reference, loss.label_smoothing)
        terms = {"nll": nll}
        if loss.coverage and forced.coverage_penalty is not None:
            term = forced.coverage_penalty[target.mask].sum()
            terms["coverage"] = term.detach()
            value = value + loss.coverage * term
        if loss.alignment and batch.alignment is not None and forced.weights is not None:
            term = alignment_loss(*self._linked(forced.weights, batch.alignment))
            terms["alignment"] = term.detach()
            value = value + loss.alignment * term
        return Scored(value, target.mask.sum(), terms)

    def _linked(self, weights: Tensor, gold: Tensor) -> tuple[Tensor, Tensor]:
        """Attention (B, T, S) and gold links side by side: a word's own row, or the next, which has read it."""
        context = self.options.context
        late = isinstance(context, AttentionContext) and context.links == "reading"
        return (weights[:, 1:], gold[:, :-1]) if late else (weights, gold)

    def reference_logprobs(self, memory: Memory, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Log probabilities (B, T) of the targets under teacher forcing, zero on padding, and attention (B, T, S)."""
        forced, target = self.teacher_force(memory, batch), gold(batch)
        beyond = target.values >= self.output.out_features
        written = torch.log_softmax(self.output(forced.readout), dim=-1)
        logp = written.gather(2, target.values.masked_fill(beyond, 0)[..., None]).squeeze(2)
        if forced.gate is not None:
            logp = mixed_logprob(logp, forced.gate, self._copied(forced, batch), beyond)
        return logp * target.mask, forced.weights

    def _copied(self, forced: TeacherForced, batch: Batch) -> Tensor:
        """How much of the attention (B, T) is on places that hold the reference token."""
        held = batch.copyable
        assert held is not None
        assert forced.weights is not None
        return copied(forced.weights, held, gold(batch).values)

    # -- prediction

    @classmethod
    def predict(cls, members: Sequence[Member], request: SearchRequest) -> list[list[Hypothesis]]:
        """Search for the best outputs.

        >>> from windlass.decoding.options import Beam
        >>> head = TextHead(TextHeadOptions(size=8), vocabulary=10, memory_size=6, final_sizes=()).eval()
        >>> memory = Memory(torch.randn(2, 5, 6), torch.ones(2, 5) > 0, torch.randn(2, 6))
        >>> [len(row) for row in TextHead.predict([Member(head, memory)], SearchRequest(Beam(size=3), nbest=2))]
        [2, 2]
        """
        return search(members, request)

    @torch.no_grad()
    def force(self, memory: Memory, batch: Batch) -> list[Hypothesis]:
        """Score given texts, with the attention on the way."""
        return forced_hypotheses(gold(batch), *self.reference_logprobs(memory, batch))


def _attention(options: TextHeadOptions, memory_size: int, words_size: int) -> Attention | Levels | None:
    context = options.context
    if isinstance(context, HierarchicalContext):
        return Levels(context.score, context.within, options.size, memory_size, words_size)
    return Attention(context.score, options.size, memory_size) if isinstance(context, AttentionContext) else None


def _stack(parts: list[Tensor | None]) -> Tensor | None:
    """Steps (B, ...) side by side as (B, T, ...), or None where they left none."""
    found = [part for part in parts if part is not None]
    return torch.stack(found, 1) if found else None
