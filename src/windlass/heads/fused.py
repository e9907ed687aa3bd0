"""From a text head's parts to what `nn/fused_decoder.py` runs.

Not fused, and run step by step: cells without a tape (peepholes, reset before, vanilla, leaky), whose steps are rare
enough not to be written twice; highway connections, for their gate is one more product a step with a gradient of its
own; cosine attention with coverage; attention at two levels, whose weights are a product of two softmaxes, and which
goes through in one piece anyway where the current state asks; scheduled sampling, where a step must choose a token
before the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from windlass.nn.attention import Attention
from windlass.nn.cells import Cell
from windlass.nn.fused_decoder import Decoder, Layer
from windlass.nn.product import linear

if TYPE_CHECKING:
    from windlass.heads.text import DecoderSource, DecoderState, TextHead


def fused(head: TextHead, e: Tensor, state: DecoderState, source: DecoderSource) -> Decoder | None:
    """The decoder of embedded tokens e (B, T, E), ready to run in one piece; None where it must go step by step.

    >>> from windlass.core.records import Memory
    >>> from windlass.heads.options import TextHeadOptions
    >>> from windlass.heads.text import TextHead
    >>> memory = Memory(torch.randn(2, 5, 6), torch.ones(2, 5) > 0, torch.randn(2, 6))
    >>> for cell in ("gru", "rnn"):
    ...     head = TextHead(TextHeadOptions(size=8, cell=cell), vocabulary=10, memory_size=6, final_sizes=())
    ...     source, state = head.begin(memory)
    ...     fused(head, torch.zeros(2, 3, 256), state, source) is None
    False
    True
    """
    attention, options = head.attention, head.options
    if not isinstance(attention, Attention) or source.keys is None or options.connect == "highway":
        return None
    scoring = attention.score.fusing(source.keys.keys, attention.coverage)
    layers = _layers(head, e, state)
    if scoring is None or layers is None:
        return None
    words = e.transpose(0, 1).contiguous()  # (T, B, E), one copy for all who multiply it
    _, context, fed = head.stack.first.weight_x.split(head.widths, dim=1)
    met = [context] if head.previous else []  # the weights that the memory's values meet
    join = base = read_mask = None
    if head.feeding and options.readout.kind != "state":
        sizes = [options.size, head.context_size, head.join.in_features - options.size - head.context_size]
        join, seen, token = head.join.weight.split(sizes, dim=1)
        met.append(seen)
        base = linear(words, token) if token.size(1) else None
        read_mask = _mask(e, options.readout.dropout if head.training else 0.0, head.readout_size)
    values, at_first = source.keys.values, early(source.keys.values.size(1), e.size(1))
    through = [linear(values, weight) for weight in met if at_first]
    return Decoder(
        x=head.stack.first.project(words),
        layers=layers,
        residual=options.connect == "residual",
        scoring=scoring,
        real=source.keys.mask,
        current=not head.previous,
        entering=_together(through, dim=2) if at_first else values if met else None,
        met=None if at_first else _together(met, dim=0),
        fed=fed if head.feeding else None,
        join=join,
        base=base,
        read_mask=read_mask,
    )


SHORT = 32
"""Places of a memory up to which its values meet their weights before the first step: a wider value is read more slowly
at every step, and one of many places would meet them more often than there are steps."""


def early(places: int, steps: int) -> bool:
    """Whether a memory's values should meet their weights all at once, rather than their sum at every step.

    >>> early(15, 15), early(400, 400), early(30, 5)
    (True, False, False)
    """
    return places <= min(SHORT, 2 * steps)


def _together(parts: list[Tensor], dim: int) -> Tensor | None:
    return torch.cat(parts, dim=dim) if len(parts) > 1 else next(iter(parts), None)


def _layers(head: TextHead, e: Tensor, state: DecoderState) -> tuple[Layer, ...] | None:
    made: list[Layer] = []
    stack = head.stack
    for number, cell in enumerate(stack.cells):
        assert isinstance(cell, Cell)
        if cell.tape is None:
            return None
        locked = state.stack.masks[number][None] if state.stack.masks else None
        made.append(
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
    return tuple(made)


def _mask(e: Tensor, dropout: float, size: int) -> Tensor | None:
    """Dropout of its own for every step: (T, B, size); None where nothing is dropped."""
    if not dropout:
        return None
    return e.new_empty(e.size(1), e.size(0), size).bernoulli_(1 - dropout).div_(1 - dropout)
