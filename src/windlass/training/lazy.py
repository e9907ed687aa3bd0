"""Lazy Adam: only the embedding rows that a batch has looked up are updated.

Of a table of 64,000 rows a batch looks up a few hundred. Adam updates all of them: its averages move where the gradient
is zero, and so do the weights. Here a row that was not looked up stays, weights and averages; the next time it is
looked up it goes on from there. The number of steps, for bias correction, counts for the whole table. This is what
`torch.optim.SparseAdam` does; it is another optimiser than Adam, not a faster way to the same weights.
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
    """Let the embeddings of a model have sparse gradients; return their tables.

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
            "train.optimiser.lazy: no embedding of this model has a table of its own that is trained: leave it out"
        )
    return tables


def make_dense(model: nn.Module) -> None:
    """Let the embeddings of a model have dense gradients again.

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
    """One step of Adam for the rows that have a gradient; the first step fills `state`."""
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
