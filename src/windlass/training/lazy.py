"""Lazy Adam: only the embedding rows that occur in a batch are updated.

A batch contains a few hundred rows of a table of 64,000. Adam updates all rows, because its moments decay where the
gradient is zero too, and so the weights move. Lazy Adam leaves the weights and moments of the other rows unchanged.
The step count of the bias correction is that of the whole table. `torch.optim.SparseAdam` does the same. It is a
different optimiser from Adam, not a faster way to the same weights.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from windlass.core.errors import TrainingError
from windlass.training.rows import State, give_rows, start


def make_lazy(model: nn.Module) -> list[nn.Parameter]:
    """Switch the embeddings of a model to sparse gradients; return their tables.

    >>> from windlass.nn.embedding import Embedding
    >>> len(make_lazy(nn.Sequential(Embedding(nn.Parameter(torch.eye(3))))))
    1
    """
    tables = give_rows(model, least=0)
    if not tables:
        raise TrainingError(
            "train.optimiser.lazy: this model has no trainable embedding that is not tied: leave it out"
        )
    return tables


class LazyRows:
    """The update of Adam for parameters with a sparse gradient.

    >>> table = nn.Parameter(torch.zeros(3, 1))
    >>> table.grad = torch.sparse_coo_tensor([[1, 1]], [[2.0], [2.0]], (3, 1))
    >>> LazyRows.update(table, {}, {"lr": 0.1, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0})
    >>> [round(w, 3) for w in table.flatten().tolist()]
    [0.0, -0.1, 0.0]
    """

    @staticmethod
    @torch.no_grad()
    def update(table: nn.Parameter, state: State, group: dict[str, Any]) -> None:
        """Update the rows that have a gradient; an empty `state` is initialised."""
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
        denominator = v.div_(1 - b2**t).sqrt_().add_(group["eps"])
        table.index_add_(0, rows, m.div_(denominator), alpha=-group["lr"] / (1 - b1**t))


def clip_gradients(parameters: Iterable[nn.Parameter], max_norm: float) -> Tensor:
    """Clip gradients, dense or sparse, by their global norm; return the norm before clipping.

    >>> p = nn.Parameter(torch.zeros(2, 1))
    >>> p.grad = torch.sparse_coo_tensor([[0, 0]], [[3.0], [5.0]], (2, 1))
    >>> clip_gradients([p], 4.0).item(), [round(g, 3) for g in p.grad.to_dense().flatten().tolist()]
    (8.0, [4.0, 0.0])
    """
    gradients = []
    for p in parameters:
        if p.grad is not None and p.grad.is_sparse:
            p.grad = p.grad.coalesce()  # sums the duplicates of a row
            gradients.append(p.grad.values())
        elif p.grad is not None:
            gradients.append(p.grad)
    norm = nn.utils.get_total_norm(gradients)
    scale = max_norm / (norm + 1e-6)
    if scale < 1:  # saves a pass over all gradients
        torch._foreach_mul_(gradients, scale)
    return norm
