"""The text head as a search walks with it: the same equations, arranged for many steps with few rows.

What a step can find done is done before: tokens go through the first layer's weights, for the whole vocabulary, when
a head is made ready; a memory's values go through the weights behind the context when a search begins; products that
multiply the same vector are one. Weights are laid out for the machine (`nn/packed.py`), in 8 bits where told so.
A contract holds it to `TextHead.step`, for every kind of cell, attention and readout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor
from torch.nn import functional as F

from windlass.core.records import Batch, CellState, Memory, Record
from windlass.heads.copying import Copies, QuickGate, in_vocabulary
from windlass.nn.cells import GRU, LSTM, RNN, Cell
from windlass.nn.fused import tanh
from windlass.nn.packed import Packed, Stamp, pack, stamp
from windlass.nn.product import Product, Taken

if TYPE_CHECKING:
    from windlass.heads.text import TextHead

LARGEST_TABLE = 1 << 25
"""Numbers in a table of all tokens through a layer's weights (128 MB); beyond it, a product at every step."""


class _Step(Product):
    """A packed product that a cell takes itself."""

    def __init__(self, packed: Packed):
        self.packed = packed

    def __call__(self, x: Tensor, add: Tensor | None = None) -> Tensor:
        """Multiply, and add if told."""
        return self.packed(x) if add is None else self.packed(x).add_(add)


class _Rows(Record):
    """A record of tensors whose rows are picked at every step of a search."""

    def select(self, rows: Tensor) -> Self:
        """Return the rows named by an index."""
        return self.map(lambda t: t.index_select(0, rows))


@dataclass(frozen=True)
class QuickSource(_Rows):
    """What stays the same while a row is decoded.

    >>> QuickSource(*[None] * 6).keys is None
    True
    """

    keys: Any  # (B, S, A), or those of two levels; None without attention
    mask: Tensor | None  # (B, S), None where every place is real
    entering: Tensor | None  # (B, S, G) values through the first layer's weights
    leaving: Tensor | None  # (B, S, R) values through the readout's weights
    constant: Tensor | None  # (B, G) a summary through the first layer's weights
    shown: Tensor | None  # (B, R) a summary through the readout's weights
    copies: Copies | None = None  # what can be copied


@dataclass(frozen=True)
class QuickState(_Rows):
    """What changes from step to step; a row a hypothesis.

    >>> QuickState((), None, None).fed is None
    True
    """

    layers: tuple[CellState, ...]
    fed: Tensor | None  # (N, R)
    coverage: Tensor | None  # (N, S)


class _Layer:
    """One layer of the stack: its products packed, those with the same input joined.

    A cell that adds up what comes from its input and its state (`sums`) takes both in one product. `beside` are more
    rows for the product with the state alone: an attention's query.
    """

    def __init__(self, cell: Cell, below: Tensor | None, beside: Tensor | None, int8: bool, bounded: bool):
        self.cell = cell
        self.sums = isinstance(cell, LSTM | RNN)
        products = cell.products()
        self.single = len(products) == 1
        self.joined = below is not None and self.sums
        self.beside = beside is not None
        self.below = None if below is None or self.joined else pack(below, int8=int8)
        if self.single:
            weight = products[0].weight
            if self.joined and below is not None:
                weight = torch.cat([weight, below], dim=1)
            if beside is not None:
                weight = torch.cat([weight, beside])
            self.product = pack(weight, int8=int8, bounded=bounded)
        else:
            self.products = tuple(_Step(pack(p.weight, int8=int8, bounded=bounded)) for p in products)

    def multiply(self, h: Tensor, x: Tensor | None) -> Tensor | None:
        """All that multiplies the state, in one product: for the gates, then, behind them, for who is beside them."""
        if not self.single:
            return None
        return self.product(torch.cat([h, x], dim=1) if self.joined and x is not None else h)

    def step(self, taken: Tensor | None, projected: Tensor, state: CellState) -> CellState:
        """Take the step; `projected` is the input's share, as far as it is not in the product."""
        if taken is None:
            return self.cell.step(projected, state, self.products)
        if self.sums:
            return self.cell.step(projected, state, (Taken(taken + projected, whole=True),))
        return self.cell.step(projected, state, (Taken(taken, whole=False),))


