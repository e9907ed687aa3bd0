"""The recurrent decoder of text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, final

import torch
from pydantic import Field
from torch import Tensor, nn

from windlass.core.errors import RecipeError
from windlass.core.fitting import Gives, Needs, Refuses, Term
from windlass.core.marks import BOS
from windlass.core.records import Batch, Carry, CellState, Memory, Record
from windlass.heads.base import Wiring
from windlass.heads.copying import CopySource, Gate
from windlass.heads.fast.fused import fused_decoder
from windlass.heads.fast.inference import InferenceDecoder
from windlass.heads.initial_state import InitialState
from windlass.heads.options import (
    AttentionContext,
    ContextOptions,
    HierarchicalContext,
    ReadoutOptions,
    StateReadout,
    copying_terms,
)
from windlass.heads.running import chunk_inputs
from windlass.heads.text import Step, TextHead, stack_steps
from windlass.nn import fast
from windlass.nn.attention import Attention, Keys
from windlass.nn.dropout import drop
from windlass.nn.embedding import Embedding, EmbeddingOptions, Learned
from windlass.nn.fast.activation import tanh
from windlass.nn.fast.decoder import FusedDecoder, decode
from windlass.nn.fast.onednn import linear
from windlass.nn.hierarchical_attention import HierarchicalAttention
from windlass.nn.product import Product
from windlass.nn.recurrence import Stack, StackOptions, StackState


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

    @property
    def places(self) -> Tensor | None:
        """The real places of the attention (B, S)."""
        return None if self.keys is None else self.keys.mask


@dataclass(frozen=True)
class DecoderState(Record):
    """What changes from step to step, with a row for each hypothesis.

    >>> DecoderState(StackState(((torch.zeros(2, 3),),)), None, None).stack.top.shape
    torch.Size([2, 3])
    """

    stack: StackState
    fed: Tensor | None  # (N, R) the last readout o, with input feeding
    coverage: Tensor | None  # (N, S) the attention that each place has received so far


@final
class RecurrentDecoder(TextHead):
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

    >>> head = RecurrentDecoder(RecurrentDecoder.Options(size=8), vocabulary=10, memory_size=6, final_sizes=())
    >>> memory = Memory(torch.randn(2, 5, 6), torch.ones(2, 5) > 0, torch.randn(2, 6))
    >>> source, state = head.begin(memory)
    >>> logprobs, state, weights = head.step(torch.tensor([BOS, BOS]), state, source)
    >>> logprobs.shape, weights.shape
    (torch.Size([2, 10]), torch.Size([2, 5]))
    """

    class Options(StackOptions):
        """A recurrent decoder."""

        kind: Literal["recurrent"] = "recurrent"
        embedding: EmbeddingOptions = Field(Learned(), description="the embedding of the last output")
        start: Literal["zeros", "learned", "summary", "final"] = Field(
            "zeros", description="the initial state: zeros, learned, the encoder's summary, or its last states (final)"
        )
        context: ContextOptions = Field(
            AttentionContext(), description="what the decoder sees of the memory at every step"
        )
        feedback: bool = Field(True, description="feed the last output into the next step")
        readout: ReadoutOptions = Field(StateReadout(), description="the input of the output layer")
        copying: bool = Field(
            False, description="copy tokens from the source, also out-of-vocabulary ones (pointer-generator)"
        )

        @property
        def readout_size(self) -> int:
            """The size of the readout: R."""
            return int(getattr(self.readout, "size", self.size))

        @property
        def aligns(self) -> bool:
            """Whether attention over tokens aligns them with those of the target."""
            return self.context.aligns

        @property
        def aligns_late(self) -> bool:
            """Whether the step after a word aligns it."""
            return self.context.aligns_late

        def build(self, wiring: Wiring) -> RecurrentDecoder:
            """Build the decoder."""
            return RecurrentDecoder(
                *(self, wiring.outputs, wiring.memory_size, wiring.final_sizes),
                *(wiring.embedding, wiring.tied, wiring.part_sizes.get("words", 0), wiring.prefix),
            )

        def _terms(self, at: str) -> Iterator[Term]:
            if not self.feedback and self.embedding != Learned():
                yield Needs("model.encoder prefix", f"{at}.embedding is not used without feedback: leave it out")
            yield Needs("model.head writing", "model.head: <model.head> has no decoder: leave model.decoder out")
            yield Refuses(
                f"{at}.embedding.more",
                f"{at}.embedding.more: a word that the training data lacks is never written: leave it out",
            )
            yield Gives(f"{at} readout size", self.readout_size)
            yield Gives(f"{at}.cell state", self.cell.stateful)
            if self.start in ("summary", "final"):
                yield Needs(
                    f"{at}.cell state",
                    f"{at}.cell: <{at}.cell> has no state that start: {self.start} could set: "
                    "use start: zeros or learned",
                )
            if self.start == "summary":
                yield Needs(
                    "model.encoder summary",
                    f"with model.encoder: <model.encoder> there is no memory: set {at}.start: zeros or learned",
                )
            if self.start == "final":
                yield Needs(
                    "model.encoder final states",
                    f"model.encoder: <model.encoder> leaves no last states: set {at}.start: summary, zeros or learned",
                )
            if self.copying:
                yield from copying_terms(at)

    options: Options

    def __init__(
        self,
        options: Options,
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
        if tie:
            self.tie_output()

    @property
    def attentions(self) -> tuple[Attention | HierarchicalAttention, ...]:
        """The attention over the memory, if there is any."""
        return () if self.attention is None else (self.attention,)

    # -- fast paths

    def fused(self, e: Tensor, state: DecoderState, source: DecoderSource) -> FusedDecoder | None:
        """The decoder over embedded tokens e (B, T, E) in one piece, if its cells and attention offer it."""
        return fused_decoder(self, e, state, source)

    def inference(self, int8: bool = False) -> InferenceDecoder:
        """The decoder with packed weights, for a search."""
        return InferenceDecoder(self, int8)

    # -- step by step: the decoder of a search

    def reads(self, tokens: Tensor) -> Tensor:
        """What a step reads after these outputs: without feedback, the separator at every step."""
        return super().reads(tokens) if self.options.feedback else torch.full_like(tokens, BOS)

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

    def advance(self, e: Tensor, state: DecoderState, source: DecoderSource) -> tuple[Step, DecoderState]:
        """One step, with embedded tokens e (N, E)."""
        return self._advance(e, self.stack.first.project(e), state, source)

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
    ) -> tuple[Step, DecoderState]:
        """One step of the decoder, with an embedded token (N, E) and its projection (N, G)."""
        context = weights = o = None
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
            o = self._join(s, context, e)
        coverage = state.coverage
        if coverage is not None and weights is not None:
            coverage = coverage + weights
        return Step(s, context, o, weights), DecoderState(stack, o, coverage)

    def _join(self, s: Tensor, context: Tensor | None, e: Tensor) -> Tensor:
        """The readout o (..., R) of states (..., H), contexts (..., D) and tokens (..., E)."""
        readout = self.options.readout
        if readout.kind == "state":
            return s
        inputs = [s] if context is None else [s, context]
        if readout.kind == "deep":
            inputs.append(e)
        o = tanh(linear(torch.cat(inputs, dim=-1), self.join.weight))
        return drop(o, readout.dropout, self.training)

    def readout(self, step: Step, e: Tensor) -> Tensor:
        """The readouts of steps: those that were fed back, or all at once."""
        return self._join(step.s, step.context, e) if step.o is None else step.o

    # -- teacher forcing: training and forced decoding

    def unroll(self, e: Tensor, state: DecoderState, source: DecoderSource, weights: bool) -> Step:
        """All steps: in parallel, fused or one by one."""
        if not (self.queries_previous or self.input_feeding or self.uses_coverage):
            return self._unroll_parallel(e, state, source)
        fused = fast.fused(self, e, state, source)
        if fused is not None:
            return self._unroll_fused(fused, source)
        projected = self.stack.first.project(e.transpose(0, 1))  # (T, B, G)
        steps: list[Step] = []
        for x_t, e_t in zip(projected.unbind(0), e.unbind(1), strict=True):
            step, state = self._advance(e_t, x_t, state, source)
            steps.append(step)
        return stack_steps(steps)

    def _unroll_fused(self, fused: FusedDecoder, source: DecoderSource) -> Step:
        """All steps in one piece, with gradients derived by hand."""
        assert source.keys is not None
        states, attention, readouts = decode(fused)
        weights = attention.transpose(0, 1)  # (B, T, S)
        o = None if readouts is None else readouts.transpose(0, 1)
        context = weights @ source.keys.values if o is None else None
        return Step(states.transpose(0, 1), context, o, weights)

    def _unroll_parallel(self, e: Tensor, state: DecoderState, source: DecoderSource) -> Step:
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
        return Step(s, context, None, weights)

    # -- running text

    def run_chunk(self, batch: Batch, carry: Carry | None) -> tuple[Tensor, Carry]:
        """Run over a chunk; rows that continue the last batch start from its last states.

        >>> from windlass.core.records import Padded
        >>> options = RecurrentDecoder.Options(size=8, context="none")
        >>> head = RecurrentDecoder(options, vocabulary=10, memory_size=0, final_sizes=())
        >>> readout, carry = head.run_chunk(Batch({}, Padded.of([[5, 6, 7], [8, 9, 4]]), torch.arange(2)), None)
        >>> readout.shape, carry.layers[0][0].shape
        (torch.Size([2, 3, 8]), torch.Size([2, 8]))
        """
        if self.embedding is None or self.options.context.kind != "none":
            raise RecipeError("running text needs a decoder with feedback: true and context: none")
        tokens = chunk_inputs(batch)
        state = self.stack.begin(self.start(Memory.empty(batch.size, tokens.values.device)))
        if carry is not None and batch.continues is not None:
            pairs = zip(carry.layers, state.layers, strict=True)
            state = replace(state, layers=tuple(_where(batch.continues[:, None], *pair) for pair in pairs))
        e = self.embedding(tokens.values)  # (B, T, E)
        s, layers = self.stack(e, tokens.mask, state)
        return self.readout(Step(s), e), Carry(layers)


def _where(continues: Tensor, carried: CellState, initial: CellState) -> CellState:
    return tuple(torch.where(continues, c, i) for c, i in zip(carried, initial, strict=True))


def _attention(
    options: RecurrentDecoder.Options, memory_size: int, words_size: int
) -> Attention | HierarchicalAttention | None:
    context = options.context
    if isinstance(context, HierarchicalContext):
        return HierarchicalAttention(context.score, context.within, options.size, memory_size, words_size)
    return Attention(context.score, options.size, memory_size) if isinstance(context, AttentionContext) else None
