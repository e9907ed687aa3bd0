"""Losses, as sums over real places, so that batches of unequal size weigh what they hold."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

from windlass.nn.product import packs, times

BLOCK = 2**21
"""How many logits there are at once: 8 MB, which stay in a cache while they become gradients."""
UNIT = 32
"""Where oneDNN multiplies, blocks have a multiple of so many rows, so that a few kernels do for all batches."""
FEWEST_ROWS = 128
"""A block of fewer rows would spend its time on adding to the weight's gradient, which is as long as the vocabulary."""


def cross_entropy(logits: Tensor, gold: Tensor, smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
    """Return the summed loss to minimise and the summed negative log likelihood, for logits (M, V) and gold (M,).

    loss = (1 - s) * -log p(gold) + s * mean over all outputs of -log p      (Szegedy et al. 2016)

    >>> loss, nll = cross_entropy(torch.zeros(3, 4), torch.tensor([0, 1, 2]), smoothing=0.1)
    >>> round(nll.item(), 4) == round(3 * torch.tensor(4.0).log().item(), 4) == round(loss.item(), 4)
    True
    """
    logp = torch.log_softmax(logits, dim=-1)
    nll = -logp.gather(1, gold[:, None]).sum()
    loss = nll if not smoothing else (1 - smoothing) * nll - smoothing * logp.mean(1).sum()
    return loss, nll.detach()


def block_rows(rows: int, vocabulary: int) -> int:
    """How many of some rows of logits to hold at once: blocks of about one size.

    >>> block_rows(1000, 8000), block_rows(0, 8000)
    (250, 1)
    """
    most = max(FEWEST_ROWS, BLOCK // vocabulary)
    return -(-rows // max(1, -(-rows // most))) or 1


class _OutputLoss(Function):
    """Cross-entropy of an output layer, with its gradients taken on the way forward, while a block is in the cache."""

    @staticmethod
    def forward(
        ctx: Any, readout: Tensor, weight: Tensor, bias: Tensor, gold: Tensor, smoothing: float, train: bool
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(readout, weight, bias, gold)
        ctx.smoothing, ctx.share = smoothing, _share(readout)
        loss, nll, ctx.gradients = _in_blocks(readout, weight, bias, gold, smoothing, train)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        # Handed over rather than kept, so that the weight's gradient need not be copied; a second pass takes them anew.
        found, ctx.gradients = ctx.gradients, None
        if found is None:
            readout, weight, bias, gold = ctx.saved_tensors
            found = _in_blocks(readout, weight, bias, gold, ctx.smoothing, True)[2] or ()
        asked, made = gradients[0], gradients[0].new_tensor(ctx.share)
        if asked.device.type != "cpu" or not torch.equal(asked, made):
            found = tuple(part.mul_(asked / made) for part in found)
        return (*found, None, None, None)


def _share(readout: Tensor) -> float:
    """What the gradients are multiplied by as they are made: most ask for those of the mean."""
    return 1 / max(1, readout.size(0))


def _in_blocks(
    readout: Tensor, weight: Tensor, bias: Tensor, gold: Tensor, smoothing: float, train: bool
) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor, Tensor] | None]:
    """Loss, negative log likelihood and, in training, its `_share` of the gradients of readout, weight and bias."""
    M, V, share = readout.size(0), weight.size(0), _share(readout)
    unit = UNIT if packs(readout) else 1
    rows = _up(block_rows(M, V), unit)
    loss, nll = readout.new_zeros(()), readout.new_zeros(())
    found = (torch.empty_like(readout), torch.empty_like(weight), torch.zeros_like(bias)) if train else None
    if found is not None and not M:
        found[1].zero_()
    right = gold[:, None]
    room = readout.new_empty(rows, V)
    for start in range(0, M, rows):
        block = slice(start, start + rows)
        x, y = readout[block], right[block]
        n, wide = len(x), _up(len(x), unit)
        padded = x if n == wide else F.pad(x, (0, 0, 0, wide - n))
        logits = times(padded, weight, bias)[:n]
        p = torch.softmax(logits, dim=1, out=room[:n])
        # log p = logits - norm, and so norm = logits - log p, taken where p cannot vanish. One exp instead of two.
        norm = logits.amax(1) - p.amax(1).log()
        lost = (norm - logits.gather(1, y)[:, 0]).sum()
        nll += lost
        loss += lost if not smoothing else (1 - smoothing) * lost + smoothing * (norm - logits.mean(1)).sum()
        if found is not None:
            d_readout, d_weight, d_bias = found
            if smoothing:
                p -= smoothing / V
            p.scatter_add_(1, y, p.new_full(y.shape, smoothing - 1))
            d_bias.add_(p.sum(0), alpha=share)  # while p is in the cache: what follows walks over the whole weight
            room[n:wide] = 0
            torch.mul(times(room[:wide], weight.t())[:n], share, out=d_readout[block])
            d_weight.addmm_(p.t(), x, beta=1 if start else 0, alpha=share)
    return loss, nll, found


def _up(number: int, unit: int) -> int:
    """The next multiple of a unit."""
    return -(-number // unit) * unit


def output_loss(
    readout: Tensor, weight: Tensor, bias: Tensor, gold: Tensor, smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """What `cross_entropy` gives for logits = readout (M, R) W' + b, without ever holding all of the logits.

    >>> o, w, b = torch.randn(3, 2), torch.randn(4, 2), torch.randn(4)
    >>> loss, nll = output_loss(o, w, b, torch.tensor([0, 1, 2]), smoothing=0.1)
    >>> torch.allclose(loss, cross_entropy(o @ w.t() + b, torch.tensor([0, 1, 2]), smoothing=0.1)[0])
    True
    """
    train = torch.is_grad_enabled() and any(part.requires_grad for part in (readout, weight, bias))
    loss, nll = _OutputLoss.apply(readout, weight, bias, gold, smoothing, train)  # type: ignore[no-untyped-call]
    return loss, nll


def alignment_loss(weights: Tensor, gold: Tensor) -> Tensor:
    """Cross-entropy of attention weights (B, T, S) against gold ones; a row of zeros in gold is not counted.

    loss = - sum_t sum_s gold_ts log a_ts      (Liu et al. 2016)

    >>> round(alignment_loss(torch.tensor([[[0.5, 0.5]]]), torch.tensor([[[1.0, 0.0]]])).item(), 4)
    0.6931
    """
    return -(gold * weights.clamp(min=1e-8).log()).sum()


def coverage_loss(weights: Tensor, coverage: Tensor) -> Tensor:
    """What is attended to again: sum_s min(a_ts, coverage_ts), for each t of (B, T, S)      (See et al. 2017).

    >>> round(coverage_loss(torch.tensor([[[0.9, 0.1]]]), torch.tensor([[[0.2, 0.8]]])).item(), 4)
    0.3
    """
    return torch.minimum(weights, coverage).sum(-1)
