"""What a cell, an attention score, a stack or a head may offer to be run fast, and need not.

`fused` is for training: many steps in one piece, with gradients derived by hand. `inference` is for prediction: the
same module with its weights laid out for the machine. Both return None if there is no fast path, and callers then run
the plain code; they ask through the functions of this file, which also return None while fast paths are disabled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, Protocol, TypeVar, runtime_checkable
from weakref import WeakKeyDictionary

from torch import nn

from windlass.nn.fast.switch import enabled

P = ParamSpec("P")
Fused_co = TypeVar("Fused_co", covariant=True)
Inference_co = TypeVar("Inference_co", covariant=True)
Weights = TypeVar("Weights")


class OffersFused(Protocol[P, Fused_co]):
    """A part with a fused path."""

    def fused(self, *args: P.args, **kwargs: P.kwargs) -> Fused_co | None:
        """The fused path for these arguments; None: there is none."""


@runtime_checkable
class OffersInference(Protocol[Inference_co]):
    """A module with an inference form."""

    training: bool

    def inference(self, int8: bool = False) -> Inference_co | None:
        """The module with its weights laid out, in 8 bits if `int8`; None: there is no such form."""


def fused(part: OffersFused[P, Fused_co], *args: P.args, **kwargs: P.kwargs) -> Fused_co | None:
    """The fused path that a part offers for these arguments, if it offers one and fast paths are enabled.

    >>> import torch
    >>> from windlass.nn.cells import GRU, RNN
    >>> cells = GRU.Options().build(3, 4), RNN.Options().build(3, 4)
    >>> [fused(cell, torch.zeros(5, 2, 3), None, None, False) is None for cell in cells]
    [False, True]
    """
    return part.fused(*args, **kwargs) if enabled() else None


def inference(module: OffersInference[Inference_co], int8: bool = False) -> Inference_co | None:
    """The inference form that a module offers, if it offers one, is in eval mode and fast paths are enabled.

    >>> from windlass.nn.recurrence import Stack, StackOptions
    >>> stack = Stack(3, StackOptions(cell="gru", size=4))
    >>> inference(stack) is None, inference(stack.eval()) is None
    (True, False)
    """
    return module.inference(int8) if enabled() and not module.training else None


_Version = tuple[tuple[int, int], ...]
_laid_out: WeakKeyDictionary[nn.Module, dict[bool, tuple[_Version, object]]] = WeakKeyDictionary()


def _version(module: nn.Module) -> _Version:
    """The address of every weight, and how often torch has counted a write to it."""
    tensors = [*module.parameters(), *module.buffers()]
    return tuple((t.data_ptr(), 0 if t.is_inference() else t._version) for t in tensors)


def laid_out(module: nn.Module, int8: bool, lay_out: Callable[[], Weights]) -> Weights:
    """What `lay_out` makes of a module's weights, kept until a weight changes or the module goes.

    The result must not refer to the module itself, or neither would ever be freed.

    >>> layer = nn.Linear(2, 2)
    >>> first = laid_out(layer, False, lambda: [layer.weight.t().contiguous()])
    >>> laid_out(layer, False, list) is first, laid_out(layer, True, list)
    (True, [])
    """
    kept = _laid_out.setdefault(module, {})
    now = _version(module)
    if int8 not in kept or kept[int8][0] != now:
        kept[int8] = (now, lay_out())
    weights: Weights = kept[int8][1]  # type: ignore[assignment]
    return weights
