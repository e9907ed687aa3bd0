"""How far back the layers of a transformer reach: d y_T / d x_t, from their last output to their inputs."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from windlass.bundle import Bundle
from windlass.data.examples import Value
from windlass.gradients.reading import batch_of, layer_title
from windlass.nn.fast.switch import disabled
from windlass.nn.selfattention import TransformerLayer


def transformer_layers(model: nn.Module) -> dict[str, Sequence[nn.Module]]:
    """The layers of every transformer within a model, by the name of what they are in.

    >>> from windlass.inference.likelihood import tiny_lm
    >>> transformer_layers(tiny_lm().model)
    {}
    """
    lists = {name: module for name, module in model.named_modules() if isinstance(module, nn.ModuleList)}
    return {
        name.removesuffix(".layers"): list(layers)
        for name, layers in lists.items()
        if len(layers) and all(isinstance(layer, TransformerLayer) for layer in layers)
    }


def transformer_jacobians(
    bundle: Bundle, text: Value, target: str | None = None
) -> list[tuple[str, list[Tensor], tuple[str, ...]]]:
    """For every transformer of a model that reads a text: its name, d y_T / d x_t by the distance T - t, and tokens.

    x_t are the inputs of the first layer, y_T is the last output of the last one.

    >>> from windlass.inference.likelihood import tiny_lm
    >>> transformer_jacobians(tiny_lm(), "abc")
    []
    """
    batch, source, output = batch_of(bundle, text, target)
    model = deepcopy(bundle.model).cpu().double().eval()
    first, last = dict[str, Tensor](), dict[str, Tensor]()
    handles = []
    for name, layers in transformer_layers(model).items():

        def begin(_: nn.Module, args: tuple[Any, ...], name: str = name) -> tuple[Any, ...]:
            first[name] = args[0].detach().requires_grad_()
            return (first[name], *args[1:])

        def end(_: nn.Module, args: Any, out: tuple[Any, ...], name: str = name) -> None:
            last[name] = out[0]

        handles += [layers[0].register_forward_pre_hook(begin), layers[-1].register_forward_hook(end)]
    try:
        with disabled(), torch.enable_grad():
            model(batch.map(lambda t: t.double() if t.is_floating_point() else t))
    finally:
        for handle in handles:
            handle.remove()
    found = []
    for name, x in first.items():
        y = last[name][0, -1]
        rows = [torch.autograd.grad(unit, x, retain_graph=True)[0][0] for unit in y]
        jacobian = torch.stack(rows)  # (D, T, D)
        names = output if name == "head" else source
        names = names if len(names) == x.size(1) else ()
        found.append((layer_title(name), list(jacobian.unbind(1))[::-1], names))
    return found
