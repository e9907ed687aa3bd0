"""The cells of xLSTM (Beck et al. 2024), with exponential gates: sLSTM, which mixes its units, and mLSTM, which is
parallel.

Of the blocks around them in the paper, the norm of an mLSTM's heads is part of the cell; convolutions and wider
projections are not. A stack connects layers with `connect: residual`.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal, Self, final

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from windlass.core.errors import RecipeError
from windlass.core.records import CellState
from windlass.nn.cell import Cell, CellBase, GatedOptions, Products
from windlass.nn.fast.activation import tanh
from windlass.nn.parallel_cells import ParallelCell

EMPTY = -1000.0
"""The log of a normaliser that has summed nothing: exp of it is 0, and unlike -inf it gives no NaN."""

CHUNK = 64
"""Steps that an mLSTM computes at once: the work within a chunk is quadratic in it."""


@final
class SLSTM(Cell):
    """The sLSTM of xLSTM (Beck et al. 2024): an LSTM with an exponential input gate and a normaliser.

    i = exp(W_i x + U_i h + b_i)    f, o = sigmoid(W x + U h + b)    z = tanh(W_z x + U_z h + b_z)
    c' = f * c + i * z              n' = f * n + i                   h' = o * c' / n'

    The state holds c / n and log n, which never overflow: c'/n' is an average of c/n and z, and
    log n' = log(exp(log f + log n) + exp(log i)). These are the values of the published stabilised form.

    >>> cell = SLSTM.Options().build(3, 5)
    >>> h, mean, log_n = cell.step(cell.project(torch.zeros(2, 3)), cell.zero_state(2, torch.zeros(1)))
    >>> h.shape, log_n.tolist()[0]  # n' = i = 1
    (torch.Size([2, 5]), [0.0, 0.0, 0.0, 0.0, 0.0])
    """

    parts = 3
    sums_input = True

    class Options(GatedOptions):
        """An sLSTM cell."""

        kind: Literal["slstm"] = "slstm"

    def __init__(self, input_size: int, size: int, options: Options):
        super().__init__(input_size, size, 4, options)  # gates in the order f, o, i, z
        if self.bias is not None:
            self.bias.data[:size] = torch.linspace(3.0, 6.0, size)  # forget gates start nearly open, as published

    def step(self, projected: Tensor, state: CellState, products: Products = None) -> CellState:
        """h' = o * c' / n'."""
        h, mean, log_n = state
        (product,) = products or self.products()
        f, o, log_i, z = product(h, projected).chunk(4, dim=1)
        kept = F.logsigmoid(f) + log_n
        mean = torch.lerp(tanh(z), mean, torch.sigmoid(kept - log_i))
        return torch.sigmoid(o) * mean, mean, torch.logaddexp(kept, log_i)

    def gates(self, projected: Tensor, state: CellState, products: Products = None) -> dict[str, Tensor]:
        """f and o; i = exp(...) has no bound."""
        (product,) = products or self.products()
        f, o, _, _ = product(state[0], projected).chunk(4, dim=1)
        return {"forget": torch.sigmoid(f), "output": torch.sigmoid(o)}

    def zero_state(self, rows: int, like: Tensor) -> CellState:
        """c = n = 0."""
        zeros = like.new_zeros(rows, self.size)
        return zeros, zeros, torch.full_like(zeros, EMPTY)


