"""A text head's decoder as `nn/fast/decoder.py` runs it.

Not fused, and run step by step: cells without a tape (peepholes, reset before, vanilla, leaky, convolution), scores
that offer no tape, highway connections, whose gate is one more product per step, hierarchical attention, whose weights
are a product of two softmaxes, and scheduled sampling, where a step must choose a token before the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from windlass.nn import fast
from windlass.nn.attention import Attention
from windlass.nn.dropout import drop_mask
from windlass.nn.fast.decoder import FusedDecoder, Layer
from windlass.nn.fast.onednn import linear

if TYPE_CHECKING:
    from windlass.heads.recurrent import DecoderSource, DecoderState, RecurrentDecoder


def fused_decoder(head: RecurrentDecoder, e: Tensor, state: DecoderState, source: DecoderSource) -> FusedDecoder | None:
    """The decoder over embedded tokens e (B, T, E); None if it must run step by step.

    >>> from windlass.heads.recurrent import Memory, RecurrentDecoder
    >>> options = RecurrentDecoder.Options(size=8, cell="rnn")
    >>> head = RecurrentDecoder(options, vocabulary=10, memory_size=6, final_sizes=())
    >>> source, state = head.begin(Memory(torch.randn(2, 5, 6), torch.ones(2, 5) > 0, torch.randn(2, 6)))
    >>> fused_decoder(head, torch.zeros(2, 3, 256), state, source) is None
    True
    """
    attention, options = head.attention, head.options
    if not isinstance(attention, Attention) or source.keys is None or options.connect == "highway":
        return None
    score = fast.fused(attention.score, source.keys.keys, attention.coverage)
    layers = _layers(head, e, state)
    if score is None or layers is None:
        return None
    words = e.transpose(0, 1).contiguous()  # (T, B, E), one copy for all products
    _, context, fed = head.stack.first.weight_x.split(head.widths, dim=1)
    value_weights = [context] if head.queries_previous else []
    join = base = read_mask = None
    if head.input_feeding and options.readout.kind != "state":
        sizes = [options.size, head.context_size, head.join.in_features - options.size - head.context_size]
        join, of_context, of_token = head.join.weight.split(sizes, dim=1)
        value_weights.append(of_context)
        base = linear(words, of_token) if of_token.size(1) else None
        read_mask = _mask(e, options.readout.dropout if head.training else 0.0, head.readout_size)
    values, early = source.keys.values, multiply_early(source.keys.values.size(1), e.size(1))
    products = [linear(values, weight) for weight in value_weights if early]
    return FusedDecoder(
        x=head.stack.first.project(words),
        layers=layers,
        residual=options.connect == "residual",
        score=score,
        real=source.keys.mask,
        current=not head.queries_previous,
        values=_cat(products, dim=2) if early else values if value_weights else None,
        value_weight=None if early else _cat(value_weights, dim=0),
        fed=fed if head.input_feeding else None,
        join=join,
        base=base,
        read_mask=read_mask,
    )


SHORT = 32
"""Places up to which a memory's values are multiplied by their weights before the first step: the products are wider
than the values, and of a long memory there would be more of them than steps."""


def multiply_early(places: int, steps: int) -> bool:
    """Whether to multiply all values by their weights at once, rather than their weighted sum at every step.

    >>> multiply_early(15, 15), multiply_early(400, 400), multiply_early(30, 5)
    (True, False, False)
    """
    return places <= min(SHORT, 2 * steps)


def _cat(parts: list[Tensor], dim: int) -> Tensor | None:
    return torch.cat(parts, dim=dim) if len(parts) > 1 else next(iter(parts), None)


def _layers(head: RecurrentDecoder, e: Tensor, state: DecoderState) -> tuple[Layer, ...] | None:
    layers: list[Layer] = []
    stack = head.stack
    for number, cell in enumerate(stack.cells):
        if cell.tape is None:
            return None
        locked = state.stack.masks[number][None] if state.stack.masks else None
        layers.append(
            Layer(
                cell.tape,
                cell.state_weight,
                cell.state_bias,
                state.stack.layers[number],
                below=cell.weight_x if number else None,
                below_bias=cell.bias if number else None,
                mask=locked if stack.options.locked else _mask(e, stack.options.dropout * stack.training, cell.size),
            )
        )
    return tuple(layers)


def _mask(e: Tensor, dropout: float, size: int) -> Tensor | None:
    """Dropout masks (T, B, size), drawn anew for every step; None without dropout."""
    if not dropout:
        return None
    return drop_mask(e, (e.size(1), e.size(0), size), dropout)
