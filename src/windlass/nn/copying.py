"""Copying: a token is written from the vocabulary, or copied from a place of the source that is attended to.

    p(w) = g softmax(z)_w + (1 - g) sum of a_j over places j that hold w        (See et al. 2017)

The vocabulary of a row is extended by what its own source holds beyond it: ids V, V + 1 ... Such a word can be copied
and never written.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

from windlass.nn.loss import block_rows
from windlass.nn.product import times

MOST = 1e30
"""The largest gradient of a share."""


def mixture(logits: Tensor, gate: Tensor, weights: Tensor, ids: Tensor, more: int) -> Tensor:
    """Log probabilities (N, V + more) of logits (N, V), the gate's logit (N,) and weights over places (N, S).

    `ids` (N, S) are what the places hold, in the extended vocabulary. What can neither be written nor copied is -inf.

    >>> held = torch.tensor([[0, 2, 2]])
    >>> mixture(torch.zeros(1, 2), torch.zeros(1), torch.tensor([[0.5, 0.3, 0.2]]), held, more=1).exp().tolist()
    [[0.5, 0.25, 0.25]]
    """
    g = torch.sigmoid(gate)[:, None]
    p = F.pad(torch.softmax(logits, dim=1) * g, (0, more)).scatter_add(1, ids, (1 - g) * weights)
    never = p == 0  # whose logarithm has no gradient
    return p.masked_fill(never, 1).log().masked_fill(never, -torch.inf)


def copied(weights: Tensor, ids: Tensor, gold: Tensor) -> Tensor:
    """The weight (B, T) on places that hold the gold token: weights (B, T, S), ids (B, S), gold (B, T).

    >>> copied(torch.tensor([[[0.5, 0.3, 0.2]]]), torch.tensor([[4, 7, 7]]), torch.tensor([[7]])).tolist()
    [[0.5]]
    """
    return (weights * (ids[:, None] == gold[..., None])).sum(-1)


def mixed_logprob(written: Tensor, gate: Tensor, share: Tensor, beyond: Tensor) -> Tensor:
    """log p of gold tokens, from log softmax(z), the gate's logit and the copied share, all of one shape.

    `beyond` is True for a token that is not in the vocabulary, which `written` says nothing of.

    >>> half, none = torch.tensor([0.5]).log(), torch.tensor([0.0])
    >>> mixed_logprob(half, none, torch.tensor([0.25]), torch.tensor([False])).exp().item()
    0.375
    """
    written = F.logsigmoid(gate) + written.masked_fill(beyond, -torch.inf)
    return torch.logaddexp(written, F.logsigmoid(-gate) + _log(share, beyond))


def _log(share: Tensor, beyond: Tensor) -> Tensor:
    """log of a share, -inf where it is 0; what can only be copied has a chance, however small."""
    least = torch.finfo(share.dtype).tiny
    share = torch.where(beyond, share.clamp(min=least), share)
    none = share <= 0
    return share.masked_fill(none, 1).log().masked_fill(none, -torch.inf)


class _CopyLoss(Function):
    """The loss of an output layer beside copying, with its gradients taken on the way forward, block by block."""

    @staticmethod
    def forward(
        ctx: Any,
        readout: Tensor,
        weight: Tensor,
        bias: Tensor,
        gate: Tensor,
        share: Tensor,
        gold: Tensor,
        smoothing: float,
        train: bool,
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(readout, weight, bias, gate, share, gold)
        ctx.smoothing = smoothing
        loss, nll, ctx.gradients = _in_blocks(readout, weight, bias, gate, share, gold, smoothing, train)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        found, ctx.gradients = ctx.gradients, None  # handed over; a second pass takes them anew
        if found is None:
            readout, weight, bias, gate, share, gold = ctx.saved_tensors
            found = _in_blocks(readout, weight, bias, gate, share, gold, ctx.smoothing, True)[2] or ()
        return (*(part.mul_(gradients[0]) for part in found), None, None, None)


def _in_blocks(
    readout: Tensor,
    weight: Tensor,
    bias: Tensor,
    gate: Tensor,
    share: Tensor,
    gold: Tensor,
    smoothing: float,
    train: bool,
) -> tuple[Tensor, Tensor, tuple[Tensor, ...] | None]:
    """Loss, negative log likelihood and, in training, the gradients of readout, weight, bias, gate and share.

    With r the part of p(gold) that is written:  d/dz = r (softmax(z) - gold)    d/dgate = g - r    d/dshare = (g - 1)/p
    """
    M, V = readout.size(0), weight.size(0)
    rows = block_rows(M, V)
    beyond = gold >= V
    known = gold.masked_fill(beyond, 0)[:, None]  # any id that there is: it counts for nothing
    nll, smooth = readout.new_zeros(()), readout.new_zeros(())
    d_gate, d_share = torch.empty_like(gate), torch.empty_like(share)
    found = (torch.empty_like(readout), torch.zeros_like(weight), torch.zeros_like(bias)) if train else None
    held = readout.new_empty(rows, V)
    for start in range(0, M, rows):
        block = slice(start, start + rows)
        x, y, out, z = readout[block], known[block], beyond[block], gate[block]
        logp = torch.log_softmax(times(x, weight, bias), dim=1, out=held[: len(x)])
        written = logp.gather(1, y).squeeze(1)
        whole = mixed_logprob(written, z, share[block], out)
        nll -= whole.sum()
        if smoothing:
            smooth -= logp.mean(1).sum()
        if found is None:
            continue
        r = (F.logsigmoid(z) + written - whole).exp().masked_fill(out, 0) * (1 - smoothing)
        d_gate[block] = torch.sigmoid(z) * (1 - smoothing) - r
        # Finite even for what is all but impossible: it will be multiplied by 0 where no place holds the token.
        d_share[block] = (F.logsigmoid(-z) - whole).exp().clamp(max=MOST) * (smoothing - 1)
        d_readout, d_weight, d_bias = found
        logp.exp_().mul_((r + smoothing)[:, None])
        if smoothing:
            logp -= smoothing / V
        logp.scatter_add_(1, y, -r[:, None])
        d_readout[block] = times(logp, weight.t())
        d_weight.addmm_(logp.t(), x)
        d_bias += logp.sum(0)
    loss = (1 - smoothing) * nll + smoothing * smooth
    return loss, nll, None if found is None else (*found, d_gate, d_share)


def copy_loss(
    readout: Tensor, weight: Tensor, bias: Tensor, gate: Tensor, share: Tensor, gold: Tensor, smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """The summed loss to minimise and the summed negative log likelihood, without ever holding all of the logits.

    loss = (1 - s) * -log p(gold) + s * mean over the vocabulary of -log softmax(z)

    Readouts are (M, R), gate, share and gold (M,). What is copied is not smoothed: a source says what it holds.

    >>> o, w, b = torch.randn(2, 3), torch.randn(4, 3), torch.randn(4)
    >>> loss, nll = copy_loss(o, w, b, torch.zeros(2), torch.tensor([0.0, 0.5]), torch.tensor([1, 5]))
    >>> written = torch.softmax(o @ w.t() + b, 1)[0, 1]
    >>> torch.allclose(nll, -(written / 2).log() - torch.tensor(0.25).log())
    True
    """
    given = (readout, weight, bias, gate, share)
    train = torch.is_grad_enabled() and any(part.requires_grad for part in given)
    loss, nll = _CopyLoss.apply(*given, gold, smoothing, train)  # type: ignore[no-untyped-call]
    return loss, nll
