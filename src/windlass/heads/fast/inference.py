"""The text head as a search uses it: the same equations, arranged for many steps with few rows.

What does not change from step to step is computed before: the tokens of the whole vocabulary are multiplied by the
first layer's weights when the weights are packed, a memory's values by the weights of the context when a search begins,
and products with the same vector are one. Weights are packed for the machine (`nn/fast/packed.py`), in 8 bits on
request. A contract holds it to `RecurrentDecoder.step`, for every kind of cell, attention and readout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, final

import torch
from torch import Tensor
from torch.nn import functional as F

from windlass.core.records import Batch, CellState, Memory, Record
from windlass.heads.copying import GENERATE_LOGIT, CopySource, Gate
from windlass.nn.cell import Cell
from windlass.nn.copying import copy_mixture
from windlass.nn.embedding import Embedding
from windlass.nn.fast.activation import tanh
from windlass.nn.fast.interface import laid_out
from windlass.nn.fast.packed import Packed, Precomputed, pack
from windlass.nn.product import Product

if TYPE_CHECKING:
    from windlass.heads.recurrent import RecurrentDecoder

LARGEST_TABLE = 1 << 25
"""Numbers in a table of all tokens times a layer's weights (128 MB); a larger one becomes a product at every step."""


class _Rows(Record):
    """A record of tensors whose rows are picked at every step of a search."""

    def select(self, rows: Tensor) -> Self:
        """Return the rows named by an index."""
        return self.map(lambda t: t.index_select(0, rows))


@final
@dataclass(frozen=True)
class _Source(_Rows):
    """What stays the same while a row is decoded."""

    keys: Any  # (B, S, A), or those of both levels of a hierarchical attention; None without attention
    mask: Tensor | None  # (B, S), None if every place is real
    layer_values: Tensor | None  # (B, S, G) values times the first layer's weights
    readout_values: Tensor | None  # (B, S, R) values times the readout's weights
    layer_summary: Tensor | None  # (B, G) the summary times the first layer's weights
    readout_summary: Tensor | None  # (B, R) the summary times the readout's weights
    copies: CopySource | None = None  # for the copy gate


@final
@dataclass(frozen=True)
class _State(_Rows):
    """What changes from step to step, with a row for each hypothesis."""

    layers: tuple[CellState, ...]
    fed: Tensor | None  # (N, R)
    coverage: Tensor | None  # (N, S)


class _PackedProduct(Product):
    def __init__(self, packed: Packed):
        self.packed = packed

    def __call__(self, x: Tensor, add: Tensor | None = None) -> Tensor:
        return self.packed(x) if add is None else self.packed(x).add_(add)


class _Layer:
    """One layer of the stack with its products packed, those with the same input joined.

    A cell that only uses the sum of input and state (`sums_input`) takes both in one product. `query` (A, H) adds rows
    to the product with the state alone: an attention's query projection.
    """

    def __init__(self, cell: Cell, below: Tensor | None, query: Tensor | None, int8: bool, bounded: bool):
        self.cell = cell
        products = cell.products()
        self.single = len(products) == 1
        self.joined = below is not None and cell.sums_input
        self.queries = query is not None
        self.below = None if below is None or self.joined else pack(below, int8=int8)
        if self.single:
            weight = products[0].weight
            if self.joined and below is not None:
                weight = torch.cat([weight, below], dim=1)
            if query is not None:
                weight = torch.cat([weight, query])
            self.product = pack(weight, int8=int8, bounded=bounded)
        else:
            self.products = tuple(_PackedProduct(pack(p.weight, int8=int8, bounded=bounded)) for p in products)

    def multiply(self, h: Tensor, x: Tensor | None) -> Tensor | None:
        """The product with the state, and the query behind it; None for a cell that takes several products."""
        if not self.single:
            return None
        return self.product(torch.cat([h, x], dim=1) if self.joined and x is not None else h)

    def step(self, product: Tensor | None, projected: Tensor, state: CellState) -> CellState:
        """Take the step; `projected` is the share of the input that is not in the product."""
        if product is None:
            return self.cell.step(projected, state, self.products)
        if self.cell.sums_input:
            return self.cell.step(projected, state, (Precomputed(product + projected, summed=True),))
        return self.cell.step(projected, state, (Precomputed(product, summed=False),))


