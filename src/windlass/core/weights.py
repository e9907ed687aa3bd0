"""The weights of a model: get, clone, load, and replace them temporarily."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from windlass.core.errors import BundleError


def weights(model: nn.Module) -> dict[str, Tensor]:
    """Return the parameters and persistent buffers of a model by name: not copies; a tied one only once.

    >>> sorted(weights(nn.Linear(2, 3)))
    ['bias', 'weight']
    """
    by_name: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            by_name[name] = tensor.detach()
    return by_name


def clone_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return copies, detached from the graph.

    >>> clone_tensors({"bias": torch.ones(1, requires_grad=True)})
    {'bias': tensor([1.])}
    """
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def set_weights(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copy weights into a model, in place. Names and shapes must match.

    >>> layer = nn.Linear(1, 1, bias=False)
    >>> set_weights(layer, {"weight": torch.tensor([[5.0]])})
    >>> layer.weight.item()
    5.0
    """
    current = weights(model)
    mismatched = sorted(
        name
        for name in current.keys() | tensors.keys()
        if name not in current or name not in tensors or current[name].shape != tensors[name].shape
    )
    if mismatched:
        raise BundleError(
            f"the saved weights belong to another model: {', '.join(mismatched[:3])}"
            f"{' ...' if len(mismatched) > 3 else ''} differ; use the recipe they were trained with"
        )
    with torch.no_grad():
        for name, tensor in current.items():
            tensor.copy_(tensors[name])


@contextmanager
def temporary_weights(model: nn.Module, tensors: Mapping[str, Tensor] | None) -> Iterator[None]:
    """Use other weights inside the block, then restore the model's. None keeps the model's weights.

    >>> layer = nn.Linear(1, 1, bias=False)
    >>> with temporary_weights(layer, {"weight": torch.tensor([[5.0]])}):
    ...     layer.weight.item()
    5.0
    >>> layer.weight.item() == 5.0
    False
    """
    if tensors is None:
        yield
        return
    before = clone_tensors(weights(model))
    try:
        set_weights(model, tensors)
        yield
    finally:
        set_weights(model, before)
