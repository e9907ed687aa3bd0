"""The self-attention of encoders and decoders, layer by layer and head by head."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from windlass.bundle import Bundle
from windlass.core.errors import WindlassError
from windlass.data.examples import Value
from windlass.explain.attention import explain_cut
from windlass.explain.gates import language_batch
from windlass.explain.render import Heat
from windlass.heads.running import force_chunk
from windlass.heads.text import TextHead
from windlass.nn.transformer import CausalAttention


def self_attention(bundle: Bundle, text: Value, target: str | None = None) -> list[Heat]:
    """Return the self-attention of encoder and decoder on one text, a heatmap per layer and head.

    A decoder reads what it writes for the text, or the target. A language model reads the text.

    >>> from windlass.data import Sides
    >>> from windlass.recipe import Recipe
    >>> bundle = Bundle.new(Recipe(model={"encoder": {"kind": "attention", "layers": 1}}), Sides.tiny())
    >>> [heat.title for heat in self_attention(bundle, "ab")][:2]
    ['encoder, layer 1, head 1', 'encoder, layer 1, head 2']
    """
    sides, model = bundle.sides, bundle.model.eval()
    decodes = any(isinstance(module, CausalAttention) for module in model.modules())
    if target is not None and (bundle.task.language_model or not decodes):
        raise WindlassError("no self-attention of this model reads a target: leave it out")
    found: list[Heat] = []
    with torch.no_grad():
        if bundle.task.language_model:
            with _watched(model) as layers:
                force_chunk(cast("TextHead", model.head), language_batch(bundle, str(text)), None)
            found = _heats(layers, "decoder", ("<s>", *sides.tokenizer.pieces(str(text))), "text")
        else:
            prediction = explain_cut(bundle, text, target)
            value, written = sides.read(text), prediction.text if decodes else None
            batch = sides.collate([sides.encode(value, written)], [0]).to(bundle.device)
            read = sides.source.places(value).names
            found = _heats(model.encoder.self_attention(batch), "encoder", read, "source")
            if decodes:
                with _watched(model) as layers:
                    model.head.force(model.encode(batch), batch)
                output = ("<s>", *prediction.answer.tokens)
                found += _heats(layers, "decoder", (*read, *output)[-layers[0].size(-1) :], "output")
    if not found:
        raise WindlassError("there is no self-attention in this model: use --gates or --saliency integrated")
    return found


def _heats(layers: Sequence[Tensor], part: str, tokens: Sequence[str], side: str) -> list[Heat]:
    axes = (f"{side} token attended to", f"{side} token that attends")
    return [
        Heat(weights.tolist(), tokens, tokens, f"{part}, layer {layer}, head {head}", "self-attention", axes)
        for layer, heads in enumerate(layers, 1)
        for head, weights in enumerate(heads[0], 1)
    ]


@contextmanager
def _watched(model: nn.Module) -> Iterator[list[Tensor]]:
    """The causal attention (N, heads, T, T) of every layer over all that it reads inside, in one pass or several."""
    layers = [module for module in model.modules() if isinstance(module, CausalAttention)]
    seen: list[list[Tensor]] = [[] for _ in layers]
    whole: list[Tensor] = []

    def watch(number: int) -> Any:
        def hook(module: nn.Module, inputs: tuple[Any, ...]) -> None:
            seen[number].append(cast("CausalAttention", module).weights(*inputs))

        return hook

    handles = [layer.register_forward_pre_hook(watch(number)) for number, layer in enumerate(layers)]
    try:
        yield whole
    finally:
        for handle in handles:
            handle.remove()
    for passes in seen:
        width = max(weights.size(-1) for weights in passes)
        whole.append(torch.cat([F.pad(weights, (0, width - weights.size(-1))) for weights in passes], dim=2))
