"""Lazy Adam: only the embedding rows that occur in a batch are updated.

A batch contains a few hundred rows of a table of 64,000. Adam updates all rows, because its moments decay where the
gradient is zero too, and so the weights move. Lazy Adam leaves the weights and moments of the other rows unchanged.
The step count of the bias correction is that of the whole table. `torch.optim.SparseAdam` does the same. It is a
different optimiser from Adam, not a faster way to the same weights.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from windlass.core.errors import TrainingError
from windlass.nn.embedding import Embedding


def make_sparse(model: nn.Module) -> list[nn.Parameter]:
    """Switch the embeddings of a model to sparse gradients; return their tables.

    A table shared with an output layer is left out: the output layer uses every row.

    >>> len(make_sparse(nn.Sequential(Embedding(nn.Parameter(torch.eye(3))))))
    1
    """
    uses = Counter(id(p) for module in model.modules() for p in module.parameters(recurse=False))
    embeddings = [module for module in model.modules() if isinstance(module, Embedding)]
    tables = []
    for embedding in embeddings:
        table = embedding.table
        alone = uses[id(table)] == sum(other.table is table for other in embeddings)
        if alone and isinstance(table, nn.Parameter) and table.requires_grad:
            embedding.sparse = True
            tables.append(table)
    if not tables:
        raise TrainingError(
            "train.optimiser.lazy: this model has no trainable embedding that is not tied: leave it out"
        )
    return tables


def make_dense(model: nn.Module) -> None:
    """Switch the embeddings of a model back to dense gradients.

    >>> embedding = Embedding(nn.Parameter(torch.eye(3)))
    >>> embedding.sparse = True
    >>> make_dense(embedding)
    >>> embedding.sparse
    False
    """
    for module in model.modules():
        if isinstance(module, Embedding):
            module.sparse = False


def lazy(kind: type[torch.optim.Adam]) -> type[torch.optim.Adam]:
    """A subclass of Adam that updates parameters with sparse gradients row by row.

    >>> table = nn.Parameter(torch.zeros(3, 1))
    >>> table.grad = torch.sparse_coo_tensor([[1, 1]], [[2.0], [2.0]], (3, 1))
    >>> lazy(torch.optim.Adam)([table], lr=0.1).step()
    >>> [round(w, 3) for w in table.flatten().tolist()]
    [0.0, -0.1, 0.0]
    """

    def step(self: torch.optim.Adam, closure: None = None) -> None:
        """One step."""
        sparse = [
            (p, p.grad, group)
            for group in self.param_groups
            for p in group["params"]
            if p.grad is not None and p.grad.is_sparse
        ]
        for parameter, gradient, group in sparse:
            _update_rows(parameter, gradient, self.state[parameter], group)
            parameter.grad = None
        kind.step(self, closure)
        for parameter, gradient, _ in sparse:
            parameter.grad = gradient

    return type(kind.__name__, (kind,), {"step": step})


@torch.no_grad()
def _update_rows(table: nn.Parameter, gradient: Tensor, state: dict[str, Tensor], group: dict[str, Any]) -> None:
    """One step of Adam for the rows that have a gradient; an empty `state` is initialised."""
    gradient = gradient.coalesce()
    if not state:
        state["step"] = torch.zeros((), dtype=torch.float32)
        state |= {"exp_avg": torch.zeros_like(table), "exp_avg_sq": torch.zeros_like(table)}
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
