"""A decoder with attention over whole targets, with back-propagation derived by hand.

    x_t = [token; context; fed] -> layers -> s_t      a_t = softmax(score(q, k_j)), q = h_{t-1} or s_t
    o_t = tanh(J [s_t; context; token]), fed into the next step

A step takes one product a layer for the state, one for what comes from below, and one each for query, feeding and
readout; the gradients of all weights wait for the end of the loop. The values of a short memory enter already
multiplied by the weights that they would meet, W sum_j a_j v_j = sum_j a_j (W v_j): one product for the batch instead
of one a step. Exact against the decoder's own steps (a contract). Time comes first: (T, B, ...).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from windlass.nn.fused import GruTape, LstmTape, outer, tanh_
from windlass.nn.fused_attention import ScoreTape, Scoring
from windlass.nn.product import Fixed, last_pass

_tanh_backward = torch.ops.aten.tanh_backward.default
_softmax_backward = torch.ops.aten._softmax_backward_data.default


@dataclass(frozen=True)
class Layer:
    """One layer of the decoder.

    >>> Layer(LstmTape, torch.zeros(12, 3), None, (torch.zeros(2, 3),) * 2).below is None
    True
    """

    tape: type[LstmTape] | type[GruTape]
    weight: Tensor  # (G, H) with its own state
    bias: Tensor | None  # (G,) that comes in with the state
    state: tuple[Tensor, ...]  # (B, H) each: where it starts
    below: Tensor | None = None  # (G, H) with the layer below; None for the first
    below_bias: Tensor | None = None  # (G,)
    mask: Tensor | None = None  # (T or 1, B, H) what its output is multiplied by: dropout


@dataclass(frozen=True)
class Decoder:
    """All that a fused decoder reads. What is None is not there."""

    x: Tensor  # (T, B, G) projected tokens
    layers: tuple[Layer, ...]
    residual: bool  # a layer's input is added to its output, but the first's
    scoring: Scoring
    real: Tensor  # (B, S) the mask of the memory
    current: bool  # s_t asks; else h_{t-1} of the last layer
    entering: Tensor | None  # (B, S, F) the values through the weights they meet: the first layer's, then the readout's
    fed: Tensor | None = None  # (G, R) the first layer's weights with the last readout
    join: Tensor | None = None  # (R, H) the readout's weights with s_t; None: the readout is s_t
    base: Tensor | None = None  # (T, B, R) the token's share of the readout
    read_mask: Tensor | None = None  # (T, B, R) dropout on the readout
    met: Tensor | None = None  # (F, V) what the values meet, where `entering` are the values themselves, (B, S, V)

    def tensors(self) -> Iterator[tuple[str, Tensor | None]]:
        """Everything that has a gradient, by name."""
        yield from (("x", self.x), ("entering", self.entering), ("met", self.met), ("fed", self.fed))
        yield from (("join", self.join), ("base", self.base), ("keys", self.scoring.keys))
        yield from (("query", self.scoring.query), ("v", self.scoring.v), ("coverage", self.scoring.coverage))
        for number, layer in enumerate(self.layers):
            yield from ((f"weight {number}", layer.weight), (f"bias {number}", layer.bias))
            yield from ((f"below {number}", layer.below), (f"below bias {number}", layer.below_bias))
            yield from ((f"state {number} {part}", tensor) for part, tensor in enumerate(layer.state))


class _Run:
    """The decoder's way forward, and all that the way back needs of it."""

    def __init__(self, given: Decoder):
        self.given = given
        (self.T, self.B, self.G), S = given.x.shape, given.real.size(1)
        new = given.x.new_empty
        self.tapes = [layer.tape(self.T, layer.state) for layer in given.layers]
        H = self.tapes[-1].H
        # What a layer puts out is its h, unless something is done to that.
        self.outs = [
            new(self.T, self.B, H) if layer.mask is not None or (given.residual and number) else tape.hs[1:]
            for number, (layer, tape) in enumerate(zip(given.layers, self.tapes, strict=True))
        ]
        self.out = [out.unbind(0) for out in self.outs]  # as everywhere: a step takes no views of its own
        scoring = given.scoring
        self.scores: ScoreTape = scoring.tape(scoring.keys, scoring.v, scoring.coverage, self.T)
        self.attended = new(self.T, self.B, S)
        self.a = self.attended.unbind(0)
        self.padding = None if bool(given.real.all()) else ~given.real
        self.nowhere = not bool(given.real.any(1).all())  # rows without a real place attend to nothing
        self.covered = None if scoring.coverage is None else new(self.T + 1, self.B, S).zero_()
        self.contexts: Tensor | None = None  # (T, B, V) where the values meet their weights at every step
        if given.met is not None:
            self.contexts = new(self.T, self.B, given.met.size(1))
        self.read: Tensor | None = None  # (T, B, R) the readouts before dropout
        self.fed: Tensor | None = None  # (T + 1, B, R) the readouts, after a first one of zeros
        if given.fed is not None:
            self.fed = new(self.T + 1, self.B, given.fed.size(1)).zero_()
            self.read = self.fed[1:] if given.read_mask is None else new(self.T, self.B, given.fed.size(1))

    @property
    def queries(self) -> Tensor:
        return self.outs[-1] if self.given.current else self.tapes[-1].hs[:-1]

    @property
    def adds(self) -> bool:
        """Whether all that the values bring enters the first layer, so that it can be added as it is multiplied."""
        entering = self.given.entering
        return entering is not None and self.given.met is None and not self.given.current and entering.size(2) == self.G

    def forward(self) -> None:
        given, B = self.given, self.B
        recur = [Fixed(layer.weight, B) for layer in given.layers]
        below = [None if layer.below is None else Fixed(layer.below, B) for layer in given.layers]
        ask, feed, join, meet = (
            None if weight is None else Fixed(weight, B)
            for weight in (given.scoring.query, given.fed, given.join, given.met)
        )
        query = self.queries.unbind(0)
        fed = None if self.fed is None else self.fed.unbind(0)
        moved = None
        for t, x in enumerate(given.x.unbind(0)):
            if not given.current:
                moved = self._attend(t, query[t], ask, meet, x if self.adds else None)
                x = x if moved is None else moved if self.adds else x + moved[:, : self.G]
            if feed is not None and fed is not None and t:
                x = x + feed(fed[t])
            for number, (layer, tape) in enumerate(zip(given.layers, self.tapes, strict=True)):
                product = below[number]
                if product is not None:
                    x = product(self.out[number - 1][t], layer.below_bias)
                tape.step(t, t, t + 1, x, recur[number](tape.h[t], layer.bias))
                self._put_out(t, number, layer)
            if given.current:
                moved = self._attend(t, query[t], ask, meet, None)
            if self.fed is not None:
                self._read(t, moved, join)

    def _put_out(self, t: int, number: int, layer: Layer) -> None:
        y = self.tapes[number].h[t + 1]
        residual = self.given.residual and number
        if residual:
            y = y + self.out[number - 1][t]
        if layer.mask is not None:
            y = y * layer.mask[t if layer.mask.size(0) > 1 else 0]
        if residual or layer.mask is not None:
            self.out[number][t].copy_(y)

    def _attend(
        self, t: int, query: Tensor, ask: Fixed | None, meet: Fixed | None, add: Tensor | None
    ) -> Tensor | None:
        """a_t; and the values under it, through the weights that they meet (B, F), with what is to be added."""
        a, entering = self.a[t], self.given.entering
        covered = None if self.covered is None else self.covered[t]
        scores = self.scores.score(t, query if ask is None else ask(query), covered)
        if self.padding is not None:
            scores.masked_fill_(self.padding, torch.finfo(scores.dtype).min)
        torch.softmax(scores, dim=1, out=a)
        if self.padding is not None and self.nowhere:
            a.masked_fill_(self.padding, 0.0)
        if self.covered is not None:
            torch.add(self.covered[t], a, out=self.covered[t + 1])
        if entering is None:
            return None
        row = a.unsqueeze(1)
        if add is not None:
            return torch.baddbmm(add.unsqueeze(1), row, entering).squeeze(1)
        moved = torch.bmm(row, entering).squeeze(1)
        if self.contexts is None or meet is None:
            return moved
        return meet(self.contexts[t].copy_(moved))

    def _read(self, t: int, moved: Tensor | None, join: Fixed | None) -> None:
        given, s = self.given, self.out[-1][t]
        assert self.read is not None
        assert self.fed is not None
        if join is None:
            self.fed[t + 1] = s
            return
        pre = join(s)
        if moved is not None:
            pre += moved if given.current else moved[:, self.G :]
        if given.base is not None:
            pre += given.base[t]
        self.read[t] = tanh_(pre)
        if given.read_mask is not None:
            torch.mul(self.read[t], given.read_mask[t], out=self.fed[t + 1])


