"""Copying: a token is written from the vocabulary, or copied from a place of the source that is attended to.

    p(w) = g softmax(z)_w + (1 - g) sum of a_j over places j that hold w        (See et al. 2017)

The vocabulary of a row is extended by what its own source holds beyond it: ids V, V + 1 ... Such a word can be copied
and never written.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


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
