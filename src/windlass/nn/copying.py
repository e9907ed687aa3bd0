"""Copying (pointer-generator): a token is generated from the vocabulary, or copied by attention from the source.

    p(w) = g softmax(z)_w + (1 - g) sum of a_j over places j that hold w        (See et al. 2017)

A row's vocabulary is extended by the out-of-vocabulary tokens of its source, with ids V, V + 1 ... They can only be
copied.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def copy_mixture(logits: Tensor, gate: Tensor, weights: Tensor, ids: Tensor, oov: int) -> Tensor:
    """Log probabilities (N, V + oov) from logits (N, V), the gate's logit (N,) and attention (N, S).

    `ids` (N, S) are the source tokens in the extended vocabulary. A token that can be neither generated nor copied has
    -inf.

    >>> ids = torch.tensor([[0, 2, 2]])
    >>> copy_mixture(torch.zeros(1, 2), torch.zeros(1), torch.tensor([[0.5, 0.3, 0.2]]), ids, oov=1).exp().tolist()
    [[0.5, 0.25, 0.25]]
    """
    g = torch.sigmoid(gate)[:, None]
    p = F.pad(torch.softmax(logits, dim=1) * g, (0, oov)).scatter_add(1, ids, (1 - g) * weights)
    impossible = p == 0  # its logarithm has no gradient
    return p.masked_fill(impossible, 1).log().masked_fill(impossible, -torch.inf)


def copy_share(weights: Tensor, ids: Tensor, gold: Tensor) -> Tensor:
    """The attention (B, T) on places that hold the gold token: weights (B, T, S), ids (B, S), gold (B, T).

    >>> copy_share(torch.tensor([[[0.5, 0.3, 0.2]]]), torch.tensor([[4, 7, 7]]), torch.tensor([[7]])).tolist()
    [[0.5]]
    """
    return (weights * (ids[:, None] == gold[..., None])).sum(-1)


def mixed_logprob(generated: Tensor, gate: Tensor, share: Tensor, oov: Tensor) -> Tensor:
    """log p of gold tokens, from log softmax(z), the gate's logit and the copy share, all of one shape.

    `oov` is True for tokens outside the vocabulary, whose `generated` is ignored.

    >>> half, none = torch.tensor([0.5]).log(), torch.tensor([0.0])
    >>> mixed_logprob(half, none, torch.tensor([0.25]), torch.tensor([False])).exp().item()
    0.375
    """
    generated = F.logsigmoid(gate) + generated.masked_fill(oov, -torch.inf)
    # The log of the share is finite for tokens that can only be copied; otherwise -inf if the share is 0.
    share = torch.where(oov, share.clamp(min=torch.finfo(share.dtype).tiny), share)
    zero = share <= 0
    copied = share.masked_fill(zero, 1).log().masked_fill(zero, -torch.inf)
    return torch.logaddexp(generated, F.logsigmoid(-gate) + copied)
