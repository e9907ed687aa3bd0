"""The state of the running backward pass, from private names of torch."""

from __future__ import annotations

import torch


def frees_graph() -> bool:
    """Whether the running backward pass frees the graph behind it, so that what was saved for it can go at once.

    >>> frees_graph()
    False
    """
    keeps = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", None)
    return keeps is not None and torch._C._current_graph_task_id() >= 0 and not keeps()