class _Weights:
    """The packed weights of a head."""

    @torch.no_grad()
    def __init__(self, head: RecurrentDecoder, int8: bool):
        options, stack, first = head.options, head.stack, head.stack.first
        of_token, of_context, of_fed = (part.detach() for part in first.weight_x.split(head.widths, dim=1))
        self.layer_context = pack(of_context, int8=int8) if head.queries_previous else None
        bounded = _bounded(head, at_start=True)
        projection = head.attention.query_projection() if head.attention else None
        query = None if projection is None else projection.weight.detach()
        with_state = (
            query is not None
            and head.queries_previous
            and len(stack.cells) == 1
            and len(first.products()) == 1
            and not (head.input_feeding and first.sums_input)
        )
        self.layers = [
            _Layer(first, of_fed if head.input_feeding else None, query if with_state else None, int8, bounded)
        ]
        self.layers += [_Layer(cell, cell.weight_x.detach(), None, int8, bounded) for cell in stack.cells[1:]]
        self.layer_tokens = _Tokens(head, of_token, first.bias, int8)
        self.readout_tokens: _Tokens | None = None
        readout_state = of_seen = None
        if options.readout.kind != "state":
            sizes = [options.size, head.context_size, head.join.in_features - options.size - head.context_size]
            readout_state, of_seen, of_word = (part.detach() for part in head.join.weight.split(sizes, dim=1))
            self.readout_tokens = _Tokens(head, of_word, None, int8) if sizes[2] else None
        self.readout_context = None if of_seen is None else pack(of_seen, int8=int8)
        # Products with the new state: the query, if the current state is the query, and the readout.
        queries = [query] if query is not None and not head.queries_previous else []
        after = queries + ([] if readout_state is None else [readout_state])
        self.after = pack(torch.cat(after), int8=int8, bounded=_bounded(head, at_start=False)) if after else None
        self.query_size = sum(part.size(0) for part in queries)
        self.query = None if query is None or with_state or queries else pack(query, int8=int8, bounded=bounded)
        squashed = options.readout.kind != "state" or _bounded(head, at_start=False)
        self.output = pack(head.output.weight, head.output.bias, int8, bounded=squashed)
        self.gate = None if head.gate is None else _Gate(head.gate, head.embedding)


@final
class InferenceDecoder:
    """A text head with its weights packed as they are now.

    >>> from windlass.heads.recurrent import RecurrentDecoder
    >>> options = RecurrentDecoder.Options(size=8)
    >>> decoder = RecurrentDecoder(options, vocabulary=10, memory_size=6, final_sizes=()).inference()
    >>> source, state = decoder.begin(Memory(torch.randn(2, 5, 6), torch.ones(2, 5) > 0, torch.randn(2, 6)))
    >>> logprobs, state, attention = decoder.step(torch.tensor([2, 2]), state, source)
    >>> logprobs.shape, attention.shape
    (torch.Size([2, 10]), torch.Size([2, 5]))
    """

    owns_output = True  # log probabilities are new tensors at every step: a search may overwrite them

    def __init__(self, head: RecurrentDecoder, int8: bool = False):
        self.head = head
        self.weights = laid_out(head, int8, lambda: _Weights(head, int8))

    def begin(self, memory: Memory, batch: Batch | None = None) -> tuple[_Source, _State]:
        """Prepare a memory; the state is the one before the first target token."""
        weights = self.weights
        source, state = self.head.begin(memory, batch)
        now = _State(state.stack.layers, state.fed, state.coverage)
        if source.keys is not None:
            keys = source.keys
            of_layer = None if weights.layer_context is None else _over(weights.layer_context, keys.values)
            of_readout = None if weights.readout_context is None else _over(weights.readout_context, keys.values)
            mask = None if bool(keys.mask.all()) else keys.mask
            return _Source(keys.keys, mask, of_layer, of_readout, None, None, source.copies), now
        readout, summary = weights.readout_context, source.summary
        summary = None if readout is None or summary is None else readout(summary)
        return _Source(None, None, None, None, source.projected_summary, summary), now

    def step(self, tokens: Tensor, state: _State, source: _Source) -> tuple[Tensor, _State, Tensor | None]:
        """Feed in the last tokens (N,); return log probabilities (N, V), the new state and attention (N, S)."""
        weights, head = self.weights, self.head
        first = weights.layers[0]
        tokens = head.reads(tokens)
        projected = weights.layer_tokens(tokens)
        if source.layer_summary is not None:
            projected = projected + _spread(source.layer_summary, projected)
        attention = None
        product = first.multiply(state.layers[0][0], state.fed)
        if head.queries_previous:
            if weights.query is not None:
                query = weights.query(state.layers[-1][0])
            elif first.queries and product is not None:
                product, query = product.split([projected.size(1), product.size(1) - projected.size(1)], dim=1)
            else:
                query = state.layers[-1][0]
            attention = self._attend(query, state, source)
            assert source.layer_values is not None
            projected = _average(attention, source.layer_values, projected)
        if first.below is not None and state.fed is not None:
            projected = projected + first.below(state.fed)
        s, layers = self._stack(product, projected, state)
        after = None if weights.after is None else weights.after(s)
        if head.attention is not None and not head.queries_previous:
            query = s if not weights.query_size or after is None else after[:, : weights.query_size]
            attention = self._attend(query, state, source)
        o = s
        if after is not None and weights.readout_context is not None:
            o = after[:, weights.query_size :]
            if attention is not None and source.readout_values is not None:
                o = _average(attention, source.readout_values, o)
            elif source.readout_summary is not None:
                o = o + _spread(source.readout_summary, o)
            if weights.readout_tokens is not None:
                o = o + weights.readout_tokens(tokens)
            o = tanh(o)
        coverage = state.coverage
        by_row = None if attention is None else attention.flatten(0, 1)
        if coverage is not None and by_row is not None:
            coverage = coverage + by_row
        now = _State(layers, o if head.input_feeding else None, coverage)
        logits = weights.output(o)
        if weights.gate is not None and attention is not None and source.copies is not None:
            return weights.gate.mix(logits, s, tokens, attention, source.copies), now, by_row
        return torch.log_softmax(logits, dim=-1), now, by_row

    def _stack(self, product: Tensor | None, projected: Tensor, state: _State) -> tuple[Tensor, tuple[CellState, ...]]:
        """Through all layers: the output (N, H) and the new states."""
        layers = self.weights.layers
        now = layers[0].step(product, projected, state.layers[0])
        states, x = [now], now[0]
        for number, layer in enumerate(layers[1:], 1):
            before = state.layers[number]
            product = layer.multiply(before[0], x)
            bias = layer.cell.bias
            if layer.below is not None:
                projected = layer.below(x) if bias is None else layer.below(x) + bias
            else:
                projected = x.new_zeros(1) if bias is None else bias
            now = layer.step(product, projected, before)
            states.append(now)
            x = self.head.stack.connect(number, x, now[0])
        return x, tuple(states)

    def _attend(self, query: Tensor, state: _State, source: _Source) -> Tensor:
        """Attention (B, K, S) of every hypothesis."""
        assert self.head.attention is not None
        assert source.keys is not None
        B = source.keys.size(0)
        coverage = None if state.coverage is None else state.coverage.view(B, -1, state.coverage.size(1))
        return self.head.attention.weigh(query.reshape(B, -1, query.size(1)), source.keys, source.mask, coverage)


