"""Losses of an output layer in blocks of rows: the logits of a whole batch are never held at once.

The gradients are taken in the forward pass, while a block is in the cache, as a scalar loss only scales them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

from windlass.nn.copying import mixed_logprob
from windlass.nn.fast.onednn import matmul, usable

BLOCK = 2**21
"""Logits that are held at once: 8 MB, which stay in the cache while they become gradients."""
UNIT = 32
"""If oneDNN multiplies, blocks have a multiple of this many rows, so that a few kernels serve all batches."""
FEWEST_ROWS = 128
"""A smaller block would spend its time on adding to the weight's gradient, which is as long as the vocabulary."""
LARGEST = 1e30
"""The largest gradient of a copied share."""


def block_rows(rows: int, vocabulary: int) -> int:
    """How many of `rows` rows of logits to hold at once: blocks of about one size.

    >>> block_rows(1000, 8000), block_rows(0, 8000)
    (250, 1)
    """
    most = max(FEWEST_ROWS, BLOCK // vocabulary)
    return -(-rows // max(1, -(-rows // most))) or 1


class _OutputLoss(Function):
    """Cross-entropy of an output layer, with its gradients taken in the forward pass, while a block is in the cache."""

    @staticmethod
    def forward(
        ctx: Any, readout: Tensor, weight: Tensor, bias: Tensor, gold: Tensor, smoothing: float, train: bool
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(readout, weight, bias, gold)
        ctx.smoothing, ctx.share = smoothing, _share(readout)
        loss, nll, ctx.gradients = _output_blocks(readout, weight, bias, gold, smoothing, train)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        # Handed over, so that the weight's gradient need not be copied; a second pass computes them again.
        own, ctx.gradients = ctx.gradients, None
        if own is None:
            readout, weight, bias, gold = ctx.saved_tensors
            own = _output_blocks(readout, weight, bias, gold, ctx.smoothing, True)[2] or ()
        factor, included = gradients[0], gradients[0].new_tensor(ctx.share)
        if factor.device.type != "cpu" or not torch.equal(factor, included):
            own = tuple(part.mul_(factor / included) for part in own)
        return (*own, None, None, None)


def _share(readout: Tensor) -> float:
    """What the gradients are multiplied by as they are computed: most losses are means."""
    return 1 / max(1, readout.size(0))


def _output_blocks(
    readout: Tensor, weight: Tensor, bias: Tensor, gold: Tensor, smoothing: float, train: bool
) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor, Tensor] | None]:
    """Loss, negative log likelihood and, in training, its `_share` of the gradients of readout, weight and bias."""
    M, V, share = readout.size(0), weight.size(0), _share(readout)
    unit = UNIT if usable(readout) else 1
    rows = _up(block_rows(M, V), unit)
    loss, nll = readout.new_zeros(()), readout.new_zeros(())
    gradients = (torch.empty_like(readout), torch.empty_like(weight), torch.zeros_like(bias)) if train else None
    if gradients is not None and not M:
        gradients[1].zero_()
    right = gold[:, None]
    scratch = readout.new_empty(rows, V)
    for start in range(0, M, rows):
        block = slice(start, start + rows)
        x, y = readout[block], right[block]
        n, wide = len(x), _up(len(x), unit)
        padded = x if n == wide else F.pad(x, (0, 0, 0, wide - n))
        logits = matmul(padded, weight, bias)[:n]
        p = torch.softmax(logits, dim=1, out=scratch[:n])
        # norm = logits - log p, taken where p cannot vanish: one exp instead of two.
        norm = logits.amax(1) - p.amax(1).log()
        block_nll = (norm - logits.gather(1, y)[:, 0]).sum()
        nll += block_nll
        loss += block_nll if not smoothing else (1 - smoothing) * block_nll + smoothing * (norm - logits.mean(1)).sum()
        if gradients is not None:
            d_readout, d_weight, d_bias = gradients
            if smoothing:
                p -= smoothing / V
            p.scatter_add_(1, y, p.new_full(y.shape, smoothing - 1))
            d_bias.add_(p.sum(0), alpha=share)  # while p is in the cache: the products below read the whole weight
            scratch[n:wide] = 0
            torch.mul(matmul(scratch[:wide], weight.t())[:n], share, out=d_readout[block])
            d_weight.addmm_(p.t(), x, beta=1 if start else 0, alpha=share)
    return loss, nll, gradients


def _up(number: int, unit: int) -> int:
    """The next multiple of a unit."""
    return -(-number // unit) * unit


def output_loss(
    readout: Tensor, weight: Tensor, bias: Tensor, gold: Tensor, smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """`nn.loss.output_loss` in blocks.

    >>> from windlass.nn.loss import cross_entropy
    >>> o, w, b = torch.randn(3, 2), torch.randn(4, 2), torch.randn(4)
    >>> loss, nll = output_loss(o, w, b, torch.tensor([0, 1, 2]), smoothing=0.1)
    >>> torch.allclose(loss, cross_entropy(o @ w.t() + b, torch.tensor([0, 1, 2]), smoothing=0.1)[0])
    True
    """
    train = torch.is_grad_enabled() and any(part.requires_grad for part in (readout, weight, bias))
    loss, nll = _OutputLoss.apply(readout, weight, bias, gold, smoothing, train)  # type: ignore[no-untyped-call]
    return loss, nll


class _CopyLoss(Function):
    """`_OutputLoss` with copying."""

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
        loss, nll, ctx.gradients = _copy_blocks(readout, weight, bias, gate, share, gold, smoothing, train)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        own, ctx.gradients = ctx.gradients, None
        if own is None:
            readout, weight, bias, gate, share, gold = ctx.saved_tensors
            own = _copy_blocks(readout, weight, bias, gate, share, gold, ctx.smoothing, True)[2] or ()
        return (*(part.mul_(gradients[0]) for part in own), None, None, None)


def _copy_blocks(
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

    With r the generated part of p(gold):  d/dz = r (softmax(z) - gold)    d/dgate = g - r    d/dshare = (g - 1)/p
    """
    M, V = readout.size(0), weight.size(0)
    rows = block_rows(M, V)
    oov = gold >= V
    known = gold.masked_fill(oov, 0)[:, None]  # any id will do: its probability is not used
    nll, smooth = readout.new_zeros(()), readout.new_zeros(())
    d_gate, d_share = torch.empty_like(gate), torch.empty_like(share)
    gradients = (torch.empty_like(readout), torch.zeros_like(weight), torch.zeros_like(bias)) if train else None
    scratch = readout.new_empty(rows, V)
    for start in range(0, M, rows):
        block = slice(start, start + rows)
        x, y, out, z = readout[block], known[block], oov[block], gate[block]
        logp = torch.log_softmax(matmul(x, weight, bias), dim=1, out=scratch[: len(x)])
        generated = logp.gather(1, y).squeeze(1)
        whole = mixed_logprob(generated, z, share[block], out)
        nll -= whole.sum()
        if smoothing:
            smooth -= logp.mean(1).sum()
        if gradients is None:
            continue
        r = (F.logsigmoid(z) + generated - whole).exp().masked_fill(out, 0) * (1 - smoothing)
        d_gate[block] = torch.sigmoid(z) * (1 - smoothing) - r
        # Finite even if p is almost 0: it is multiplied by 0 if no place holds the token.
        d_share[block] = (F.logsigmoid(-z) - whole).exp().clamp(max=LARGEST) * (smoothing - 1)
        d_readout, d_weight, d_bias = gradients
        logp.exp_().mul_((r + smoothing)[:, None])
        if smoothing:
            logp -= smoothing / V
        logp.scatter_add_(1, y, -r[:, None])
        d_readout[block] = matmul(logp, weight.t())
        d_weight.addmm_(logp.t(), x)
        d_bias += logp.sum(0)
    loss = (1 - smoothing) * nll + smoothing * smooth
    return loss, nll, None if gradients is None else (*gradients, d_gate, d_share)


def copy_loss(
    readout: Tensor, weight: Tensor, bias: Tensor, gate: Tensor, share: Tensor, gold: Tensor, smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """`nn.loss.copy_loss` in blocks.

    >>> o, w, b = torch.randn(2, 3), torch.randn(4, 3), torch.randn(4)
    >>> loss, nll = copy_loss(o, w, b, torch.zeros(2), torch.tensor([0.0, 0.5]), torch.tensor([1, 5]))
    >>> generated = torch.softmax(o @ w.t() + b, 1)[0, 1]
    >>> torch.allclose(nll, -(generated / 2).log() - torch.tensor(0.25).log())
    True
    """
    inputs = (readout, weight, bias, gate, share)
    train = torch.is_grad_enabled() and any(part.requires_grad for part in inputs)
    loss, nll = _CopyLoss.apply(*inputs, gold, smoothing, train)  # type: ignore[no-untyped-call]
    return loss, nll
