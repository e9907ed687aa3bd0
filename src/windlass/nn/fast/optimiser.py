"""torch's optimisers without torch's compiler."""

from __future__ import annotations

from inspect import isfunction, unwrap
from typing import TypeVar

import torch

from windlass.nn.fast.switch import enabled

Kind = TypeVar("Kind", bound=torch.optim.Optimizer)


def without_compiler(kind: type[Kind]) -> type[Kind]:
    """A subclass of an optimiser that does not import torch's compiler.

    Methods of `torch.optim` import the compiler when first called (70 MB, a second and a half), only to keep it from
    compiling them. The subclass has the functions that they wrap; nothing of torch's own classes is changed.

    >>> from torch import nn
    >>> optimiser = without_compiler(torch.optim.Adam)([nn.Parameter(torch.zeros(2))], lr=0.1)
    >>> type(optimiser).__name__, isinstance(optimiser, torch.optim.Adam), optimiser.param_groups[0]["lr"]
    ('Adam', True, 0.1)
    """
    if not enabled():
        return kind
    methods = vars(torch.optim.Optimizer).items()
    inner = {name: unwrap(method) for name, method in methods if isfunction(method) and hasattr(method, "__wrapped__")}
    if hasattr(kind.step, "__wrapped__"):
        inner["step"] = torch.no_grad()(unwrap(kind.step))
    return type(kind.__name__, (kind,), inner)