class _Tokens:
    """All tokens of a vocabulary times a weight (O, E), as a table; if that is too large, a product at every step."""

    def __init__(self, head: RecurrentDecoder, weight: Tensor, bias: Tensor | None, int8: bool):
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


@final
class _Gate:
    """A copy gate with every token's share of the logit in a table."""

    @torch.no_grad()
    def __init__(self, gate: Gate, embedding: Embedding | None):
        self.vocabulary = gate.vocabulary
        self.of_state, _, of_token = (part.detach() for part in gate.weights())
        bias = gate.layer.bias.detach()
        self.tokens = bias if embedding is None else (embedding.table * embedding.scale) @ of_token + bias

    def mix(self, logits: Tensor, s: Tensor, tokens: Tensor, weights: Tensor, source: CopySource) -> Tensor:
        """Log probabilities of one step: logits (N, V), states (N, H), tokens (N,), attention (B, K, S)."""
        of_context = (weights @ source.gate_values[..., None]).squeeze(-1)
        of_context = of_context.masked_fill(source.empty[:, None], GENERATE_LOGIT)
        of_token = self.tokens if self.tokens.size(0) == 1 else self.tokens[tokens]
        gate = torch.mv(s, self.of_state) + of_token + of_context.flatten()
        return copy_mixture(logits, gate, weights.flatten(0, 1), source.expand_ids(len(logits)), source.oov)


def _spread(rows: Tensor, like: Tensor) -> Tensor:
    """Rows (B, X) of sentences for the N rows of their hypotheses."""
    return rows if rows.size(0) == like.size(0) else rows.repeat_interleave(like.size(0) // rows.size(0), dim=0)


def _over(product: Packed, values: Tensor) -> Tensor:
    """A product with all values (B, S, D): (B, S, X)."""
    return product(values.flatten(0, 1)).view(*values.shape[:2], -1)


def _average(weights: Tensor, values: Tensor, add: Tensor) -> Tensor:
    """The average of values (B, S, X) under weights (B, K, S), added to (N, X)."""
    B, K, _ = weights.shape
    return torch.baddbmm(add.reshape(B, K, -1), weights, values).view(B * K, -1)


def _bounded(head: RecurrentDecoder, at_start: bool) -> bool:
    """Whether all states, the first one too if `at_start`, are known to lie within -1..1."""
    options = head.options
    if options.connect != "plain":
        return False
    start = options.start == "zeros" or (options.start == "summary" and hasattr(head.start, "bridges"))
    later = head.stack.first.bounded
    return (start if later is None else later) and (start or not at_start)
