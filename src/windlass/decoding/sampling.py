"""Choosing the next token: the top k, or a sample; and blocking repeated n-grams."""

from __future__ import annotations

import torch
from torch import Tensor

from windlass.decoding.options import Sample
from windlass.nn import fast
from windlass.nn.fast.topk import blocked_topk


def uniform(seed: int, keys: Tensor, step: int) -> Tensor:
    """A number in (0, 1) for every key: a hash of (seed, key, step), so it does not depend on the rest of the batch.

    >>> a = uniform(1, torch.tensor([5, 6, 7]), step=0)
    >>> bool((a[1:] == uniform(1, torch.tensor([6, 7]), step=0)).all()), len(set(a.tolist()))
    (True, 3)
    """

    def mix(x: Tensor) -> Tensor:  # the finaliser of splitmix64 (Steele et al. 2014)
        x = (x ^ ((x >> 30) & 0x3FFFFFFFF)) * -0x40A7B892E31B1A47
        x = (x ^ ((x >> 27) & 0x1FFFFFFFFF)) * -0x6B2FB644ECCEEE15
        return x ^ ((x >> 31) & 0x1FFFFFFFF)

    golden = -0x61C8864680B583EB
    word = mix(mix(torch.full_like(keys, seed) + golden) + keys * golden)
    word = mix(word + torch.full_like(keys, step + 1) * golden)  # as a tensor, so that it wraps round
    return (((word >> 11) & ((1 << 53) - 1)).double() + 0.5) / (1 << 53)


def draw(logprobs: Tensor, options: Sample, keys: Tensor, step: int) -> Tensor:
    """Draw a token for every row of (N, V). A row's draws depend on its key in `keys` (N,), not on the other rows.

    >>> logprobs = torch.tensor([[0.5, 0.4, 0.1]]).log().repeat(1000, 1)
    >>> tokens = draw(logprobs, Sample(top_k=2), torch.arange(1000), step=0)
    >>> sorted(set(tokens.tolist()))
    [0, 1]
    """
    ordered, ids = (logprobs.double() / options.temperature).sort(dim=1, descending=True, stable=True)
    p = torch.softmax(ordered, dim=1)
    if options.top_k:
        p[:, options.top_k :] = 0
    if options.top_p < 1:
        before = p.cumsum(1) - p  # the mass of the likelier tokens: the likeliest always stays
        p = p.masked_fill(before >= options.top_p * p.sum(1, keepdim=True), 0)
    total = p.cumsum(1)
    u = uniform(options.seed, keys, step).to(total.device) * total[:, -1]
    place = torch.searchsorted(total, u[:, None], right=True).clamp(max=p.size(1) - 1)
    return ids.gather(1, place).squeeze(1)


def block_ngrams(logprobs: Tensor, history: Tensor, n: int) -> Tensor:
    """Forbid every token that would repeat an n-gram of the history (N, t).

    >>> blocked = block_ngrams(torch.zeros(1, 5), torch.tensor([[1, 2, 3, 1, 2]]), n=3)
    >>> blocked.isinf().nonzero().tolist()
    [[0, 3]]
    """
    if not n or history.size(1) < n:
        return logprobs
    ngrams = history.unfold(1, n, 1)  # (N, t-n+1, n)
    last = history[:, history.size(1) - n + 1 :]
    same = (ngrams[:, :, :-1] == last[:, None]).all(-1)
    counts = torch.zeros_like(logprobs).scatter_add_(1, ngrams[:, :, -1], same.to(logprobs.dtype))
    return logprobs.masked_fill(counts > 0, -torch.inf)


def top_k(logprobs: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k likeliest tokens of every row of (N, V), best first: their log probabilities and ids, (N, k) each.

    >>> values, ids = top_k(torch.tensor([[0.1, 0.5, 0.4]]), 2)
    >>> ids.tolist()
    [[1, 2]]
    """
    blocked = blocked_topk(logprobs, k) if fast.enabled() else None
    if blocked is not None:
        return blocked
    if k == 1:
        ids = logprobs.argmax(1, keepdim=True)
        return logprobs.gather(1, ids), ids
    top = logprobs.topk(k, dim=1)
    return top.values, top.indices
