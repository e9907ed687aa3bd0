"""A decoder with attention over whole targets, with back-propagation derived by hand.

    x_t = [token; context; fed] -> layers -> s_t      a_t = softmax(score(q, k_j)), q = h_{t-1} or s_t
    o_t = tanh(J [s_t; context; token]), fed into the next step

A step takes one product a layer with the state, one with the layer below, and one each for query, input feeding and
readout; the gradients of all weights wait for the end of the loop. The values of a short memory are multiplied by their
weights before the first step, W sum_j a_j v_j = sum_j a_j (W v_j): one product for the batch instead of one a step.
Exact against the decoder's own steps (a contract). Time comes first: (T, B, ...).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, final

import torch
from torch import Tensor
from torch.autograd import Function

from windlass.nn.fast.activation import tanh_
from windlass.nn.fast.attention import FusedScore
from windlass.nn.fast.onednn import FixedWeight
from windlass.nn.fast.recurrence import Tape, frees_graph, outer
from windlass.nn.fast.switch import first_order

_tanh_backward = torch.ops.aten.tanh_backward.default
_softmax_backward = torch.ops.aten._softmax_backward_data.default


@final
@dataclass(frozen=True)
class Layer:
    """One layer of the decoder.

    >>> from windlass.nn.fast.recurrence import LstmTape
    >>> Layer(LstmTape, torch.zeros(12, 3), None, (torch.zeros(2, 3),) * 2).below is None
    True
    """

    tape: type[Tape]
    weight: Tensor  # (G, H) for the state
    bias: Tensor | None  # (G,) added to the product with the state
    state: tuple[Tensor, ...]  # (B, H) each: the first state
    below: Tensor | None = None  # (G, H) for the layer below; None for the first
    below_bias: Tensor | None = None  # (G,)
    mask: Tensor | None = None  # (T or 1, B, H) dropout on the output


@final
@dataclass(frozen=True)
class FusedDecoder:
    """The inputs and weights of a fused decoder. Parts that are None are absent.

    The context is multiplied by weights F: those of the first layer, then those of the readout, as far as they see it.
    """

    x: Tensor  # (T, B, G) projected tokens
    layers: tuple[Layer, ...]
    residual: bool  # every layer but the first adds its input to its output
    score: FusedScore
    real: Tensor  # (B, S) the mask of the memory
    current: bool  # the query is s_t; else h_{t-1} of the last layer
    values: Tensor | None  # (B, S, F) the memory's values times F; (B, S, V) the values if value_weight is set
    fed: Tensor | None = None  # (G, R) the first layer's weights for the last readout
    join: Tensor | None = None  # (R, H) the readout's weights for s_t; None: the readout is s_t
    base: Tensor | None = None  # (T, B, R) the token's share of the readout
    read_mask: Tensor | None = None  # (T, B, R) dropout on the readout
    value_weight: Tensor | None = None  # (F, V) multiplies the context at every step

    def tensors(self) -> Iterator[tuple[str, Tensor | None]]:
        """Everything that has a gradient, by name."""
        yield from (("x", self.x), ("values", self.values), ("value_weight", self.value_weight), ("fed", self.fed))
        yield from (("join", self.join), ("base", self.base), ("keys", self.score.keys))
        yield from (("query", self.score.query), ("v", self.score.v), ("coverage", self.score.coverage))
        for number, layer in enumerate(self.layers):
            yield from ((f"weight {number}", layer.weight), (f"bias {number}", layer.bias))
            yield from ((f"below {number}", layer.below), (f"below bias {number}", layer.below_bias))
            yield from ((f"state {number} {part}", tensor) for part, tensor in enumerate(layer.state))


class _Weights:
    """The weights of a pass, laid out for products with B rows; transposed for the backward pass."""

    def __init__(self, decoder: FusedDecoder, rows: int, transposed: bool = False):
        def lay_out(weight: Tensor | None) -> FixedWeight | None:
            return None if weight is None else FixedWeight(weight.t() if transposed else weight, rows)

        self.recur = [FixedWeight(layer.weight.t() if transposed else layer.weight, rows) for layer in decoder.layers]
        self.below = [lay_out(layer.below) for layer in decoder.layers]
        self.query, self.fed = lay_out(decoder.score.query), lay_out(decoder.fed)
        self.join, self.values = lay_out(decoder.join), lay_out(decoder.value_weight)


class _Forward:
    """The forward pass, and all that the backward pass needs of it."""

    def __init__(self, decoder: FusedDecoder):
        self.decoder = decoder
        (self.T, self.B, self.G), S = decoder.x.shape, decoder.real.size(1)
        new = decoder.x.new_empty
        self.tapes = [layer.tape(self.T, layer.state) for layer in decoder.layers]
        H = self.tapes[-1].H
        # A layer's output is its h, unless dropout or a residual connection changes it.
        self.outs = [
            new(self.T, self.B, H) if layer.mask is not None or (decoder.residual and number) else tape.hs[1:]
            for number, (layer, tape) in enumerate(zip(decoder.layers, self.tapes, strict=True))
        ]
        self.out = [out.unbind(0) for out in self.outs]
        score = decoder.score
        self.scores = score.tape(score.keys, score.v, score.coverage, self.T)
        self.attention = new(self.T, self.B, S)
        self.a = self.attention.unbind(0)
        self.padding = None if bool(decoder.real.all()) else ~decoder.real
        self.nowhere = not bool(decoder.real.any(1).all())  # rows without a real place get zeros
        self.covered = None if score.coverage is None else new(self.T + 1, self.B, S).zero_()
        self.contexts: Tensor | None = None  # (T, B, V) if value_weight is set
        if decoder.value_weight is not None:
            self.contexts = new(self.T, self.B, decoder.value_weight.size(1))
        self.read: Tensor | None = None  # (T, B, R) the readouts before dropout
        self.fed: Tensor | None = None  # (T + 1, B, R) the readouts, after a first one of zeros
        if decoder.fed is not None:
            self.fed = new(self.T + 1, self.B, decoder.fed.size(1)).zero_()
            self.read = self.fed[1:] if decoder.read_mask is None else new(self.T, self.B, decoder.fed.size(1))

    @property
    def queries(self) -> Tensor:
        return self.outs[-1] if self.decoder.current else self.tapes[-1].hs[:-1]

    @property
    def adds(self) -> bool:
        """Whether the context goes to the first layer alone, so that one product multiplies and adds it."""
        decoder = self.decoder
        values, early = decoder.values, decoder.value_weight is None
        return values is not None and early and not decoder.current and values.size(2) == self.G

    def run(self) -> None:
        decoder, weights = self.decoder, _Weights(self.decoder, self.B)
        query = self.queries.unbind(0)
        fed = None if self.fed is None else self.fed.unbind(0)
        context = None
        for t, x in enumerate(decoder.x.unbind(0)):
            if not decoder.current:
                context = self._attend(t, query[t], weights, x if self.adds else None)
                x = x if context is None else context if self.adds else x + context[:, : self.G]
            if weights.fed is not None and fed is not None and t:
                x = x + weights.fed(fed[t])
            for number, (layer, tape) in enumerate(zip(decoder.layers, self.tapes, strict=True)):
                product = weights.below[number]
                if product is not None:
                    x = product(self.out[number - 1][t], layer.below_bias)
                tape.step(t, t, t + 1, x, weights.recur[number](tape.h[t], layer.bias))
                self._output(t, number, layer)
            if decoder.current:
                context = self._attend(t, query[t], weights, None)
            if self.fed is not None:
                self._read(t, context, weights.join)

    def _output(self, t: int, number: int, layer: Layer) -> None:
        y = self.tapes[number].h[t + 1]
        residual = self.decoder.residual and number
        if layer.mask is not None:
            y = y * layer.mask[t if layer.mask.size(0) > 1 else 0]
        if residual:
            y = y + self.out[number - 1][t]
        if residual or layer.mask is not None:
            self.out[number][t].copy_(y)

    def _attend(self, t: int, query: Tensor, weights: _Weights, add: Tensor | None) -> Tensor | None:
        """Compute a_t; return the context times its weights (B, F), plus `add`."""
        a, values = self.a[t], self.decoder.values
        covered = None if self.covered is None else self.covered[t]
        scores = self.scores.score(t, query if weights.query is None else weights.query(query), covered)
        if self.padding is not None:
            scores.masked_fill_(self.padding, torch.finfo(scores.dtype).min)
        torch.softmax(scores, dim=1, out=a)
        if self.padding is not None and self.nowhere:
            a.masked_fill_(self.padding, 0.0)
        if self.covered is not None:
            torch.add(self.covered[t], a, out=self.covered[t + 1])
        if values is None:
            return None
        row = a.unsqueeze(1)
        if add is not None:
            return torch.baddbmm(add.unsqueeze(1), row, values).squeeze(1)
        context = torch.bmm(row, values).squeeze(1)
        if self.contexts is None or weights.values is None:
            return context
        return weights.values(self.contexts[t].copy_(context))

    def _read(self, t: int, context: Tensor | None, join: FixedWeight | None) -> None:
        decoder, s = self.decoder, self.out[-1][t]
        assert self.read is not None
        assert self.fed is not None
        if join is None:
            self.fed[t + 1] = s
            return
        pre = join(s)
        if context is not None:
            pre += context if decoder.current else context[:, self.G :]
        if decoder.base is not None:
            pre += decoder.base[t]
        self.read[t] = tanh_(pre)
        if decoder.read_mask is not None:
            torch.mul(self.read[t], decoder.read_mask[t], out=self.fed[t + 1])


class _Backward:
    """The backward pass; `overwrite` lets gradients take the place of what the forward pass has stored."""

    def __init__(self, forward: _Forward, overwrite: bool):
        self.forward, self.overwrite, decoder = forward, overwrite, forward.decoder
        T, B = forward.T, forward.B
        for tape in forward.tapes:
            tape.start_backward(overwrite)
        forward.scores.start_backward()
        self.weights = _Weights(decoder, B, transposed=True)
        self.d_contexts = None if forward.contexts is None else torch.empty_like(forward.contexts)
        self.d_queries = torch.empty_like(forward.scores.queries)
        self.d_query_of = self.d_queries.unbind(0)
        self.d_read = decoder.x.new_empty(T, B, decoder.join.size(0)) if decoder.join is not None else None
        self.d_covered = None if forward.covered is None else torch.zeros_like(forward.covered[0])
        self.dh = [torch.zeros_like(tape.hs[0]) for tape in forward.tapes]
        self.dc: list[Tensor | None] = [None] * len(forward.tapes)

    def run(self, d_states: Tensor | None, d_attention: Tensor | None, d_fed: Tensor | None) -> None:
        forward, decoder, weights = self.forward, self.forward.decoder, self.weights
        d_o: Tensor | None = None  # from the next step
        d_state = (torch.zeros_like(self.dh[-1]),) * forward.T if d_states is None else d_states.unbind(0)
        for t in range(forward.T - 1, -1, -1):
            ds = d_state[t]
            d_a = None if d_attention is None else d_attention[t]
            d_context = None
            if d_fed is not None:
                d_o = d_fed[t] if d_o is None else d_o + d_fed[t]
                if weights.join is None:
                    ds = ds + d_o
                else:
                    d_context = self._read(t, d_o)
                    ds = ds + weights.join(d_context)
            if decoder.current:
                ds = ds + self._attend(t, d_a, d_context)
            for number in range(len(forward.tapes) - 1, -1, -1):
                ds = self._step(t, number, ds)
            dx = forward.tapes[0].dx_of[t]
            if weights.fed is not None:
                d_o = weights.fed(dx)
            if not decoder.current:
                self.dh[-1] = self.dh[-1] + self._attend(
                    t, d_a, dx if d_context is None else torch.cat([dx, d_context], dim=1)
                )
        # The packed weights are as large as the gradients that come next, and not needed any more.
        del self.weights

    def _read(self, t: int, d_o: Tensor) -> Tensor:
        forward = self.forward
        assert forward.read is not None
        assert self.d_read is not None
        if forward.decoder.read_mask is not None:
            d_o = d_o * forward.decoder.read_mask[t]
        self.d_read[t] = _tanh_backward(d_o, forward.read[t])
        return self.d_read[t]

    def _attend(self, t: int, d: Tensor | None, d_context: Tensor | None) -> Tensor:
        """The gradient of the query (B, Q)."""
        forward, a = self.forward, self.forward.a[t]
        if d_context is not None and self.weights.values is not None and self.d_contexts is not None:
            d_context = self.d_contexts[t].copy_(self.weights.values(d_context))
        if d_context is not None and forward.decoder.values is not None:
            # (B, 1, F) times (B, F, S) rather than (B, S, F) times (B, F, 1): a tenth of the time.
            of_a = torch.bmm(d_context.unsqueeze(1), forward.decoder.values.transpose(1, 2)).squeeze(1)
            d = of_a if d is None else of_a.add_(d)
        if self.d_covered is not None:
            d = self.d_covered if d is None else d + self.d_covered
        d = torch.zeros_like(a) if d is None else _softmax_backward(d, a, 1, a.dtype)
        covered = None if forward.covered is None else forward.covered[t]
        d_query, d_covered = forward.scores.score_backward(t, d, covered)
        if self.d_covered is not None and d_covered is not None:
            self.d_covered = self.d_covered + d_covered
        self.d_query_of[t].copy_(d_query)
        return d_query if self.weights.query is None else self.weights.query(d_query)

    def _step(self, t: int, number: int, dy: Tensor) -> Tensor:
        """Through one layer: the gradient of its input (B, H); the first layer's is not needed."""
        forward, tape, layer = self.forward, self.forward.tapes[number], self.forward.decoder.layers[number]
        dh = dy if layer.mask is None else dy * layer.mask[t if layer.mask.size(0) > 1 else 0]
        dr, direct, self.dc[number] = tape.step_backward(t, t, t + 1, dh + self.dh[number], self.dc[number])
        self.dh[number] = self.weights.recur[number](dr)
        if direct is not None:
            self.dh[number] += direct
        product = self.weights.below[number]
        if product is None:
            return dy
        dx = product(tape.dx_of[t])
        return dx + dy if forward.decoder.residual else dx

    def gradients(self) -> dict[str, Tensor | None]:
        """By the names of `FusedDecoder.tensors`: one product for every weight."""
        forward, decoder = self.forward, self.forward.decoder
        dx = forward.tapes[0].dx
        scores = forward.scores
        gradients: dict[str, Tensor | None] = {"x": dx, "v": scores.d_v, "coverage": scores.d_coverage}
        gradients |= {"keys": scores.d_keys(), "base": self.d_read}
        if decoder.score.query is not None:
            gradients["query"] = outer(self.d_queries, forward.queries)
        if decoder.fed is not None and forward.fed is not None:
            gradients["fed"] = outer(dx, forward.fed[:-1])
        if self.d_read is not None:
            gradients["join"] = outer(self.d_read, forward.outs[-1])
        if decoder.values is not None:
            parts = [part for part in (None if decoder.current else dx, self.d_read) if part is not None]
            d_context = parts[0] if len(parts) == 1 else torch.cat(parts, dim=2)
            if forward.contexts is not None and self.d_contexts is not None:
                gradients["value_weight"] = outer(d_context, forward.contexts)
                d_context = self.d_contexts
            gradients["values"] = torch.bmm(forward.attention.permute(1, 2, 0), d_context.transpose(0, 1))
        for number in range(len(decoder.layers) - 1, -1, -1):
            gradients |= self._of_layer(number)
            if self.overwrite:  # from the top down, so that every layer's tape goes as its gradients come
                forward.tapes.pop()
                forward.outs.pop()
                forward.out.pop()
        return gradients

    def _of_layer(self, number: int) -> dict[str, Tensor | None]:
        forward, layer, tape = self.forward, self.forward.decoder.layers[number], self.forward.tapes[number]
        gradients: dict[str, Tensor | None] = {f"weight {number}": tape.d_weight(tape.hs[:-1])}
        if layer.bias is not None:
            gradients[f"bias {number}"] = tape.d_bias()
        if layer.below is not None:
            gradients[f"below {number}"] = outer(tape.dx, forward.outs[number - 1])
        if layer.below_bias is not None:
            gradients[f"below bias {number}"] = tape.dx.sum((0, 1))
        return gradients | {f"state {number} 0": self.dh[number], f"state {number} 1": self.dc[number]}


