"""Truncated back-propagation through time: a language model over chunks of running text, which carry the state on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from windlass.core.marks import BOS
from windlass.core.records import Batch, Carry, Padded, Scored
from windlass.nn.loss import output_loss

if TYPE_CHECKING:
    from windlass.heads.text import TextHead


def chunk_inputs(batch: Batch) -> Padded:
    """The tokens that a decoder reads in a chunk: the one before it, or the start mark, and all but the last.

    >>> chunk_inputs(Batch({}, Padded.of([[5, 6, 7]]), torch.arange(1))).values.tolist()
    [[2, 5, 6]]
    """
    assert batch.target is not None
    target, before = batch.target, batch.inputs.get("before")
    first = torch.full_like(target.values[:, :1], BOS) if before is None else before.values
    return Padded(torch.cat([first, target.values[:, :-1]], dim=1), target.mask)


def score_chunk(head: TextHead, batch: Batch, carry: Carry | None, smoothing: float = 0.0) -> Scored:
    """The training loss of a chunk, and the state to carry on.

    >>> from windlass.heads.recurrent import RecurrentDecoder
    >>> head = RecurrentDecoder(RecurrentDecoder.Options(size=8, context="none"), 10, memory_size=0, final_sizes=())
    >>> int(score_chunk(head, Batch({}, Padded.of([[5, 6, 7]]), torch.arange(1)), None).count)
    3
    """
    assert batch.target is not None
    readout, carry = head.run_chunk(batch, carry)
    # Time first, as the recurrence returns it, and without indexing if there is no padding: neither copies.
    readout, gold, mask = readout.transpose(0, 1), batch.target.values.t(), batch.target.mask.t()
    readout, gold = (readout.flatten(0, 1), gold.flatten()) if bool(mask.all()) else (readout[mask], gold[mask])
    loss, nll = output_loss(readout, head.output.weight, head.output.bias, gold, smoothing)
    return Scored(loss, mask.sum(), {"nll": nll}, carry)


def force_chunk(head: TextHead, batch: Batch, carry: Carry | None) -> tuple[Tensor, Carry]:
    """Log probabilities (B, T) of a chunk, zero on padding, and the state to carry on.

    >>> from windlass.heads.recurrent import RecurrentDecoder
    >>> head = RecurrentDecoder(RecurrentDecoder.Options(size=8, context="none"), 10, memory_size=0, final_sizes=())
    >>> force_chunk(head, Batch({}, Padded.of([[5, 6, 7]]), torch.arange(1)), None)[0].shape
    torch.Size([1, 3])
    """
    assert batch.target is not None
    readout, carry = head.run_chunk(batch, carry)
    logp = torch.log_softmax(head.output(readout), dim=-1).gather(2, batch.target.values[..., None]).squeeze(2)
    return logp * batch.target.mask, carry
