"""Dynamic evaluation (Krause et al. 2018): a language model that goes on learning from the text it is scored on.

Every chunk is scored first, by a model that has seen only what is before it; then its gradient g changes the weights:

    w = w - rate g / sqrt(mean of g^2 so far) + DECAY (w_0 - w)

w_0 are the weights as trained, to which the model returns slowly. The original divides by the root mean square of
gradients over the training data, which a bundle does not have; here it is that of the text so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import cast

import torch
from torch import Tensor

from windlass.bundle import Bundle
from windlass.core.records import Carry
from windlass.data.running import chunk_of
from windlass.heads.running import force_chunk
from windlass.heads.text import TextHead

CHUNK = 20
"""Tokens that are scored before the weights change."""
DECAY = 0.002
TINY = 1e-8


def dynamic_logprobs(bundle: Bundle, ids: Sequence[int], rate: float) -> Tensor:
    """Return the log probability of every token of a running text (N,), the weights following the text.

    The bundle itself stays as it is.

    >>> from windlass.inference.likelihood import logprobs, tiny_lm
    >>> bundle = tiny_lm()
    >>> ids = bundle.sides.tokenizer.encode("abcab" * 40)
    >>> bool(dynamic_logprobs(bundle, ids, 0.01).sum() > logprobs([bundle], ids).sum())
    True
    """
    model = deepcopy(bundle.model).eval()
    head = cast("TextHead", model.head)  # a language model writes text
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    trained = [weight.detach().clone() for weight in weights]
    squares = [torch.zeros_like(weight) for weight in weights]
    values = torch.tensor([list(ids)])
    mask = torch.ones_like(values) > 0
    carry: Carry | None = None
    found = []
    for number, begin in enumerate(range(0, len(ids), CHUNK), 1):
        batch = chunk_of(values, mask, begin, min(len(ids), begin + CHUNK)).to(bundle.device)
        with torch.enable_grad():
            logp, after = force_chunk(head, batch, carry)
            gradients = torch.autograd.grad(-logp.mean(), weights, allow_unused=True)
        carry = after.map(Tensor.detach)
        found.append(logp.detach()[0].cpu().double())
        with torch.no_grad():
            for weight, start, square, gradient in zip(weights, trained, squares, gradients, strict=True):
                if gradient is None:  # as of an initial state, behind the first chunk
                    continue
                square.lerp_(gradient * gradient, 1 / number)
                weight.addcdiv_(gradient, square.sqrt().add_(TINY), value=-rate).lerp_(start, DECAY)
    return torch.cat(found)
