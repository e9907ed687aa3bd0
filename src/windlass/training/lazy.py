"""Lazy Adam: of an embedding, only the rows that a batch has looked up are updated.

Of a table of 64,000 rows a batch meets a few hundred. Adam walks over all: its averages move where the gradient is zero
too, and so do the weights. Here a row that was not looked up stays as it is, weights and averages; the next time it is
looked up it goes on from there. The number of steps, by which young averages are corrected, counts for the whole table.
This is what `torch.optim.SparseAdam` does; it is another optimiser than Adam, not a faster way to the same weights.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from windlass.core.errors import TrainingError
from windlass.nn.fast.sparse_rows import State, give_rows, start


def make_lazy(model: nn.Module) -> list[nn.Parameter]:
    """Let the embeddings of a model give the gradients of their rows; return their tables.

    >>> from windlass.nn.embedding import Embedding
    >>> len(make_lazy(nn.Sequential(Embedding(nn.Parameter(torch.eye(3))))))
    1
    """
    found = give_rows(model, least=0)
    if not found:
        raise TrainingError(
            "train.optimiser.lazy: no embedding of this model has a table of its own that is trained: leave it out"
        )
    return found


class LazyRows:
    """The rows' part of Adam, for parameters whose gradient is sparse.

    >>> table = nn.Parameter(torch.zeros(3, 1))
    >>> table.grad = torch.sparse_coo_tensor([[1, 1]], [[2.0], [2.0]], (3, 1))
    >>> LazyRows.update(table, {}, {"lr": 0.1, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0})
    >>> [round(w, 3) for w in table.flatten().tolist()]
    [0.0, -0.1, 0.0]
    """

    @staticmethod
    @torch.no_grad()
    def update(table: nn.Parameter, state: State, group: dict[str, Any]) -> None:
        """One step of Adam for the rows that have a gradient; `state` is filled at the first."""
        assert table.grad is not None
        gradient = table.grad.coalesce()
        start(table, state)
        state["step"] += 1
        rows, g = gradient.indices()[0], gradient.values()
        (b1, b2), t = group["betas"], float(state["step"])
        if group["weight_decay"]:
            g = g + group["weight_decay"] * table[rows]
        m = state["exp_avg"][rows].lerp_(g, 1 - b1)
        v = state["exp_avg_sq"][rows].mul_(b2).addcmul_(g, g, value=1 - b2)
        state["exp_avg"][rows] = m
        state["exp_avg_sq"][rows] = v
        spread = v.div_(1 - b2**t).sqrt_().add_(group["eps"])
        table.index_add_(0, rows, m.div_(spread), alpha=-group["lr"] / (1 - b1**t))


def clip(parameters: Iterable[nn.Parameter], most: float) -> Tensor:
    """Scale gradients down to a length, some of which may be sparse; return how long they were.

    >>> p = nn.Parameter(torch.zeros(2, 1))
    >>> p.grad = torch.sparse_coo_tensor([[0, 0]], [[3.0], [5.0]], (2, 1))
    >>> clip([p], 4.0).item(), [round(g, 3) for g in p.grad.to_dense().flatten().tolist()]
    (8.0, [4.0, 0.0])
    """
    parts = []
    for p in parameters:
        if p.grad is not None and p.grad.is_sparse:
            p.grad = p.grad.coalesce()  # or the parts of a row that came twice would count one by one
            parts.append(p.grad.values())
        elif p.grad is not None:
            parts.append(p.grad)
    length = nn.utils.get_total_norm(parts)
    scale = most / (length + 1e-6)
    if scale < 1:  # or all gradients would be read and written for nothing
        torch._foreach_mul_(parts, scale)
    return length
