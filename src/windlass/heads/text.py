"""The text head: a recurrent decoder, p(y | memory) = product over t of p(y_t | y_1 .. y_{t-1}, memory)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from windlass.core.marks import BOS
from windlass.core.records import Memory, Padded, Record, Scored
from windlass.heads.copying import Copies, Gate, in_vocabulary
from windlass.heads.fused import fused
from windlass.heads.options import AttentionContext, HierarchicalContext, TextHeadOptions
from windlass.heads.quick import Quick, ready
from windlass.heads.start import Start
from windlass.nn.attention import Attention, Keys
from windlass.nn.copying import copied, copy_loss, mixed_logprob
from windlass.nn.embedding import Embedding
from windlass.nn.fused import tanh
from windlass.nn.fused_decoder import Decoder, decode
from windlass.nn.levels import Levels
from windlass.nn.loss import alignment_loss, coverage_loss, output_loss
from windlass.nn.packed import Stamp
from windlass.nn.product import Product, linear
from windlass.nn.recurrence import Stack, StackState


@dataclass(frozen=True)
class Source(Record):
    """What stays the same while a row is decoded; shared by all hypotheses of the row.

    >>> Source(None, None, None).keys is None
    True
    """

    keys: Keys | None  # for attention
    summary: Tensor | None  # (B, D) where the summary is seen at every step
    constant: Tensor | None  # (B, G) its share of the first layer's input, projected once
    entering: tuple[Product, ...] = ()  # with the pieces of the first layer's input: token, context, fed
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
class Moved(Record):
    """What one step of the decoder leaves behind."""

    s: Tensor  # (N, H) the state
    context: Tensor | None  # (N, D)
    o: Tensor | None  # (N, R) the readout, where the next step needs it
    weights: Tensor | None  # (N, S)
    again: Tensor | None  # (N,) coverage loss
    state: DecoderState


@dataclass(frozen=True)
class Taught(Record):
    """A target run through the decoder with the right tokens fed in.

    >>> Taught(torch.zeros(2, 3, 4), None, None).readout.shape
    torch.Size([2, 3, 4])
    """

    readout: Tensor  # (B, T, R) what the output layer sees
    weights: Tensor | None  # (B, T, S)
    again: Tensor | None  # (B, T) coverage loss
    gate: Tensor | None = None  # (B, T) where copying is on: the logit of writing


class TextHead(nn.Module):
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
    ):
        super().__init__()
        self._ready: dict[bool, tuple[Stamp, Quick]] = {}
        self.options = options
        self.embedding = (embedding or options.embedding.build(vocabulary)) if options.feedback else None
        self.embedded = self.embedding.size if self.embedding else 0  # E
        context = options.context
        self.attention = _attention(options, memory_size, words_size)
        asks = context if isinstance(context, AttentionContext | HierarchicalContext) else None
        self.previous = asks is not None and asks.query == "previous"
        self.feeding = asks is not None and asks.input_feeding
        self.covering = self.attention is not None and self.attention.covering
        self.context_size = self.attention.size if self.attention else memory_size if context.kind == "summary" else 0
        self.readout_size = options.size if options.readout.kind == "state" else options.readout.size
        self.widths = (  # of the pieces of the first layer's input
            self.embedded,
            self.context_size if self.previous or context.kind == "summary" else 0,
            self.readout_size if self.feeding else 0,
        )
        self.stack = Stack(sum(self.widths), options)
        self.start = Start(
            options.start, self.stack.first.parts, options.layers, options.size, memory_size, final_sizes
        )
        if options.readout.kind != "state":
            seen = options.size + self.context_size + (self.embedded if options.readout.kind == "deep" else 0)
            self.join = nn.Linear(seen, self.readout_size, bias=False)
        self.output = nn.Linear(self.readout_size, vocabulary)
        self.gate = Gate(vocabulary, options.size, self.context_size, self.embedded) if options.copying else None
        if tie and self.embedding is not None:
            assert isinstance(self.embedding.table, nn.Parameter)
            self.embedding.shrink()
            self.output.weight = self.embedding.table

    # -- one step at a time: what search sees

    def ready(self, int8: bool = False) -> Quick:
        """The same steps as a search takes them: quicker, and in 8 bits if told; for inference only."""
        return ready(self, self._ready, int8)

    def __getstate__(self) -> dict[str, Any]:
        """What a copy is made of: all but what was made ready."""
        return self.__dict__ | {"_ready": {}}

    def begin(self, memory: Memory) -> tuple[Source, DecoderState]:
        """Make a memory ready, and stand before its first target token."""
        keys = self.attention.prepare(memory) if self.attention else None
        seen = memory.summary if self.options.context.kind == "summary" else None
        entering = tuple(self.stack.first.pieces(*self.widths))
        constant = None if seen is None else entering[1](seen)
        layers = self.start(memory)
        B = memory.summary.size(0)
        begun = self.stack.begin(layers)
        if memory.prefix is not None and self.embedding is not None:
            _, layers = self.stack(self.embedding(memory.prefix.values), memory.prefix.mask, begun)
            begun = replace(begun, layers=layers)  # the same sequence goes on, with the same locked dropout
        like = layers[0][0]
        fed = like.new_zeros(B, self.readout_size) if self.feeding else None
        coverage = like.new_zeros(keys.mask.shape) if self.covering and keys else None
        copies = self.gate.prepare(memory.copy, keys.values, keys.mask) if self.gate and keys else None
        return Source(keys, seen, constant, entering, copies), DecoderState(begun, fed, coverage)

    def step(self, tokens: Tensor, state: DecoderState, source: Source) -> tuple[Tensor, DecoderState, Tensor | None]:
        """Feed in the last tokens (N,); return log probabilities (N, V), the new state and attention (N, S).

        Where copying is on, they are (N, V + K), with K ids more for what sources hold beyond the vocabulary.
        """
        e = self._embed(tokens)
        moved = self._advance(e, self.stack.first.project(e), state, source)
        return self._tell(moved, e, source), moved.state, moved.weights

    def _tell(self, moved: Moved, e: Tensor, source: Source) -> Tensor:
        """The log probabilities after a step."""
        logits = self.output(self._read(moved.s, moved.context, e) if moved.o is None else moved.o)
        if self.gate is None or moved.weights is None or source.copies is None:
            return torch.log_softmax(logits, dim=-1)
        return self.gate.mix(logits, moved.s, e, moved.weights, source.copies)

    def _embed(self, tokens: Tensor) -> Tensor:
        if self.embedding is not None:
            known = tokens if self.gate is None else in_vocabulary(tokens, self.output.out_features)
            vectors: Tensor = self.embedding(known)
            return vectors
        return self.output.weight.new_zeros(*tokens.shape, 0)  # nothing is fed back

    def _attend(self, query: Tensor, state: DecoderState, source: Source) -> tuple[Tensor, Tensor]:
        """Attend for every hypothesis: queries (N, Q) -> contexts (N, D), weights (N, S)."""
        assert self.attention is not None
        assert source.keys is not None
        B = source.keys.mask.size(0)
        coverage = None if state.coverage is None else state.coverage.view(B, -1, state.coverage.size(1))
        context, weights = self.attention(query.view(B, -1, query.size(1)), source.keys, coverage)
        return context.flatten(0, 1), weights.flatten(0, 1)

    def _advance(self, e: Tensor, projected: Tensor, state: DecoderState, source: Source) -> Moved:
        """One step of the decoder, with an embedded token (N, E) and its projection (N, G)."""
        context = weights = again = o = None
        if source.constant is not None and source.summary is not None:
            hypotheses = projected.size(0) // source.constant.size(0)
            projected = projected + source.constant.repeat_interleave(hypotheses, dim=0)
            context = source.summary.repeat_interleave(hypotheses, dim=0)
        if self.previous:
            context, weights = self._attend(state.stack.top, state, source)
            projected = source.entering[1](context, projected)
        if state.fed is not None:
            projected = source.entering[2](state.fed, projected)
        s, stack = self.stack.step(projected, state.stack)
        if self.attention is not None and not self.previous:
            context, weights = self._attend(s, state, source)
        if self.feeding:
            o = self._read(s, context, e)
        coverage = state.coverage
        if coverage is not None and weights is not None:
            again = coverage_loss(weights, coverage)
            coverage = coverage + weights
        return Moved(s, context, o, weights, again, DecoderState(stack, o, coverage))

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

    def teach(self, memory: Memory, target: Tensor, sampling_prob: float = 0.0) -> Taught:
        """Run targets (B, T) through the decoder, fed gold tokens, or its own with `sampling_prob`."""
        source, state = self.begin(memory)
        tokens = torch.cat([torch.full_like(target[:, :1], BOS), target[:, :-1]], dim=1)
        if sampling_prob > 0:
            return self._teach_sampled(tokens, state, source, sampling_prob)
        e = self._embed(tokens)  # (B, T, E)
        if not (self.previous or self.feeding or self.covering):
            return self._teach_at_once(e, state, source)
        whole = fused(self, e, state, source)
        if whole is not None:
            return self._teach_fused(e, whole, source)
        projected = self.stack.first.project(e.transpose(0, 1))  # (T, B, G)
        steps: list[Moved] = []
        for now, word in zip(projected.unbind(0), e.unbind(1), strict=True):
            steps.append(self._advance(word, now, state, source))
            state = steps[-1].state
        return self._gather(steps, e, source)

    def _gather(self, steps: list[Moved], e: Tensor, source: Source) -> Taught:
        """Put steps side by side; the readout of them all is one product, unless each step needed its own."""
        o, weights = _stack([m.o for m in steps]), _stack([m.weights for m in steps])
        s, context = _stack([m.s for m in steps]), _stack([m.context for m in steps])
        assert s is not None
        o = self._read(s, context, e) if o is None else o
        return Taught(o, weights, _stack([m.again for m in steps]), self._gates(s, e, weights, source))

    def _gates(self, s: Tensor, e: Tensor, weights: Tensor | None, source: Source) -> Tensor | None:
        """The gate's logit at all steps (B, T), where copying is on."""
        if self.gate is None or weights is None or source.copies is None:
            return None
        logits: Tensor = self.gate(s, e, weights, source.copies)
        return logits

    def _teach_fused(self, e: Tensor, whole: Decoder, source: Source) -> Taught:
        """All steps in one piece, with back-propagation by hand; what needs no step by step comes after."""
        assert source.keys is not None
        states, attended, read = decode(whole)
        weights = attended.transpose(0, 1)  # (B, T, S)
        again = coverage_loss(weights, weights.cumsum(1) - weights) if self.covering else None
        o, s = None if read is None else read.transpose(0, 1), states.transpose(0, 1)
        if o is None:
            o = self._read(s, weights @ source.keys.values, e)
        return Taught(o, weights, again, self._gates(s, e, weights, source))

    def _teach_at_once(self, e: Tensor, state: DecoderState, source: Source) -> Taught:
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
        return Taught(self._read(s, context, e), weights, None, self._gates(s, e, weights, source))

    def _teach_sampled(self, tokens: Tensor, state: DecoderState, source: Source, sampling_prob: float) -> Taught:
        """Scheduled sampling (Bengio et al. 2015): a coin for every token decides what is fed in."""
        steps: list[Moved] = []
        words: list[Tensor] = []
        last = tokens[:, 0]
        for t, right in enumerate(tokens.unbind(1)):
            coin = torch.rand(last.shape, device=last.device) < sampling_prob
            e = self._embed(torch.where(coin, last, right) if t else right)
            moved = self._advance(e, self.stack.first.project(e), state, source)
            with torch.no_grad():
                last = self._tell(moved, e, source).argmax(-1)
            steps.append(moved)
            words.append(e)
            state = moved.state
        return self._gather(steps, torch.stack(words, 1), source)

    def score(
        self,
        memory: Memory,
        target: Padded,
        smoothing: float = 0.0,
        coverage: float = 0.0,
        alignment: Tensor | None = None,
        alignment_weight: float = 0.0,
        sampling_prob: float = 0.0,
    ) -> Scored:
        """The training loss of targets that end with the end mark."""
        taught = self.teach(memory, target.values, sampling_prob)
        gold, output, seen = target.values[target.mask], self.output, taught.readout[target.mask]
        if taught.gate is None:
            loss, nll = output_loss(seen, output.weight, output.bias, gold, smoothing)
        else:
            gate, share = taught.gate[target.mask], self._copied(taught, memory, target)[target.mask]
            loss, nll = copy_loss(seen, output.weight, output.bias, gate, share, gold, smoothing)
        terms = {"nll": nll}
        if coverage and taught.again is not None:
            term = taught.again[target.mask].sum()
            terms["coverage"] = term.detach()
            loss = loss + coverage * term
        if alignment_weight and alignment is not None and taught.weights is not None:
            term = alignment_loss(*self._linked(taught.weights, alignment))
            terms["alignment"] = term.detach()
            loss = loss + alignment_weight * term
        return Scored(loss, target.mask.sum(), terms)

    def _linked(self, weights: Tensor, gold: Tensor) -> tuple[Tensor, Tensor]:
        """Attention (B, T, S) and gold links side by side: a word's own row, or the next, which has read it."""
        context = self.options.context
        late = isinstance(context, AttentionContext) and context.links == "reading"
        return (weights[:, 1:], gold[:, :-1]) if late else (weights, gold)

    def force(self, memory: Memory, target: Padded) -> tuple[Tensor, Tensor | None]:
        """Log probabilities (B, T) of given targets, zero on padding, and attention (B, T, S) on the way."""
        taught, gold = self.teach(memory, target.values), target.values
        beyond = gold >= self.output.out_features
        written = torch.log_softmax(self.output(taught.readout), dim=-1)
        logp = written.gather(2, gold.masked_fill(beyond, 0)[..., None]).squeeze(2)
        if taught.gate is not None:
            logp = mixed_logprob(logp, taught.gate, self._copied(taught, memory, target), beyond)
        return logp * target.mask, taught.weights

    def _copied(self, taught: Taught, memory: Memory, target: Padded) -> Tensor:
        """How much of the attention (B, T) is on places that hold the right token."""
        assert memory.copy is not None
        assert taught.weights is not None
        return copied(taught.weights, memory.copy, target.values)


def _attention(options: TextHeadOptions, memory_size: int, words_size: int) -> Attention | Levels | None:
    context = options.context
    if isinstance(context, HierarchicalContext):
        return Levels(context.score, context.within, options.size, memory_size, words_size)
    return Attention(context.score, options.size, memory_size) if isinstance(context, AttentionContext) else None


def _stack(parts: list[Tensor | None]) -> Tensor | None:
    """Steps (B, ...) side by side as (B, T, ...), or None where they left none."""
    found = [part for part in parts if part is not None]
    return torch.stack(found, 1) if found else None
