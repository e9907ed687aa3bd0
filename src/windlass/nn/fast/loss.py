"""Losses of an output layer in blocks of rows: the logits of a whole batch are never held at once.

The gradients are taken in the forward pass, while a block is in the cache, as a scalar loss only scales them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

from windlass.nn.copying import mixed_logprob
from windlass.nn.fast.onednn import matmul, usable, weight_gradient
from windlass.nn.fast.precision import mixed
from windlass.nn.fast.switch import first_order

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


class _Blocked(Function):
    """A loss in blocks. `blocks` returns it, the negative log likelihood and a share of the gradients of its inputs."""

    @staticmethod
    def forward(
        ctx: Any, blocks: _Blocks, share: float, smoothing: float, train: bool, gold: Tensor, *inputs: Tensor
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(gold, *inputs)
        ctx.blocks, ctx.share, ctx.smoothing = blocks, share, smoothing
        loss, nll, ctx.gradients = blocks(smoothing, train, gold, *inputs)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        # Handed over, so that the weight's gradient need not be copied; a second pass computes them again.
        own, ctx.gradients = ctx.gradients, None
        if own is None:
            own = ctx.blocks(ctx.smoothing, True, *ctx.saved_tensors)[2]
        factor, included = gradients[0], gradients[0].new_tensor(ctx.share)
        if factor.device.type != "cpu" or not torch.equal(factor, included):
            own = tuple(part.mul_(factor / included) for part in own)
        return None, None, None, None, None, *own


_Blocks = Callable[..., tuple[Tensor, Tensor, tuple[Tensor, ...] | None]]


def _blocked(blocks: _Blocks, share: float, smoothing: float, gold: Tensor, *inputs: Tensor) -> tuple[Tensor, Tensor]:
    train = torch.is_grad_enabled() and any(part.requires_grad for part in inputs)
    loss, nll = _Blocked.apply(blocks, share, smoothing, train, gold, *inputs)  # type: ignore[no-untyped-call]
    return loss, nll


def _share(readout: Tensor) -> float:
    """What the gradients of the output loss are multiplied by as they are computed: most losses are means."""
    return 1 / max(1, readout.size(0))


def _output_blocks(
    smoothing: float, train: bool, gold: Tensor, readout: Tensor, weight: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor, tuple[Tensor, ...] | None]:
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
            _add_product(d_weight, p, x, share, first=not start)
    return loss, nll, gradients


def _add_product(d_weight: Tensor, gradient: Tensor, x: Tensor, share: float, first: bool) -> None:
    """Add a block's gradient of the weight; the first block's overwrites what was there."""
    if mixed():
        product = weight_gradient(gradient, x)
        torch.mul(product, share, out=d_weight) if first else d_weight.add_(product, alpha=share)
    else:
        d_weight.addmm_(gradient.t(), x, beta=0 if first else 1, alpha=share)


def _up(number: int, unit: int) -> int:
    """The next multiple of a unit."""
    return -(-number // unit) * unit


def output_loss(
    readout: Tensor, weight: Tensor, bias: Tensor, gold: Tensor, smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """`nn.loss.output_loss` in blocks.

    >>> loss, nll = output_loss(torch.zeros(1, 2), torch.zeros(4, 2), torch.zeros(4), torch.tensor([3]))
    >>> torch.allclose(nll, torch.tensor(4.0).log())
    True
    """
    return _blocked(_output_blocks, _share(readout), smoothing, gold, readout, weight, bias)


def _copy_blocks(
    smoothing: float,
    train: bool,
    gold: Tensor,
    readout: Tensor,
    weight: Tensor,
    bias: Tensor,
    gate: Tensor,
    share: Tensor,
) -> tuple[Tensor, Tensor, tuple[Tensor, ...] | None]:
    """With r the generated part of p(gold): d/dz = r (softmax(z) - gold)    d/dgate = g - r    d/dshare = (g - 1)/p."""
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
        _add_product(d_weight, logp, x, 1.0, first=not start)
        d_bias += logp.sum(0)
    loss = (1 - smoothing) * nll + smoothing * smooth
    return loss, nll, None if gradients is None else (*gradients, d_gate, d_share)


def copy_loss(
    readout: Tensor, weight: Tensor, bias: Tensor, gate: Tensor, share: Tensor, gold: Tensor, smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """`nn.loss.copy_loss` in blocks.

    >>> o, w, b, gate = torch.zeros(1, 3), torch.zeros(4, 3), torch.zeros(4), torch.zeros(1)
    >>> copy_loss(o, w, b, gate, torch.tensor([0.75]), torch.tensor([3]))[1].exp().item()  # 1 / (1/2 1/4 + 1/2 3/4)
    2.0
    """
    return _blocked(_copy_blocks, 1.0, smoothing, gold, readout, weight, bias, gate, share)
