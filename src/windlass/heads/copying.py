"""The copy gate of the pointer-generator, for whole targets and step by step."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from windlass.core.errors import RecipeError
from windlass.core.marks import UNK
from windlass.core.records import Record
from windlass.nn.copying import copy_mixture

GENERATE_LOGIT = 1e4
"""The gate's logit for an empty source, which leaves nothing to copy."""


@dataclass(frozen=True)
class CopySource(Record):
    """The tokens that can be copied from the source of each row.

    >>> import torch
    >>> CopySource(torch.tensor([[5, 9]]), torch.zeros(1, 2), torch.tensor([False]), oov=1).expand_ids(3).shape
    torch.Size([3, 2])
    """

    ids: Tensor  # (B, S) of the source tokens, in the row's extended vocabulary
    gate_values: Tensor  # (B, S) w . v_j, each place's share of the gate's logit
    empty: Tensor  # (B,) whether the source has no tokens
    oov: int  # the largest number of out-of-vocabulary tokens in a row

    def expand_ids(self, rows: int) -> Tensor:
        """The ids for `rows` hypotheses, the same number for each source: (N, S)."""
        B, S = self.ids.shape
        return self.ids if rows == B else self.ids[:, None].expand(B, rows // B, S).reshape(rows, S)


def in_vocabulary(tokens: Tensor, vocabulary: int) -> Tensor:
    """Tokens as they are fed back: out-of-vocabulary tokens become unknown.

    >>> import torch
    >>> in_vocabulary(torch.tensor([5, 9]), 9).tolist()
    [5, 1]
    """
    return tokens.masked_fill(tokens >= vocabulary, UNK)


class Gate(nn.Module):
    """The probability of generating the next token, not copying it (See et al. 2017).

    g = sigmoid(w . [s; c; e(y)] + b)

    The context is c = sum_j a_j v_j, so w . c = sum_j a_j (w . v_j), and w . v_j is computed once per batch.

    >>> import torch
    >>> gate = Gate(vocabulary=9, size=4, context=3, embedding=2)
    >>> source = gate.prepare(torch.tensor([[5, 9]]), torch.randn(1, 2, 3), torch.ones(1, 2) > 0)
    >>> source.oov, gate(torch.randn(1, 6, 4), torch.randn(1, 6, 2), torch.rand(1, 6, 2), source).shape
    (1, torch.Size([1, 6]))
    """

    def __init__(self, vocabulary: int, size: int, context: int, embedding: int):
        super().__init__()
        self.vocabulary = vocabulary
        self.sizes = (size, context, embedding)
        self.layer = nn.Linear(sum(self.sizes), 1)

    def weights(self) -> tuple[Tensor, ...]:
        """The weights for state, context and token."""
        parts: tuple[Tensor, ...] = self.layer.weight[0].split(self.sizes)
        return parts

    def prepare(self, ids: Tensor | None, values: Tensor, mask: Tensor) -> CopySource:
        """Prepare the source, once per batch: its ids (B, S), values (B, S, D) and mask (B, S)."""
        if ids is None:
            raise RecipeError("this model copies: the batch needs the ids of its source tokens (input 'copy')")
        oov = max(0, int(ids.max()) + 1 - self.vocabulary) if ids.numel() else 0
        return CopySource(ids, values @ self.weights()[1], ~mask.any(1), oov)

    def forward(self, s: Tensor, e: Tensor, weights: Tensor, source: CopySource) -> Tensor:
        """The logit (B, T) from states (B, T, H), tokens (B, T, E) and attention (B, T, S)."""
        w_state, _, w_token = self.weights()
        context = (weights @ source.gate_values[..., None]).squeeze(-1)
        logit = s @ w_state + e @ w_token + context + self.layer.bias
        return logit.masked_fill(source.empty[:, None], GENERATE_LOGIT)

    def mix(self, logits: Tensor, s: Tensor, e: Tensor, weights: Tensor, source: CopySource) -> Tensor:
        """Log probabilities of one step: logits (N, V), states (N, H), tokens (N, E), attention (N, S)."""
        B = source.empty.size(0)
        gate: Tensor = self(*(part.unflatten(0, (B, -1)) for part in (s, e, weights)), source)
        return copy_mixture(logits, gate.flatten(), weights, source.expand_ids(len(logits)), source.oov)
