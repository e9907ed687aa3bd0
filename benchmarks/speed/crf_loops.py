"""A conditional random field as people write it: a Python loop over steps, in plain torch.

`loop_*` work on all rows of a batch at once, with automatic gradients, and follow the best path back row by row with
lists, as libraries do; `gathered_best` follows all rows back at once. `tutorial_*` go sentence by sentence and tag by
tag, as the tutorials do.
"""

from __future__ import annotations

import torch
from torch import Tensor

Scores = tuple[Tensor, Tensor, Tensor]
"""Of the first tag (V,), of pairs (V, V), of the last (V,)."""


def loop_loss(emissions: Tensor, tags: Tensor, mask: Tensor, scores: Scores) -> Tensor:
    """The sum of -log p over rows."""
    start, pairs, end = scores
    total = start + emissions[:, 0]  # (B, V)
    path = start[tags[:, 0]] + emissions[:, 0].gather(1, tags[:, :1]).squeeze(1)
    for t in range(1, emissions.size(1)):
        moved = torch.logsumexp(total[:, :, None] + pairs + emissions[:, t, None], dim=1)
        total = torch.where(mask[:, t, None], moved, total)
        step = pairs[tags[:, t - 1], tags[:, t]] + emissions[:, t].gather(1, tags[:, t, None]).squeeze(1)
        path = path + step * mask[:, t]
    last = tags.gather(1, (mask.sum(1) - 1)[:, None]).squeeze(1)
    return (torch.logsumexp(total + end, dim=1) - path - end[last]).sum()


def loop_best(emissions: Tensor, mask: Tensor, scores: Scores) -> list[list[int]]:
    """The best tags of every row."""
    total, origins = _highest(emissions, mask, scores)
    best = []
    for row, length in enumerate(mask.sum(1).tolist()):
        tags = [int(total[row].argmax())]
        for origin in reversed(origins[: length - 1]):
            tags.append(int(origin[row][tags[-1]]))
        best.append(tags[::-1])
    return best


def gathered_best(emissions: Tensor, mask: Tensor, scores: Scores) -> list[list[int]]:
    """The same, back with a step for all rows."""
    total, origins = _highest(emissions, mask, scores)
    tags = [total.argmax(1)]
    for t in range(emissions.size(1) - 1, 0, -1):
        before = origins[t - 1].gather(1, tags[-1][:, None]).squeeze(1)
        tags.append(torch.where(mask[:, t], before, tags[-1]))
    rows = torch.stack(tags[::-1], 1).tolist()
    return [row[:length] for row, length in zip(rows, mask.sum(1).tolist(), strict=True)]


def _highest(emissions: Tensor, mask: Tensor, scores: Scores) -> tuple[Tensor, list[Tensor]]:
    """The score of the best way to every last tag (B, V), and where each tag of each step came from."""
    start, pairs, end = scores
    total, origins = start + emissions[:, 0], []
    for t in range(1, emissions.size(1)):
        found, origin = (total[:, :, None] + pairs + emissions[:, t, None]).max(dim=1)
        total = torch.where(mask[:, t, None], found, total)
        origins.append(origin)
    return total + end, origins


def tutorial_loss(emissions: Tensor, tags: Tensor, mask: Tensor, scores: Scores) -> Tensor:
    """The same, a sentence at a time and a tag at a time."""
    start, pairs, end = scores
    losses = []
    for row, length in enumerate(mask.sum(1).tolist()):
        total = start + emissions[row, 0]
        path = start[tags[row, 0]] + emissions[row, 0, tags[row, 0]]
        for t in range(1, length):
            total = torch.stack(
                [torch.logsumexp(total + pairs[:, k] + emissions[row, t, k], dim=0) for k in range(len(start))]
            )
            path = path + pairs[tags[row, t - 1], tags[row, t]] + emissions[row, t, tags[row, t]]
        losses.append(torch.logsumexp(total + end, dim=0) - path - end[tags[row, length - 1]])
    return torch.stack(losses).sum()


def tutorial_best(emissions: Tensor, mask: Tensor, scores: Scores) -> list[list[int]]:
    """The same, a sentence at a time and a tag at a time."""
    start, pairs, end = scores
    best = []
    for row, length in enumerate(mask.sum(1).tolist()):
        total, origins = start + emissions[row, 0], []
        for t in range(1, length):
            each = [(total + pairs[:, k]) for k in range(len(start))]
            origin = [int(one.argmax()) for one in each]
            total = torch.stack([one[o] for one, o in zip(each, origin, strict=True)]) + emissions[row, t]
            origins.append(origin)
        tags = [int((total + end).argmax())]
        for origin in reversed(origins):
            tags.append(origin[tags[-1]])
        best.append(tags[::-1])
    return best
