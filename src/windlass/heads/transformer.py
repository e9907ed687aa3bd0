"""The transformer decoder of text (Vaswani et al. 2017)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Self, final

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from windlass.core.errors import RecipeError
from windlass.core.fitting import Gives, Needs, Refuses, Term
from windlass.core.records import Batch, Carry, CellState, Memory, Record
from windlass.heads.base import Wiring, gold
from windlass.heads.copying import CopySource, Gate
from windlass.heads.options import copying_terms
from windlass.heads.running import chunk_inputs
from windlass.heads.text import Step, TextHead, _TeacherForced
from windlass.nn.dropout import drop
from windlass.nn.embedding import Embedding, EmbeddingOptions, Learned
from windlass.nn.fast.interface import laid_out
from windlass.nn.fast.packed import pack_linear_layers
from windlass.nn.linear import Linear
from windlass.nn.positions import LearnedPositions, Positioned, Rotation, sinusoids_at
from windlass.nn.selfattention import TransformerOptions
from windlass.nn.transformer import Cache, CrossAttention, DecoderLayer


@dataclass(frozen=True)
class TransformerSource(Record):
    """What the decoder reads at every step, shared by all hypotheses of a row.

    >>> TransformerSource((), None, None).places is None
    True
    """

    memory: tuple[CellState, ...]  # (B, heads, S, d) the memory's keys and values for every layer
    real: Tensor | None  # (B, S) None if every place is
    places: Tensor | None  # (B, S) the real places; None without a memory
    copies: CopySource | None = None  # with copying


@final
class TransformerDecoder(TextHead):
    """A transformer decoder: layers of causal self-attention, attention over the memory and a feed-forward network.

    x_t = e(y_{t-1}) + position_t        x = layers(x, memory)        p(y_t) = softmax(V x_t + b)

    norm after:     x = norm(x + f(x)) for every sublayer f                            (Vaswani et al. 2017)
    norm before:    x = x + f(norm(x)), and a norm after the last layer                (Xiong et al. 2020)
    rotary:         no position_t: queries and keys are turned by their place          (Su et al. 2021)
    window:         a token sees itself and as many before it: a context that moves along a running text
    context none:   no attention over a memory: a language model
    copying:        p(y_t) = g_t softmax(V x_t + b) + (1 - g_t) (attention on places that hold y_t)

    Attention weights are those of the last layer, averaged over its heads. A search keeps the keys and values of every
    layer in its state.

    >>> head = TransformerDecoder(TransformerDecoder.Options(size=8, heads=2), vocabulary=10, memory_size=6)
    >>> memory = Memory(torch.randn(2, 5, 6), torch.ones(2, 5) > 0, torch.randn(2, 6))
    >>> source, state = head.begin(memory)
    >>> logprobs, state, weights = head.step(torch.tensor([2, 2]), state, source)
    >>> logprobs.shape, weights.shape, state.width
    (torch.Size([2, 10]), torch.Size([2, 5]), 1)
    """

    class Options(TransformerOptions):
        """A transformer decoder."""

        kind: Literal["transformer"] = "transformer"
        embedding: EmbeddingOptions = Field(Learned(), description="the embedding of the last output")
        window: int | None = Field(
            None, ge=1, description="how many tokens back the self-attention sees; none: all; for running text"
        )
        context: Literal["attention", "none"] = Field(
            "attention", description="what it sees of the memory; none: nothing, for a language model"
        )
        copying: bool = Field(
            False, description="copy tokens from the source, also out-of-vocabulary ones (pointer-generator)"
        )

        @property
        def aligns(self) -> bool:
            """Whether attention over tokens aligns them with those of the target."""
            return self.context == "attention"

        @property
        def aligns_late(self) -> bool:
            """Whether the step after a word aligns it: never."""
            return False

        def build(self, wiring: Wiring) -> TransformerDecoder:
            """Build the decoder."""
            return TransformerDecoder(
                self, wiring.outputs, wiring.memory_size, wiring.embedding, wiring.tied, wiring.prefix
            )

        @model_validator(mode="after")
        def _fits(self) -> TransformerDecoder.Options:
            if self.window is not None and self.positions in ("sinusoidal", "learned"):
                raise ValueError(
                    f"a window moves on without end, which positions: {self.positions} cannot: use rotary, or, for "
                    "lines, window: null"
                )
            return self

        @classmethod
        def tiny(cls) -> tuple[Self, ...]:
            """Both places of the norms, every kind of position, and a window."""
            after = cls.small(heads=3, hidden=5, norm="after", positions="learned")
            turned = cls.small(heads=1, hidden=5, layers=1, positions="rotary")
            narrow = cls.small(heads=2, hidden=5, positions="none", window=2)
            return cls.small(heads=2, hidden=5), after, turned, narrow

        def _terms(self, at: str) -> Iterator[Term]:
            yield Needs("model.head writing", "model.head: <model.head> has no decoder: leave model.decoder out")
            yield Refuses(
                f"{at}.embedding.more",
                f"{at}.embedding.more: a word that the training data lacks is never written: leave it out",
            )
            yield Gives(f"{at} readout size", self.size)
            yield Gives(f"{at}.feedback")
            if self.context == "attention":
                yield Gives(f"{at}.context weights")
                yield Gives(f"{at}.context links")
                yield Needs(
                    "model.encoder states",
                    f"with model.encoder: <model.encoder> there is no memory: set {at}.context: none",
                )
            if self.window is None:
                yield Refuses(
                    "train.chunk",
                    f"running text (train.chunk) has no end: set {at}.window, how many tokens back {at} sees, "
                    f"and {at}.positions: rotary",
                )
            if self.copying:
                yield from copying_terms(
                    at, f"with model.encoder: <model.encoder> set {at}.copying: false, or {at}.kind: recurrent"
                )

    options: Options
    owns_output = True  # log probabilities are new tensors at every step: a search may overwrite them

    def __init__(
        self,
        options: Options,
        vocabulary: int,
        memory_size: int,
        embedding: Embedding | None = None,
        tie: bool = False,
        prefix: str | None = None,
    ):
        super().__init__()
        self.options, self.prefix = options, prefix
        self.embedding: Embedding = embedding or options.embedding.build(vocabulary)
        width, size = self.embedding.size, options.size
        self.fit = Linear(width, size, bias=False) if width != size else nn.Identity()
        self.positions: LearnedPositions | None = None
        if options.positions == "learned":
            what: Positioned = "target" if prefix is None else "source with its target"
            self.positions = LearnedPositions(options.longest or 512, size, what, "model.decoder")
        seen = memory_size if options.context == "attention" else 0
        self.layers: list[DecoderLayer] = nn.ModuleList(  # type: ignore[assignment]
            DecoderLayer(
                *(size, options.heads, options.hidden, seen, options.norm, options.dropout, options.attention_dropout)
            )
            for _ in range(options.layers)
        )
        self.last = nn.LayerNorm(size) if options.norm == "before" else nn.Identity()
        self.output = nn.Linear(size, vocabulary)
        self.gate = Gate(vocabulary, size, memory_size, width) if options.copying else None
        if tie:
            self.tie_output()

    @property
    def attentions(self) -> tuple[CrossAttention, ...]:
        """The attention over the memory, of every layer; none for a language model."""
        return tuple(layer.cross for layer in self.layers if layer.cross is not None)

    def most_steps(self, batch: Batch | None) -> Tensor | int | None:
        """As many as there are learned positions, without those of the prefix that is read first."""
        if self.positions is None:
            return None
        longest = self.positions.table.size(0)
        return longest if batch is None or self.prefix is None else longest - batch.inputs[self.prefix].lengths

    def too_long(self, batch: Batch, places: Tensor) -> Tensor:
        """Which targets (B,) have more tokens than there are positions."""
        most = self.most_steps(batch)
        return super().too_long(batch, places) if most is None else gold(batch).lengths > most

    def teacher_force(
        self, memory: Memory, batch: Batch, sampling_prob: float = 0.0, weights: bool = True
    ) -> _TeacherForced:
        """Run the decoder over reference targets (B, T), each of which counts its places on from its own prefix."""
        if self.positions is not None and self.prefix is not None:
            self.positions.check(int((batch.inputs[self.prefix].lengths + gold(batch).lengths).max()))
        return super().teacher_force(memory, batch, sampling_prob, weights)

    def inference(self, int8: bool = False) -> TransformerDecoder:
        """The decoder with packed weights, for a search."""
        return laid_out(self, int8, lambda: pack_linear_layers(self, int8))

    def begin(self, memory: Memory, batch: Batch | None = None) -> tuple[TransformerSource, Cache]:
        """Prepare a memory; return it with the cache before the first target token."""
        source = TransformerSource((), None, None)
        if self.options.context == "attention":
            prepared = tuple(attention.prepare(memory.states) for attention in self.attentions)
            real = None if bool(memory.mask.all()) else memory.mask
            copies = None
            if self.gate is not None:
                copies = self.gate.prepare(None if batch is None else batch.copyable, memory.states, memory.mask)
            source = TransformerSource(prepared, real, memory.mask, copies)
        cache = self._nothing_read(memory.mask.size(0))
        if batch is not None and self.prefix is not None:
            prefix = batch.inputs[self.prefix]
            _, cache, _ = self._run(self.embed(prefix.values), cache, source, False, prefix.mask)
        return source, cache

    def _nothing_read(self, rows: int) -> Cache:
        options = self.options
        return Cache.empty(options.layers, rows, options.heads, options.size // options.heads, self.output.weight)

    def _run(
        self, e: Tensor, cache: Cache, source: TransformerSource, look: bool, mask: Tensor | None = None
    ) -> tuple[Tensor, Cache, Tensor | None]:
        """Read the next tokens (N, T, E): states (N, T, H), the cache with them, and attention (N, T, S) if one looks.

        Without a mask (N, T), all of them are real.
        """
        options, T = self.options, e.size(1)
        x, places, turn = self.fit(e), cache.places(T, e.device), None
        if self.positions is not None:
            x = x + self.positions.at(places, mask)
        elif options.positions == "sinusoidal":
            x = x + sinusoids_at(places, options.size, x)
        elif options.positions == "rotary":
            turn = Rotation.at(places if places.dim() == 1 else places[:, None], options.size // options.heads, x)
        x = drop(x, options.dropout, self.training)
        view, kept, weights = cache.view(T, options.window, e.device), [], None
        for number, layer in enumerate(self.layers):
            memory = source.memory[number] if source.memory else None
            seen = look and number == options.layers - 1
            x, cached, weights = layer(x, cache.layers[number], view, turn, memory, source.real, seen)
            kept.append(cached)
        if weights is not None:
            weights = weights.mean(1).view(e.size(0), T, -1)
        return self.last(x), cache.after(tuple(kept), mask, options.window), weights

    def advance(self, e: Tensor, state: Cache, source: TransformerSource) -> tuple[Step, Cache]:
        """One step, with embedded tokens e (N, E)."""
        x, state, weights = self._run(e[:, None], state, source, look=True)
        return Step(x[:, 0], weights=None if weights is None else weights[:, 0]), state

    def unroll(self, e: Tensor, state: Cache, source: TransformerSource, weights: bool) -> Step:
        """All steps in one pass."""
        x, _, seen = self._run(e, state, source, look=weights)
        return Step(x, weights=seen)

    def readout(self, step: Step, e: Tensor) -> Tensor:
        """The states themselves."""
        return step.s

    def run_chunk(self, batch: Batch, carry: Carry | None) -> tuple[Tensor, Carry]:
        """Run over a chunk; rows that continue the last batch see the keys and values of its last tokens.

        >>> from windlass.core.records import Padded
        >>> options = TransformerDecoder.Options(size=8, context="none", positions="rotary", window=2)
        >>> head = TransformerDecoder(options, vocabulary=10, memory_size=0)
        >>> readout, carry = head.run_chunk(Batch({}, Padded.of([[5, 6, 7], [8, 9, 4]]), torch.arange(2)), None)
        >>> readout.shape, carry.layers[0][0].shape
        (torch.Size([2, 3, 8]), torch.Size([2, 4, 2, 2]))
        """
        if self.options.context != "none":
            raise RecipeError("running text needs a decoder with context: none")
        tokens, cache = chunk_inputs(batch), self._nothing_read(batch.size)
        if carry is not None and batch.continues is not None:
            *layers, (read,) = carry.layers
            cache = Cache.of(tuple(layers), torch.where(batch.continues, read, 0))
        nothing = TransformerSource((), None, None)
        x, cache, _ = self._run(self.embed(tokens.values), cache, nothing, False, tokens.mask)
        read = torch.zeros(batch.size, dtype=torch.long, device=x.device) + cache.read
        return x, Carry((*cache.layers, (read,)))