class _Back:
    """The way back through a run."""

    def __init__(self, run: _Run, once: bool):
        self.run, self.once, given = run, once, run.given
        T, B = run.T, run.B
        for tape in run.tapes:
            tape.open(once)
        run.scores.open()
        self.recur = [Fixed(layer.weight.t(), B) for layer in given.layers]
        self.below = [None if layer.below is None else Fixed(layer.below.t(), B) for layer in given.layers]
        self.ask, self.feed, self.join, self.meet = (
            None if weight is None else Fixed(weight.t(), B)
            for weight in (given.scoring.query, given.fed, given.join, given.met)
        )
        self.d_contexts = None if run.contexts is None else torch.empty_like(run.contexts)
        self.d_asked = torch.empty_like(run.scores.asked)
        self.d_asked_of = self.d_asked.unbind(0)
        self.d_read = given.x.new_empty(T, B, given.join.size(0)) if given.join is not None else None
        self.d_covered = None if run.covered is None else torch.zeros_like(run.covered[0])
        self.dh = [torch.zeros_like(tape.hs[0]) for tape in run.tapes]
        self.dc: list[Tensor | None] = [None] * len(run.tapes)

    def walk(self, d_states: Tensor | None, d_attended: Tensor | None, d_fed: Tensor | None) -> None:
        run, given = self.run, self.run.given
        d_o: Tensor | None = None  # from the next step
        d_state = (torch.zeros_like(self.dh[-1]),) * run.T if d_states is None else d_states.unbind(0)
        for t in range(run.T - 1, -1, -1):
            ds = d_state[t]
            d_a = None if d_attended is None else d_attended[t]
            d_moved = None
            if d_fed is not None:
                d_o = d_fed[t] if d_o is None else d_o + d_fed[t]
                if self.join is None:
                    ds = ds + d_o
                else:
                    d_moved = self._unread(t, d_o)
                    ds = ds + self.join(d_moved)
            if given.current:
                ds = ds + self._unattend(t, d_a, d_moved)
            for number in range(len(run.tapes) - 1, -1, -1):
                ds = self._unstep(t, number, ds)
            dx = run.tapes[0].dx_of[t]
            if self.feed is not None:
                d_o = self.feed(dx)
            if not given.current:
                self.dh[-1] = self.dh[-1] + self._unattend(
                    t, d_a, dx if d_moved is None else torch.cat([dx, d_moved], dim=1)
                )
        # What the weights were laid out as is not needed any more: their gradients are of its size.
        self.recur, self.below, self.ask, self.feed, self.join, self.meet = [], [], None, None, None, None

    def _unread(self, t: int, d_o: Tensor) -> Tensor:
        run = self.run
        assert run.read is not None
        assert self.d_read is not None
        if run.given.read_mask is not None:
            d_o = d_o * run.given.read_mask[t]
        self.d_read[t] = _tanh_backward(d_o, run.read[t])
        return self.d_read[t]

    def _unattend(self, t: int, d: Tensor | None, d_moved: Tensor | None) -> Tensor:
        """The gradient of the query (B, Q)."""
        run, a = self.run, self.run.a[t]
        if d_moved is not None and self.meet is not None and self.d_contexts is not None:
            d_moved = self.d_contexts[t].copy_(self.meet(d_moved))
        if d_moved is not None and run.given.entering is not None:
            # One row a batch, not one column: the same product, in a tenth of the time.
            moved = torch.bmm(d_moved.unsqueeze(1), run.given.entering.transpose(1, 2)).squeeze(1)
            d = moved if d is None else moved.add_(d)
        if self.d_covered is not None:
            d = self.d_covered if d is None else d + self.d_covered
        d = torch.zeros_like(a) if d is None else _softmax_backward(d, a, 1, a.dtype)
        d_asked, d_covered = run.scores.back(t, d, None if run.covered is None else run.covered[t])
        if self.d_covered is not None and d_covered is not None:
            self.d_covered = self.d_covered + d_covered
        self.d_asked_of[t].copy_(d_asked)
        return d_asked if self.ask is None else self.ask(d_asked)

    def _unstep(self, t: int, number: int, dy: Tensor) -> Tensor:
        """Back through a layer; the gradient of its input (B, H), or, of the first, what is not asked for."""
        run, tape, layer = self.run, self.run.tapes[number], self.run.given.layers[number]
        if layer.mask is not None:
            dy = dy * layer.mask[t if layer.mask.size(0) > 1 else 0]
        dr, past, self.dc[number] = tape.back(t, t, t + 1, dy + self.dh[number], self.dc[number])
        self.dh[number] = self.recur[number](dr)
        if past is not None:
            self.dh[number] += past
        product = self.below[number]
        if product is None:
            return dy
        dx = product(tape.dx_of[t])
        return dx + dy if run.given.residual else dx

    def gradients(self) -> dict[str, Tensor | None]:
        """One product for every weight."""
        run, given = self.run, self.run.given
        dx = run.tapes[0].dx
        found: dict[str, Tensor | None] = {"x": dx, "v": run.scores.d_v, "coverage": run.scores.d_coverage}
        found["keys"] = run.scores.d_keys()
        found["base"] = self.d_read
        if given.scoring.query is not None:
            found["query"] = outer(self.d_asked, run.queries)
        if given.fed is not None and run.fed is not None:
            found["fed"] = outer(dx, run.fed[:-1])
        if self.d_read is not None:
            found["join"] = outer(self.d_read, run.outs[-1])
        if given.entering is not None:
            parts = [part for part in (None if given.current else dx, self.d_read) if part is not None]
            moved = parts[0] if len(parts) == 1 else torch.cat(parts, dim=2)
            if run.contexts is not None and self.d_contexts is not None:
                found["met"] = outer(moved, run.contexts)
                moved = self.d_contexts
            found["entering"] = torch.bmm(run.attended.permute(1, 2, 0), moved.transpose(0, 1))
        for number in range(len(given.layers) - 1, -1, -1):
            found |= self._of_layer(number)
            if self.once:  # from the top down, so that what a layer has kept goes as the gradients come
                run.tapes.pop()
                run.outs.pop()
                run.out.pop()
        return found

    def _of_layer(self, number: int) -> dict[str, Tensor | None]:
        run, layer, tape = self.run, self.run.given.layers[number], self.run.tapes[number]
        found: dict[str, Tensor | None] = {f"weight {number}": tape.d_weight(tape.hs[:-1])}
        if layer.bias is not None:
            found[f"bias {number}"] = tape.d_bias()
        if layer.below is not None:
            found[f"below {number}"] = outer(tape.dx, run.outs[number - 1])
        if layer.below_bias is not None:
            found[f"below bias {number}"] = tape.dx.sum((0, 1))
        return found | {f"state {number} 0": self.dh[number], f"state {number} 1": self.dc[number]}


