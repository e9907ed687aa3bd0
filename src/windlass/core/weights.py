"""The tensors that a model is: taken, put back, and swapped for a while."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from windlass.core.errors import BundleError


def weights(model: nn.Module) -> dict[str, Tensor]:
    """The parameters and saved buffers of a model by name, themselves, not copies; a shared one only once.

    >>> sorted(weights(nn.Linear(2, 3)))
    ['bias', 'weight']
    """
    found: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            found[name] = tensor.detach()
    return found


def copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies that no later step changes.

    >>> layer = nn.Linear(1, 1)
    >>> copied(weights(layer))["bias"] is layer.bias
    False
    """
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def put(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Write weights into a model, in place. They must be those of a model of the same build.

    >>> layer = nn.Linear(1, 1, bias=False)
    >>> put(layer, {"weight": torch.tensor([[5.0]])})
    >>> layer.weight.item()
    5.0
    """
    own = weights(model)
    different = sorted(
        n for n in own.keys() | tensors.keys() if n not in own or n not in tensors or own[n].shape != tensors[n].shape
    )
    if different:
        raise BundleError(
            f"the saved weights are of another model: {', '.join(different[:3])}"
            f"{' ...' if len(different) > 3 else ''} differ; use the recipe they were trained with"
        )
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(tensors[name])


@contextmanager
def applied(model: nn.Module, tensors: Mapping[str, Tensor] | None) -> Iterator[None]:
    """Put weights into a model for a while, then its own back. None changes nothing.

    >>> layer = nn.Linear(1, 1, bias=False)
    >>> before = layer.weight.item()
    >>> with applied(layer, {"weight": torch.tensor([[5.0]])}):
    ...     layer.weight.item()
    5.0
    >>> layer.weight.item() == before
    True
    """
    if tensors is None:
        yield
        return
    before = copied(weights(model))
    try:
        put(model, tensors)
        yield
    finally:
        put(model, before)