class Quick:
    """A text head made ready for search. It is the head as it is now: weights that change later are not seen.

    >>> from windlass.heads.options import TextHeadOptions
    >>> from windlass.heads.text import TextHead
    >>> head = TextHead(TextHeadOptions(size=8), vocabulary=10, memory_size=6, final_sizes=()).eval()
    >>> memory = Memory(torch.randn(2, 5, 6), torch.ones(2, 5) > 0, torch.randn(2, 6))
    >>> quick, tokens = Quick(head), torch.tensor([2, 2])
    >>> def first(steps):
    ...     source, state = steps.begin(memory)
    ...     return steps.step(tokens, state, source)[0]
    >>> torch.allclose(first(quick), first(head), atol=1e-5)
    True
    """

    fresh = True  # log probabilities are new tensors every time: a search may write into them

    @torch.no_grad()
    def __init__(self, head: TextHead, int8: bool = False):
        self._begin = head.begin
        self.stack, self.attention, self.previous, self.feeding = (
            head.stack,
            head.attention,
            head.previous,
            head.feeding,
        )
        options, stack, first = head.options, head.stack, head.stack.first
        cells = [cell for cell in stack.cells if isinstance(cell, Cell)]
        of_token, of_context, of_fed = (part.detach() for part in first.weight_x.split(head.widths, dim=1))
        self.enter = pack(of_context, int8=int8) if head.previous else None
        bounded = _bounded(head, at_start=True)
        asking = head.attention.asking() if head.attention else None
        query = None if asking is None else asking.weight.detach()
        feeding = of_fed if head.feeding else None
        with_state = (
            query is not None
            and head.previous
            and len(cells) == 1
            and len(first.products()) == 1
            and not (head.feeding and isinstance(first, LSTM | RNN))
        )
        self.layers = [_Layer(first, feeding, query if with_state else None, int8, bounded)]
        self.layers += [_Layer(cell, cell.weight_x.detach(), None, int8, bounded) for cell in cells[1:]]
        self.tokens = _Tokens(head, of_token, first.bias, int8)
        self.words = None
        leaving, of_shown = None, None
        if options.readout.kind != "state":
            sizes = [options.size, head.context_size, head.join.in_features - options.size - head.context_size]
            leaving, of_shown, of_word = (part.detach() for part in head.join.weight.split(sizes, dim=1))
            self.words = _Tokens(head, of_word, None, int8) if sizes[2] else None
        self.shown = None if of_shown is None else pack(of_shown, int8=int8)
        # What multiplies the new state: the query of an attention that asks with it, and the readout.
        asks = [query] if query is not None and head.attention is not None and not head.previous else []
        after = asks + ([] if leaving is None else [leaving])
        self.after = pack(torch.cat(after), int8=int8, bounded=_bounded(head, at_start=False)) if after else None
        self.asked_size = sum(part.size(0) for part in asks)
        self.query = None if query is None or with_state or asks else pack(query, int8=int8, bounded=bounded)
        seen = options.readout.kind != "state" or _bounded(head, at_start=False)
        self.output = pack(head.output.weight, head.output.bias, int8, bounded=seen)
        self.gate = None if head.gate is None else QuickGate(head.gate, head.embedding)

    def begin(self, memory: Memory, batch: Batch | None = None) -> tuple[QuickSource, QuickState]:
        """Make a memory ready, and stand before its first target token."""
        source, state = self._begin(memory, batch)
        kept = QuickState(state.stack.layers, state.fed, state.coverage)
        if source.keys is not None:
            keys = source.keys
            entering = None if self.enter is None else _through(self.enter, keys.values)
            leaving = None if self.shown is None else _through(self.shown, keys.values)
            mask = None if bool(keys.mask.all()) else keys.mask
            return QuickSource(keys.keys, mask, entering, leaving, None, None, source.copies), kept
        shown = None if self.shown is None or source.summary is None else self.shown(source.summary)
        return QuickSource(None, None, None, None, source.constant, shown), kept

    def step(self, tokens: Tensor, state: QuickState, source: QuickSource) -> tuple[Tensor, QuickState, Tensor | None]:
        """Feed in the last tokens (N,); return log probabilities (N, V), the new state and attention (N, S)."""
        first = self.layers[0]
        tokens = tokens if self.gate is None else in_vocabulary(tokens, self.gate.vocabulary)
        projected = self.tokens(tokens)
        if source.constant is not None:
            projected = projected + _spread(source.constant, projected)
        weights = None
        taken = first.multiply(state.layers[0][0], state.fed)
        if self.previous:
            if self.query is not None:
                asked = self.query(state.layers[-1][0])
            elif first.beside and taken is not None:
                taken, asked = taken.split([projected.size(1), taken.size(1) - projected.size(1)], dim=1)
            else:
                asked = state.layers[-1][0]
            weights = self._weigh(asked, state, source)
            assert source.entering is not None
            projected = _average(weights, source.entering, projected)
        if first.below is not None and state.fed is not None:
            projected = projected + first.below(state.fed)
        s, layers = self._climb(taken, projected, state)
        fresh = None if self.after is None else self.after(s)
        if self.attention is not None and not self.previous:
            asked = s if not self.asked_size or fresh is None else fresh[:, : self.asked_size]
            weights = self._weigh(asked, state, source)
        o = s
        if fresh is not None and self.shown is not None:
            o = fresh[:, self.asked_size :]
            if weights is not None and source.leaving is not None:
                o = _average(weights, source.leaving, o)
            elif source.shown is not None:
                o = o + _spread(source.shown, o)
            if self.words is not None:
                o = o + self.words(tokens)
            o = tanh(o)
        coverage = state.coverage
        seen = None if weights is None else weights.flatten(0, 1)
        if coverage is not None and seen is not None:
            coverage = coverage + seen
        now = QuickState(layers, o if self.feeding else None, coverage)
        logits = self.output(o)
        if self.gate is not None and weights is not None and source.copies is not None:
            return self.gate.mix(logits, s, tokens, weights, source.copies), now, seen
        return torch.log_softmax(logits, dim=-1), now, seen

    def _climb(
        self, taken: Tensor | None, projected: Tensor, state: QuickState
    ) -> tuple[Tensor, tuple[CellState, ...]]:
        """Through all layers: the output (N, H) and the new states."""
        now = self.layers[0].step(taken, projected, state.layers[0])
        states, x = [now], now[0]
        for number, layer in enumerate(self.layers[1:], 1):
            before = state.layers[number]
            taken = layer.multiply(before[0], x)
            bias = layer.cell.bias
            if layer.below is not None:
                projected = layer.below(x) if bias is None else layer.below(x) + bias
            else:
                projected = x.new_zeros(1) if bias is None else bias
            now = layer.step(taken, projected, before)
            states.append(now)
            x = self.stack.connect(number, x, now[0])
        return x, tuple(states)

    def _weigh(self, asked: Tensor, state: QuickState, source: QuickSource) -> Tensor:
        """Attention (B, K, S) of every hypothesis."""
        assert self.attention is not None
        assert source.keys is not None
        B = source.keys.size(0)
        coverage = None if state.coverage is None else state.coverage.view(B, -1, state.coverage.size(1))
        return self.attention.weigh(asked.reshape(B, -1, asked.size(1)), source.keys, source.mask, coverage)


