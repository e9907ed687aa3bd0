"""The k largest of many numbers, by the maxima of blocks."""

from __future__ import annotations

import torch
from torch import Tensor

BLOCK = 64
"""Numbers in a block."""


def blocked_topk(x: Tensor, k: int) -> tuple[Tensor, Tensor] | None:
    """The k largest values of every row of (N, V), the largest first, and their places; None if blocks do not pay.

    Finding the largest of each block is fast, and the k largest numbers lie in the k blocks with the largest maxima.

    >>> x = torch.randperm(1000).float().view(5, 200)
    >>> values, places = blocked_topk(x, 2)
    >>> torch.equal(values, x.topk(2).values), torch.equal(x.gather(1, places), values)
    (True, True)
    """
    N, V = x.shape
    blocks = V // BLOCK
    if N < 4 or blocks <= k:  # not worth the additional operations
        return None
    whole = x[:, : blocks * BLOCK].unflatten(1, (blocks, BLOCK))
    which = whole.amax(2).topk(k, dim=1).indices  # (N, k)
    candidates = whole.gather(1, which[..., None].expand(-1, -1, BLOCK)).flatten(1)
    places = (which[..., None] * BLOCK + torch.arange(BLOCK, device=which.device)).flatten(1)
    if blocks * BLOCK < V:
        rest = torch.arange(blocks * BLOCK, V, device=places.device).expand(N, -1)
        candidates, places = torch.cat([candidates, x[:, blocks * BLOCK :]], 1), torch.cat([places, rest], 1)
    largest = candidates.topk(k, dim=1)
    return largest.values, places.gather(1, largest.indices)
