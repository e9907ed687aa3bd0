"""The gate between writing and copying, as a decoder uses it: whole targets at once, and step by step."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from windlass.core.errors import RecipeError
from windlass.core.marks import UNK
from windlass.core.records import Record
from windlass.nn.copying import mixture

WRITES = 1e4
"""The gate's logit where there is nothing to copy from."""


@dataclass(frozen=True)
class Copies(Record):
    """What can be copied from the source of every row.

    >>> import torch
    >>> Copies(torch.tensor([[5, 9]]), torch.zeros(1, 2), torch.tensor([False]), more=1).ids.shape
    torch.Size([1, 2])
    """

    ids: Tensor  # (B, S) what every place holds, in the vocabulary that the row's source extends
    seen: Tensor  # (B, S) each place's share of the gate, should it be attended to
    blank: Tensor  # (B,) whether there is no place at all
    more: int  # how many ids there are beyond the vocabulary, in the row that has most

    def each(self, rows: int) -> Tensor:
        """The ids for so many rows of hypotheses: (N, S)."""
        B, S = self.ids.shape
        return self.ids if rows == B else self.ids[:, None].expand(B, rows // B, S).reshape(rows, S)


def in_vocabulary(tokens: Tensor, vocabulary: int) -> Tensor:
    """Tokens as they are fed back: one that was copied from beyond the vocabulary is unknown.

    >>> import torch
    >>> in_vocabulary(torch.tensor([5, 9]), 9).tolist()
    [5, 1]
    """
    return tokens.masked_fill(tokens >= vocabulary, UNK)


class Gate(nn.Module):
    """How much of the next token is written, and not copied: g = sigmoid(w . [s; c; e(y)] + b)   (See et al. 2017).

    The context c is an average of values v_j, so its share is that of w . v_j, which is the same at every step.

    >>> import torch
    >>> gate = Gate(vocabulary=9, size=4, context=3, embedded=2)
    >>> copies = gate.prepare(torch.tensor([[5, 9]]), torch.randn(1, 2, 3), torch.ones(1, 2) > 0)
    >>> copies.more, gate(torch.randn(1, 6, 4), torch.randn(1, 6, 2), torch.rand(1, 6, 2), copies).shape
    (1, torch.Size([1, 6]))
    """

    def __init__(self, vocabulary: int, size: int, context: int, embedded: int):
        super().__init__()
        self.vocabulary = vocabulary
        self.sizes = (size, context, embedded)
        self.layer = nn.Linear(sum(self.sizes), 1)

    def parts(self) -> tuple[Tensor, ...]:
        """The weights of state, context and token."""
        found: tuple[Tensor, ...] = self.layer.weight[0].split(self.sizes)
        return found

    def prepare(self, ids: Tensor | None, values: Tensor, mask: Tensor) -> Copies:
        """Once for a batch: the ids of places (B, S), their values (B, S, D), and which of them are real."""
        if ids is None:
            raise RecipeError("this model copies: a batch must say what the places of its source hold (input 'copy')")
        more = max(0, int(ids.max()) + 1 - self.vocabulary) if ids.numel() else 0
        return Copies(ids, values @ self.parts()[1], ~mask.any(1), more)

    def forward(self, s: Tensor, e: Tensor, weights: Tensor, copies: Copies) -> Tensor:
        """The logit (B, T) of states (B, T, H), tokens (B, T, E) and attention (B, T, S)."""
        of_state, _, of_token = self.parts()
        looked = (weights @ copies.seen[..., None]).squeeze(-1)
        return (s @ of_state + e @ of_token + looked + self.layer.bias).masked_fill(copies.blank[:, None], WRITES)

    def mix(self, logits: Tensor, s: Tensor, e: Tensor, weights: Tensor, copies: Copies) -> Tensor:
        """Log probabilities of one step: logits (N, V), states (N, H), tokens (N, E), attention (N, S)."""
        B = copies.blank.size(0)
        s, e, looks = (part.unflatten(0, (B, -1)) for part in (s, e, weights))
        return mixture(logits, self(s, e, looks, copies).flatten(), weights, copies.each(len(logits)), copies.more)