@final
class MLSTM(ParallelCell):
    """The mLSTM of xLSTM (Beck et al. 2024): a matrix as memory, written and read by keys, values and queries.

    q, v = W x + b    k = (W_k x + b_k) / sqrt(d)    i = exp(w_i x + b_i)    f, o = sigmoid(W x + b)
    C' = f C + i k v'    n' = f n + i k              h' = o * norm((q' C') / max(|q' n'|, 1))

    Every head of d units has a matrix C, d x d, and one gate i and f. C and n are held divided by exp(m), as published,
    with m' = max(log f + m, log i), so that nothing overflows. What is read has no bound, as q' n' may be small where
    q' C' is not: a layer norm of every head, which the authors' blocks have behind the cell, keeps stacks trainable.

    >>> cell = MLSTM.Options(heads=2).build(3, 8)
    >>> state = cell.step(cell.project(torch.zeros(2, 3)), cell.zero_state(2, torch.zeros(1)))
    >>> state[0].shape, len(state)  # h, the 4 rows of C, n and m
    (torch.Size([2, 8]), 7)
    """

    unread = 1

    class Options(CellBase):
        """An mLSTM cell."""

        stateful: ClassVar[bool] = False  # a summary is no matrix
        kind: Literal["mlstm"] = "mlstm"
        heads: int = Field(4, ge=1, description="heads, each with its matrix; they share the units of the layer")
        norm: bool = Field(True, description="layer norm of what every head reads, before the output gate")

        @classmethod
        def tiny(cls) -> tuple[Self, ...]:
            """One head and several, with and without their norm."""
            return cls(heads=1), cls(heads=2, norm=False)

    def __init__(self, input_size: int, size: int, options: Options):
        if size % options.heads:
            raise RecipeError(
                f"an mLSTM of {size} units cannot be shared among {options.heads} heads: change cell.heads or size"
            )
        self.heads, self.width = options.heads, size // options.heads
        if options.norm and self.width == 1:
            raise RecipeError(f"the norm of an mLSTM's heads needs 2 units and more in each: lower cell.heads ({size})")
        super().__init__(input_size, size, [size] * 4 + [options.heads] * 2)  # q, k, v, o, i, f
        self.parts = self.width + 3
        assert self.bias is not None
        self.bias.data[-self.heads :] = torch.linspace(3.0, 6.0, self.heads)
        self.scale = nn.Parameter(torch.ones(size)) if options.norm else None

    def _gates(self, projected: Tensor) -> tuple[Tensor, ...]:
        """q, k and v (..., N, d), o (..., H), log i and log f (..., N)."""
        *qkv, o, log_i, f = projected.split([self.size] * 4 + [self.heads] * 2, dim=-1)
        q, k, v = (part.unflatten(-1, (self.heads, self.width)) for part in qkv)
        return q, k / math.sqrt(self.width), v, torch.sigmoid(o), log_i, F.logsigmoid(f)

    def _unpack(self, state: CellState) -> tuple[Tensor, Tensor, Tensor]:
        """C (B, N, d, d), n (B, N, d) and m (B, N)."""
        _, *rows, n, m = (part.unflatten(1, (self.heads, self.width)) for part in state)
        return torch.stack(rows, 2), n, m[..., 0]

    def _pack(self, h: Tensor, memory: Tensor, n: Tensor, m: Tensor) -> CellState:
        rows = memory.transpose(1, 2).flatten(2).unbind(1)
        return h, *rows, n.flatten(1), m[..., None].expand_as(n).flatten(1)

    def step(self, projected: Tensor, state: CellState, products: Products = None) -> CellState:
        """C' = f C + i k v', h' = o * norm((q' C') / max(|q' n'|, 1))."""
        q, k, v, o, log_i, log_f = self._gates(projected)
        memory, n, m = self._unpack(state)
        # The values do not depend on m, so no gradient needs to go through it.
        m_new = torch.maximum(log_f + m, log_i).detach()
        f, i = torch.exp(log_f + m - m_new)[..., None], torch.exp(log_i - m_new)[..., None]
        n = f * n + i * k
        memory = f[..., None] * memory + (i * k)[..., None] * v[..., None, :]
        read = (q[..., None, :] @ memory).squeeze(-2)
        norm = torch.maximum((q * n).sum(-1).abs(), torch.exp(-m_new))
        return self._pack(self._output(o, read / norm[..., None]), memory, n, m_new)

    def _output(self, o: Tensor, read: Tensor) -> Tensor:
        """o * norm(read) with what the heads read (..., N, d): (..., H)."""
        if self.scale is None:
            return o * read.flatten(-2)
        return o * self.scale * F.layer_norm(read, (self.width,)).flatten(-2)

    def gates(self, projected: Tensor, state: CellState, products: Products = None) -> dict[str, Tensor]:
        """f, the same for all units of a head, and o; i = exp(...) has no bound."""
        *_, o, _, log_f = self._gates(projected)
        return {"forget": log_f.exp().repeat_interleave(self.size // log_f.size(-1), dim=-1), "output": o}

    def scan(self, projected: Tensor, state: CellState, real: Tensor | None) -> tuple[Tensor, CellState]:
        """In chunks: within each, all steps at once as gated attention; between them, the state."""
        q, k, v, o, log_i, log_f = self._gates(projected)
        if real is not None:
            log_i, log_f = log_i.masked_fill(~real, -torch.inf), log_f * real
        carried, outputs = self._unpack(state), []
        parts = (part.movedim(0, 2).split(CHUNK, dim=2) for part in (q, k, v, log_i, log_f))  # (B, N, S, ...)
        for chunk in zip(*parts, strict=True):
            read, carried = _chunk(chunk, carried)
            outputs.append(read)
        h = self._output(o, torch.cat(outputs, 2).movedim(2, 0))
        last = self._pack(self.last_output(h, state[0], real), *carried)
        if real is not None:  # m of an empty row may differ within a head, as it came
            last = tuple(torch.where(real.any(0), new, old) for new, old in zip(last, state, strict=True))
        return h, last


def _chunk(
    gates: tuple[Tensor, ...], carried: tuple[Tensor, Tensor, Tensor]
) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
    """What all steps of a chunk read (B, N, S, d) with their q, k, v, log i and log f, and C, n and m after it.

    Step t has of step s <= t the weight f_{s+1} ... f_t i_s, and of the state before the chunk f_1 ... f_t.
    """
    q, k, v, log_i, log_f = gates
    memory, n, m = carried
    kept = log_f.cumsum(2)  # (B, N, S)
    later = torch.ones(kept.size(2), kept.size(2), dtype=torch.bool, device=q.device).triu(1)
    log_w = (kept[..., None] + (log_i - kept)[..., None, :]).masked_fill(later, -torch.inf)  # (B, N, S, S)
    log_before = kept + m[..., None]
    m_new = torch.maximum(log_w.amax(3), log_before).detach()
    w, before = torch.exp(log_w - m_new[..., None]), torch.exp(log_before - m_new)[..., None]
    scores = q @ k.transpose(2, 3) * w
    read = scores @ v + before * (q @ memory)
    norm = torch.maximum((scores.sum(3) + (before * q * n[:, :, None]).sum(3)).abs(), torch.exp(-m_new))
    k, before = k * w[:, :, -1, :, None], before[:, :, -1]
    carried = k.transpose(2, 3) @ v + before[..., None] * memory, k.sum(2) + before * n, m_new[:, :, -1]
    return read / norm[..., None], carried