class _Tokens:
    """All tokens of a vocabulary through a weight (O, E), as a table; step by step, where it would be too large."""

    def __init__(self, head: TextHead, weight: Tensor, bias: Tensor | None, int8: bool):
        self.table: Tensor | None = None
        self.embedding = head.embedding
        self.bias = bias
        if head.embedding is None:
            nothing = head.output.weight.new_zeros(1, weight.size(0))
            self.table = nothing if bias is None else nothing + bias
        elif head.embedding.table.size(0) * weight.size(0) <= LARGEST_TABLE:
            self.table = F.linear(head.embedding.table * head.embedding.scale, weight, bias)
        else:
            self.product = pack(weight, bias, int8)

    def __call__(self, tokens: Tensor) -> Tensor:
        """(N,) -> (N, O)."""
        if self.embedding is None:
            assert self.table is not None
            return self.table.expand(tokens.size(0), -1)
        if self.table is not None:
            return self.table.index_select(0, tokens)
        return self.product(self.embedding(tokens))


def _spread(rows: Tensor, like: Tensor) -> Tensor:
    """Rows (B, X) of sentences for the N rows of their hypotheses."""
    return rows if rows.size(0) == like.size(0) else rows.repeat_interleave(like.size(0) // rows.size(0), dim=0)


def _through(product: Packed, values: Tensor) -> Tensor:
    """Values (B, S, D) through a product: (B, S, X)."""
    return product(values.flatten(0, 1)).view(*values.shape[:2], -1)


def _average(weights: Tensor, values: Tensor, add: Tensor) -> Tensor:
    """The average of values (B, S, X) under weights (B, K, S), added to (N, X)."""
    B, K, _ = weights.shape
    return torch.baddbmm(add.reshape(B, K, -1), weights, values).view(B * K, -1)


def _bounded(head: TextHead, at_start: bool) -> bool:
    """Whether a state, the first one too or only the later ones, is known to lie within -1 .. 1."""
    cell, options = head.stack.first, head.options
    if options.connect != "plain" or not isinstance(cell, LSTM | GRU | RNN):
        return False
    if isinstance(cell, RNN) and cell.activation not in (tanh, torch.sigmoid):
        return False
    tame = options.start == "zeros" or (options.start == "summary" and hasattr(head.start, "bridges"))
    return tame or (not at_start and not isinstance(cell, GRU))  # a GRU keeps some of its first state


def ready(head: TextHead, kept: dict[bool, tuple[Stamp, Quick]], int8: bool) -> Quick:
    """A head made ready for search: the one that was kept, as long as the weights are the same.

    >>> from windlass.heads.options import TextHeadOptions
    >>> from windlass.heads.text import TextHead
    >>> head = TextHead(TextHeadOptions(size=8), vocabulary=10, memory_size=6, final_sizes=()).eval()
    >>> before = head.ready()
    >>> head.ready() is before, head.ready(int8=True) is before
    (True, False)
    >>> with torch.no_grad():
    ...     _ = head.output.bias.add_(1)
    >>> head.ready() is before
    False
    """
    now = stamp(head)
    if int8 not in kept or kept[int8][0] != now:
        kept[int8] = (now, Quick(head, int8))
    return kept[int8][1]
