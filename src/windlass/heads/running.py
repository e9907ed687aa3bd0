"""Truncated back-propagation through time: a language model over chunks of running text, which carry the state on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from windlass.core.errors import RecipeError
from windlass.core.marks import BOS
from windlass.core.records import Batch, Carry, CellState, Memory, Scored
from windlass.nn.loss import output_loss

if TYPE_CHECKING:
    from windlass.heads.text import TextHead


def run_chunk(head: TextHead, batch: Batch, carry: Carry | None) -> tuple[Tensor, Carry]:
    """Run the decoder over a chunk; return the readouts (B, T, R) and the state at the end of each row.

    Rows that continue the last batch start from `carry`, the others from the initial state.

    >>> from windlass.core.records import Padded
    >>> from windlass.heads.text import TextHead, TextHeadOptions
    >>> head = TextHead(TextHeadOptions(size=8, context="none"), 10, memory_size=0, final_sizes=())
    >>> readout, carry = run_chunk(head, Batch({}, Padded.of([[5, 6, 7], [8, 9, 4]]), torch.arange(2)), None)
    >>> readout.shape, carry.layers[0][0].shape
    (torch.Size([2, 3, 8]), torch.Size([2, 8]))
    """
    assert batch.target is not None
    if head.embedding is None or head.options.context.kind != "none":
        raise RecipeError("running text needs a decoder with feedback: true and context: none")
    target = batch.target
    state = head.stack.begin(head.start(Memory.empty(batch.size, target.values.device)))
    if carry is not None and batch.continues is not None:
        pairs = zip(carry.layers, state.layers, strict=True)
        state = replace(state, layers=tuple(_where(batch.continues[:, None], *pair) for pair in pairs))
    before = batch.inputs.get("before")
    first = torch.full_like(target.values[:, :1], BOS) if before is None else before.values
    e = head.embedding(torch.cat([first, target.values[:, :-1]], dim=1))  # (B, T, E)
    s, layers = head.stack(e, target.mask, state)
    return head.read_out(s, None, e), Carry(layers)


def _where(continues: Tensor, carried: CellState, initial: CellState) -> CellState:
    return tuple(torch.where(continues, c, i) for c, i in zip(carried, initial, strict=True))


def score_chunk(head: TextHead, batch: Batch, carry: Carry | None, smoothing: float = 0.0) -> Scored:
    """The training loss of a chunk, and the state to carry on.

    >>> from windlass.core.records import Padded
    >>> from windlass.heads.text import TextHead, TextHeadOptions
    >>> head = TextHead(TextHeadOptions(size=8, context="none"), 10, memory_size=0, final_sizes=())
    >>> int(score_chunk(head, Batch({}, Padded.of([[5, 6, 7]]), torch.arange(1)), None).count)
    3
    """
    assert batch.target is not None
    readout, carry = run_chunk(head, batch, carry)
    # Time first, as the recurrence returns it, and without indexing if there is no padding: neither copies.
    readout, gold, mask = readout.transpose(0, 1), batch.target.values.t(), batch.target.mask.t()
    readout, gold = (readout.flatten(0, 1), gold.flatten()) if bool(mask.all()) else (readout[mask], gold[mask])
    loss, nll = output_loss(readout, head.output.weight, head.output.bias, gold, smoothing)
    return Scored(loss, mask.sum(), {"nll": nll}, carry)


def force_chunk(head: TextHead, batch: Batch, carry: Carry | None) -> tuple[Tensor, Carry]:
    """Log probabilities (B, T) of a chunk, zero on padding, and the state to carry on.

    >>> from windlass.core.records import Padded
    >>> from windlass.heads.text import TextHead, TextHeadOptions
    >>> head = TextHead(TextHeadOptions(size=8, context="none"), 10, memory_size=0, final_sizes=())
    >>> force_chunk(head, Batch({}, Padded.of([[5, 6, 7]]), torch.arange(1)), None)[0].shape
    torch.Size([1, 3])
    """
    assert batch.target is not None
    readout, carry = run_chunk(head, batch, carry)
    logp = torch.log_softmax(head.output(readout), dim=-1).gather(2, batch.target.values[..., None]).squeeze(2)
    return logp * batch.target.mask, carry
