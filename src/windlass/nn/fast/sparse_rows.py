"""Sparse gradients of embeddings: only the rows that a batch has looked up.

A dense gradient is as large as the table and zero almost everywhere. Adam must still update the whole table, as its
averages decay where the gradient is zero; here it does so block by block, with a dense gradient for each block. The
results are those of a dense gradient, but for the order in which the gradient's norm is summed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from windlass.nn.embedding import Embedding

LARGE = 2**18
"""The smallest table whose gradient is worth taking as sparse: 1 MB of numbers."""
BLOCK = 2**18
"""Numbers of a table that are updated at once; their gradient stays in the cache."""

State = dict[str, Tensor]
Update = Callable[[nn.Parameter, State, dict[str, Any]], None]
"""Updates a parameter with a sparse gradient, from the optimiser's state and options for it."""


def give_rows(model: nn.Module, least: int = LARGE) -> list[nn.Parameter]:
    """Turn on sparse gradients for the embeddings of a model with at least `least` numbers; return their tables.

    A table tied to the output layer is left out: the output layer has a gradient for every row.

    >>> len(give_rows(nn.Sequential(Embedding(nn.Parameter(torch.eye(3)))), least=9))
    1
    """
    uses = Counter(id(p) for module in model.modules() for p in module.parameters(recurse=False))
    embeddings = [module for module in model.modules() if isinstance(module, Embedding)]
    tables = []
    for embedding in embeddings:
        table = embedding.table
        alone = uses[id(table)] == sum(other.table is table for other in embeddings)
        if alone and isinstance(table, nn.Parameter) and table.requires_grad and table.numel() >= least:
            embedding.sparse = True
            tables.append(table)
    return tables


def give_whole(model: nn.Module) -> None:
    """Turn off sparse gradients for all embeddings of a model.

    >>> embedding = Embedding(nn.Parameter(torch.eye(3)))
    >>> embedding.sparse = True
    >>> give_whole(embedding)
    >>> embedding.sparse
    False
    """
    for module in model.modules():
        if isinstance(module, Embedding):
            module.sparse = False


def start(table: nn.Parameter, state: State) -> None:
    """Initialise the state of Adam, if it is empty.

    >>> state = {}
    >>> start(nn.Parameter(torch.ones(2, 1)), state)
    >>> sorted(state)
    ['exp_avg', 'exp_avg_sq', 'step']
    """
    if not state:
        state["step"] = torch.zeros((), dtype=torch.float32)
        state |= {"exp_avg": torch.zeros_like(table), "exp_avg_sq": torch.zeros_like(table)}


def whole_update(decoupled: bool) -> Update:
    """One step of Adam, or of AdamW if the weight decay is `decoupled`, for a table with a sparse gradient.

    >>> table, state = nn.Parameter(torch.zeros(3, 1)), {}
    >>> for row in (1, 2):
    ...     table.grad = torch.sparse_coo_tensor([[row]], [[2.0]], (3, 1))
    ...     whole_update(False)(table, state, {"lr": 0.1, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0})
    >>> [round(w, 3) for w in table.flatten().tolist()]
    [0.0, -0.167, -0.074]
    """
    kernel = torch._fused_adamw_ if decoupled else torch._fused_adam_

    @torch.no_grad()
    def update(table: nn.Parameter, state: State, group: dict[str, Any]) -> None:
        assert table.grad is not None
        gradient = table.grad.coalesce()
        rows, values = gradient.indices()[0], gradient.values()
        start(table, state)
        state["step"] += 1
        size = max(1, BLOCK // table.size(1))
        begins = range(0, table.size(0), size)
        ends = torch.searchsorted(rows, torch.tensor([*begins, table.size(0)])).tolist()
        room = torch.empty_like(table[:size])
        for begin, (first, last) in zip(begins, pairwise(ends), strict=True):
            block = slice(begin, begin + size)
            whole = room[: len(table[block])].zero_().index_copy_(0, rows[first:last] - begin, values[first:last])
            kernel(
                [table[block]],
                [whole],
                [state["exp_avg"][block]],
                [state["exp_avg_sq"][block]],
                [],
                [state["step"]],
                amsgrad=False,
                lr=group["lr"],
                beta1=group["betas"][0],
                beta2=group["betas"][1],
                weight_decay=group["weight_decay"],
                eps=group["eps"],
                maximize=False,
            )

    return update


def by_rows(kind: type[torch.optim.Adam], update: Update) -> type[torch.optim.Adam]:
    """A subclass of the optimiser that hands parameters with sparse gradients to `update`.

    >>> table = nn.Parameter(torch.zeros(3, 1))
    >>> table.grad = torch.sparse_coo_tensor([[1]], [[2.0]], (3, 1))
    >>> by_rows(torch.optim.Adam, whole_update(False))([table], lr=0.1).step()
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
        for parameter, _, group in sparse:
            update(parameter, self.state[parameter], group)
            parameter.grad = None
        kind.step(self, closure)
        for parameter, gradient, _ in sparse:
            parameter.grad = gradient

    return type(kind.__name__, (kind,), {"step": step})
