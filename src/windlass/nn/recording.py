"""States and gates of every cell of a model, recorded from outside while it runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from windlass.core.records import CellState
from windlass.nn import fast
from windlass.nn.cell import Cell, Products

Step = tuple[dict[str, Tensor], dict[str, Tensor]]
"""States and gates (B, H) of one step, by name."""


@contextmanager
def recorded(model: nn.Module) -> Iterator[dict[str, list[Step]]]:
    """Watch every cell of a model, by the name of its module; what runs inside takes plain steps.

    >>> import torch
    >>> from windlass.nn.recurrence import Stack, StackOptions
    >>> stack = Stack(3, StackOptions(cell="gru", size=4))
    >>> with torch.no_grad(), recorded(stack) as steps:
    ...     _ = stack(torch.randn(1, 5, 3))
    >>> len(steps["cells.0"]), sorted(steps["cells.0"][0][1])
    (5, ['reset', 'update'])
    """
    found: dict[str, list[Step]] = {}
    cells = {name: module for name, module in model.named_modules() if isinstance(module, Cell)}
    for name, cell in cells.items():
        cell.__dict__["step"] = _Watched(cell, found.setdefault(name, []))  # hides the method of the class
    try:
        with fast.disabled():
            yield found
    finally:
        for cell in cells.values():
            del cell.__dict__["step"]


class _Watched:
    """The step of a cell, which remembers."""

    def __init__(self, cell: Cell, steps: list[Step]):
        self.cell, self.steps = cell, steps

    def __call__(self, projected: Tensor, state: CellState, products: Products = None) -> CellState:
        new = type(self.cell).step(self.cell, projected, state, products)
        states = dict(zip(self.cell.state_names, new, strict=False))
        self.steps.append((states, self.cell.gates(projected, state, products)))
        return new