class _Decode(Function):
    @staticmethod
    def forward(ctx: Any, given: Decoder, *tensors: Tensor | None) -> tuple[Tensor | None, ...]:
        ctx.set_materialize_grads(False)
        run = _Run(given)
        run.forward()
        # The way back needs the names of all tensors, but not what comes from the tokens.
        nothing = given.x.new_empty(0)
        run.given = replace(given, x=nothing, base=None if given.base is None else nothing)
        ctx.run = run
        # To be told when one was changed before the way back.
        ctx.save_for_backward(*(t for t in tensors if t is not given.x and t is not given.base))
        # New views: a run that held its own outputs would never be freed.
        return run.outs[-1][:], run.attended[:], None if run.fed is None else run.fed[1:]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        assert ctx.saved_tensors
        run: _Run = ctx.run
        once = last_pass()
        if once:  # or all of it would stay until the whole graph goes
            ctx.run = None
        d_states, d_attended, d_fed = gradients
        if run.fed is not None and d_fed is None:  # nobody asked for the readouts, but the next step did
            d_fed = torch.zeros_like(run.fed[1:])
        back = _Back(run, once)
        back.walk(d_states, d_attended, d_fed)
        found = back.gradients()
        return None, *(None if tensor is None else found.get(name) for name, tensor in run.given.tensors())


def decode(given: Decoder) -> tuple[Tensor, Tensor, Tensor | None]:
    """Run the decoder; return s (T, B, H), attention (T, B, S) and, where they are fed, the readouts (T, B, R).

    >>> from windlass.nn.fused_attention import TanhTape
    >>> B, S, H, A = 2, 4, 3, 5
    >>> layer = Layer(LstmTape, torch.randn(4 * H, H), None, (torch.zeros(B, H), torch.zeros(B, H)))
    >>> scoring = Scoring(TanhTape, torch.randn(B, S, A), torch.randn(A, H), torch.randn(A))
    >>> given = Decoder(torch.randn(6, B, 4 * H), (layer,), False, scoring, torch.ones(B, S) > 0, False, None)
    >>> states, attended, _ = decode(given)
    >>> states.shape, attended.shape
    (torch.Size([6, 2, 3]), torch.Size([6, 2, 4]))
    """
    states, attended, read = _Decode.apply(given, *(tensor for _, tensor in given.tensors()))  # type: ignore[no-untyped-call]
    return states, attended, read
