"""Losses, summed over real places, so that a batch counts by its size."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from windlass.nn import fast
from windlass.nn.copying import mixed_logprob
from windlass.nn.fast import loss as blocked


def cross_entropy(logits: Tensor, gold: Tensor, smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
    """The summed loss to minimise and the summed negative log likelihood of logits (M, V) and gold (M,).

    loss = (1 - s) * -log p(gold) + s * mean over all outputs of -log p      (Szegedy et al. 2016)

    >>> loss, nll = cross_entropy(torch.zeros(3, 4), torch.tensor([0, 1, 2]), smoothing=0.1)
    >>> round(nll.item(), 4) == round(3 * torch.tensor(4.0).log().item(), 4) == round(loss.item(), 4)
    True
    """
    logp = torch.log_softmax(logits, dim=-1)
    nll = -logp.gather(1, gold[:, None]).sum()
    loss = nll if not smoothing else (1 - smoothing) * nll - smoothing * logp.mean(1).sum()
    return loss, nll.detach()


def output_loss(
    readout: Tensor, weight: Tensor, bias: Tensor, gold: Tensor, smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """`cross_entropy` for logits = readout (M, R) W' + b.

    >>> o, w, b = torch.randn(3, 2), torch.randn(4, 2), torch.randn(4)
    >>> loss, nll = output_loss(o, w, b, torch.tensor([0, 1, 2]), smoothing=0.1)
    >>> torch.allclose(loss, cross_entropy(o @ w.t() + b, torch.tensor([0, 1, 2]), smoothing=0.1)[0])
    True
    """
    if fast.enabled():
        return blocked.output_loss(readout, weight, bias, gold, smoothing)
    return cross_entropy(F.linear(readout, weight, bias), gold, smoothing)


def copy_loss(
    readout: Tensor, weight: Tensor, bias: Tensor, gate: Tensor, share: Tensor, gold: Tensor, smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """`output_loss` with copying: the summed loss to minimise and the summed negative log likelihood.

    loss = (1 - s) * -log p(gold) + s * mean over the vocabulary of -log softmax(z)

    Readouts are (M, R), gate, share and gold (M,). Only the generation probabilities are smoothed.

    >>> o, w, b = torch.randn(2, 3), torch.randn(4, 3), torch.randn(4)
    >>> loss, nll = copy_loss(o, w, b, torch.zeros(2), torch.tensor([0.0, 0.5]), torch.tensor([1, 5]))
    >>> generated = torch.softmax(o @ w.t() + b, 1)[0, 1]
    >>> torch.allclose(nll, -(generated / 2).log() - torch.tensor(0.25).log())
    True
    """
    if fast.enabled():
        return blocked.copy_loss(readout, weight, bias, gate, share, gold, smoothing)
    oov = gold >= weight.size(0)
    logp = torch.log_softmax(F.linear(readout, weight, bias), dim=1)
    generated = logp.gather(1, gold.masked_fill(oov, 0)[:, None]).squeeze(1)
    nll = -mixed_logprob(generated, gate, share, oov).sum()
    loss = nll if not smoothing else (1 - smoothing) * nll - smoothing * logp.mean(1).sum()
    return loss, nll.detach()


def alignment_loss(weights: Tensor, gold: Tensor) -> Tensor:
    """Cross-entropy of attention weights (B, T, S) against gold ones; rows of zeros in gold do not count.

    loss = - sum_t sum_s gold_ts log a_ts      (Liu et al. 2016)

    >>> round(alignment_loss(torch.tensor([[[0.5, 0.5]]]), torch.tensor([[[1.0, 0.0]]])).item(), 4)
    0.6931
    """
    return -(gold * weights.clamp(min=1e-8).log()).sum()


def coverage_loss(weights: Tensor) -> Tensor:
    """How much of the attention (B, T, S) goes to places that were attended to before, for every step (B, T).

    loss_t = sum_s min(a_ts, a_1s + ... + a_(t-1)s)      (See et al. 2017)

    >>> [round(step, 4) for step in coverage_loss(torch.tensor([[[0.2, 0.8], [0.9, 0.1]]]))[0].tolist()]
    [0.0, 0.3]
    """
    before = weights.cumsum(1) - weights
    return torch.minimum(weights, before).sum(-1)


def doubly_stochastic_loss(weights: Tensor, places: Tensor) -> Tensor:
    """How far the attention (B, T, S) that each real place receives is from 1, summed over places (B, S) and rows.

    loss = sum_s (1 - sum_t a_ts)^2      (Xu et al. 2015)

    >>> weights = torch.tensor([[[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.5, 0.5, 0.0]]])
    >>> doubly_stochastic_loss(weights, torch.tensor([[True, True, False]])).item()
    0.5
    """
    return ((1 - weights.sum(1)).square() * places).sum()
