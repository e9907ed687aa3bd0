"""A decoder that attends with its previous state, over whole targets, with back-propagation derived by hand.

    a_t = softmax(v . tanh(U h_{t-1} + k_j))      x_t + sum_j a_tj p_j -> cell -> h_t

The memory's values enter already multiplied by the cell's weights, p_j = W v_j: one product for the batch instead of
one a step. A step takes one product for gates and query together, and the gradients of all weights wait for the end
of the loop. Exact against the decoder's own steps (a contract). Time comes first: (T, B, ...).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from windlass.nn.fused import GruTape, LstmTape, Tape

_tanh_backward = torch.ops.aten.tanh_backward


class _Attending(Function):
    @staticmethod
    def forward(
        ctx: Any,
        kind: type[LstmTape] | type[GruTape],
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        keys: Tensor,
        v: Tensor,
        entering: Tensor,
        mask: Tensor,
        *state: Tensor,
    ) -> tuple[Tensor, Tensor]:
        T, G = x.size(0), x.size(2)
        B, S, A = keys.shape
        tape = kind(T, state)
        attended = x.new_empty(T, B, S)
        squashed = x.new_empty(T, B, S, A)  # tanh(U h + k)
        padding = None if bool(mask.all()) else ~mask
        turned = weight.t()
        for t in range(T):
            both = tape.hs[t] @ turned if bias is None else torch.addmm(bias, tape.hs[t], turned)
            torch.add(both[:, None, G:], keys, out=squashed[t]).tanh_()
            scores = squashed[t] @ v
            if padding is not None:
                scores.masked_fill_(padding, torch.finfo(scores.dtype).min)
            torch.softmax(scores, dim=1, out=attended[t])
            if padding is not None:
                attended[t].masked_fill_(padding, 0.0)
            moved = torch.baddbmm(x[t][:, None], attended[t][:, None], entering)[:, 0]
            tape.step(t, t, t + 1, moved, both[:, :G])
        ctx.tape, ctx.biased = tape, bias is not None
        ctx.save_for_backward(weight, v, entering, attended, squashed)
        return tape.hs[1:], attended

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        d_outputs, d_attended = gradients
        weight, v, entering, attended, squashed = ctx.saved_tensors
        tape: Tape = ctx.tape
        tape.open()
        T, B, G = tape.dx.shape
        d_both = torch.empty(T, B, weight.size(0), dtype=v.dtype, device=v.device)
        d_keys, d_v = torch.zeros_like(squashed[0]), torch.zeros_like(v)
        dh, dc = torch.zeros_like(tape.hs[0]), None
        for t in range(T - 1, -1, -1):
            past, dc = tape.back(t, t, dh + d_outputs[t], dc)
            wanted = torch.baddbmm(d_attended[t][..., None], entering, tape.dx[t][..., None])[..., 0]  # (B, S)
            scores = attended[t] * (wanted - (attended[t] * wanted).sum(1, keepdim=True))
            d_v.addmv_(squashed[t].flatten(0, 1).t(), scores.flatten())
            inner = _tanh_backward(scores[..., None] * v, squashed[t])  # (B, S, A)
            d_keys += inner
            d_both[t, :, :G] = tape.dr[t]
            torch.sum(inner, dim=1, out=d_both[t, :, G:])
            dh = d_both[t] @ weight if past is None else torch.addmm(past, d_both[t], weight)
        flat = d_both.flatten(0, 1)
        d_weight = flat.t() @ tape.hs[:-1].flatten(0, 1)
        d_bias = flat.sum(0) if ctx.biased else None
        d_entering = torch.bmm(attended.permute(1, 2, 0), tape.dx.transpose(0, 1))
        state = (dh,) if dc is None else (dh, dc)
        return None, tape.dx, d_weight, d_bias, d_keys, d_v, d_entering, None, *state


def attend_and_step(
    kind: type[LstmTape] | type[GruTape],
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    query: Tensor,
    keys: Tensor,
    v: Tensor,
    entering: Tensor,
    mask: Tensor,
    state: tuple[Tensor, ...],
) -> tuple[Tensor, Tensor]:
    """Run the decoder; return its states (T, B, H) and attention (T, B, S).

    x (T, B, G) projected tokens; weight (G, H) and bias (G) of the cell; query (A, H) and v (A) of the attention;
    keys (B, S, A); entering (B, S, G) the values through the cell's weights; mask (B, S).

    >>> B, S, H, A = 2, 4, 3, 5
    >>> states, attended = attend_and_step(
    ...     LstmTape, torch.randn(6, B, 4 * H), torch.randn(4 * H, H), None, torch.randn(A, H), torch.randn(B, S, A),
    ...     torch.randn(A), torch.randn(B, S, 4 * H), torch.ones(B, S) > 0, (torch.zeros(B, H), torch.zeros(B, H)))
    >>> states.shape, attended.shape
    (torch.Size([6, 2, 3]), torch.Size([6, 2, 4]))
    """
    both = torch.cat([weight, query])
    both_bias = None if bias is None else torch.cat([bias, bias.new_zeros(query.size(0))])
    states, attended = _Attending.apply(kind, x, both, both_bias, keys, v, entering, mask, *state)  # type: ignore[no-untyped-call]
    return states, attended