class _Decode(Function):
    @staticmethod
    def forward(ctx: Any, decoder: FusedDecoder, *tensors: Tensor | None) -> tuple[Tensor | None, ...]:
        ctx.set_materialize_grads(False)
        forward = _Forward(decoder)
        forward.run()
        # The backward pass needs the names of all tensors, but not the values of those that come from the tokens.
        nothing = decoder.x.new_empty(0)
        forward.decoder = replace(decoder, x=nothing, base=None if decoder.base is None else nothing)
        ctx.pass_ = forward
        # So that torch notices if one is changed before the backward pass.
        ctx.save_for_backward(*(t for t in tensors if t is not decoder.x and t is not decoder.base))
        # New views: a context that held its own outputs would never be freed.
        return forward.outs[-1][:], forward.attention[:], None if forward.fed is None else forward.fed[1:]

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        assert ctx.saved_tensors
        forward: _Forward = ctx.pass_
        frees = frees_graph()
        if frees:  # or all of it would stay until the whole graph goes
            ctx.pass_ = None
        d_states, d_attention, d_fed = gradients
        if forward.fed is not None and d_fed is None:  # the loss does not use the readouts, but the next step does
            d_fed = torch.zeros_like(forward.fed[1:])
        backward = _Backward(forward, overwrite=frees)
        backward.run(d_states, d_attention, d_fed)
        by_name = backward.gradients()
        return None, *(None if tensor is None else by_name.get(name) for name, tensor in forward.decoder.tensors())


def decode(decoder: FusedDecoder) -> tuple[Tensor, Tensor, Tensor | None]:
    """Run the decoder; return s (T, B, H), attention (T, B, S) and, with input feeding, the readouts (T, B, R).

    >>> from windlass.nn.fast.attention import TanhTape
    >>> from windlass.nn.fast.recurrence import LstmTape
    >>> B, S, H, A = 2, 4, 3, 5
    >>> layer = Layer(LstmTape, torch.randn(4 * H, H), None, (torch.zeros(B, H), torch.zeros(B, H)))
    >>> score = FusedScore(TanhTape, torch.randn(B, S, A), torch.randn(A, H), torch.randn(A))
    >>> decoder = FusedDecoder(torch.randn(6, B, 4 * H), (layer,), False, score, torch.ones(B, S) > 0, False, None)
    >>> states, attention, _ = decode(decoder)
    >>> states.shape, attention.shape
    (torch.Size([6, 2, 3]), torch.Size([6, 2, 4]))
    """
    tensors = (tensor for _, tensor in decoder.tensors())
    states, attention, readouts = _Decode.apply(decoder, *tensors)  # type: ignore[no-untyped-call]
    return states, attention, readouts
