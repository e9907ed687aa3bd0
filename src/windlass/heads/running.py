"""A decoder over running text: it begins where the chunk before ended, and leaves its state for the next."""

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
    """Run a chunk through the decoder: readouts (B, T, R), and where each row stands at its own end.

    A row that does not go on from the batch before, or that nothing was carried on for, starts as any text does.

    >>> from windlass.core.records import Padded
    >>> from windlass.heads.options import TextHeadOptions
    >>> from windlass.heads.text import TextHead
    >>> head = TextHead(TextHeadOptions(size=8, context="none"), vocabulary=10, memory_size=0, final_sizes=())
    >>> batch = Batch({}, Padded.of([[5, 6, 7], [8, 9, 4]]), torch.arange(2), continues=torch.zeros(2) > 0)
    >>> readout, carry = run_chunk(head, batch, None)
    >>> readout.shape, carry.layers[0][0].shape
    (torch.Size([2, 3, 8]), torch.Size([2, 8]))
    """
    assert batch.target is not None
    if head.embedding is None or head.options.context.kind != "none":
        raise RecipeError("running text needs a decoder that reads what it wrote and sees nothing else")
    target = batch.target
    begun = head.stack.begin(head.start(Memory.empty(batch.size, target.values.device)))
    if carry is not None and batch.continues is not None:
        pairs = zip(carry.layers, begun.layers, strict=True)
        begun = replace(begun, layers=tuple(_chosen(batch.continues[:, None], *pair) for pair in pairs))
    before = batch.inputs.get("before")
    first = torch.full_like(target.values[:, :1], BOS) if before is None else before.values
    e = head.embedding(torch.cat([first, target.values[:, :-1]], dim=1))  # (B, T, E)
    s, layers = head.stack(e, target.mask, begun)
    return head._read(s, None, e), Carry(layers)


def _chosen(goes_on: Tensor, carried: CellState, anew: CellState) -> CellState:
    """Of two states, the first where a row goes on, the second elsewhere."""
    return tuple(torch.where(goes_on, c, a) for c, a in zip(carried, anew, strict=True))


def score_chunk(head: TextHead, batch: Batch, carry: Carry | None, smoothing: float = 0.0) -> Scored:
    """The training loss of a chunk, with what the next one starts from.

    >>> from windlass.core.records import Padded
    >>> from windlass.heads.options import TextHeadOptions
    >>> from windlass.heads.text import TextHead
    >>> head = TextHead(TextHeadOptions(size=8, context="none"), vocabulary=10, memory_size=0, final_sizes=())
    >>> batch = Batch({}, Padded.of([[5, 6, 7]]), torch.arange(1), continues=torch.zeros(1) > 0)
    >>> int(score_chunk(head, batch, None).count)
    3
    """
    assert batch.target is not None
    readout, onward = run_chunk(head, batch, carry)
    # Time first, as the recurrence leaves it, and without a look-up where nothing is padding: neither needs a copy.
    seen, gold, mask = readout.transpose(0, 1), batch.target.values.t(), batch.target.mask.t()
    seen, gold = (seen.flatten(0, 1), gold.flatten()) if bool(mask.all()) else (seen[mask], gold[mask])
    loss, nll = output_loss(seen, head.output.weight, head.output.bias, gold, smoothing)
    return Scored(loss, mask.sum(), {"nll": nll}, onward)


def force_chunk(head: TextHead, batch: Batch, carry: Carry | None) -> tuple[Tensor, Carry]:
    """Log probabilities (B, T) of a chunk, zero on padding, with what the next one starts from.

    >>> from windlass.core.records import Padded
    >>> from windlass.heads.options import TextHeadOptions
    >>> from windlass.heads.text import TextHead
    >>> head = TextHead(TextHeadOptions(size=8, context="none"), vocabulary=10, memory_size=0, final_sizes=())
    >>> batch = Batch({}, Padded.of([[5, 6, 7]]), torch.arange(1), continues=torch.zeros(1) > 0)
    >>> force_chunk(head, batch, None)[0].shape
    torch.Size([1, 3])
    """
    assert batch.target is not None
    readout, onward = run_chunk(head, batch, carry)
    logp = torch.log_softmax(head.output(readout), dim=-1).gather(2, batch.target.values[..., None]).squeeze(2)
    return logp * batch.target.mask, onward
