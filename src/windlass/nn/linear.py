"""A linear layer whose products are those of `nn.fast` in training."""

from __future__ import annotations

from torch import Tensor, nn

from windlass.nn.fast.onednn import linear


class Linear(nn.Linear):
    """`torch.nn.Linear`: x W' + b. In training oneDNN multiplies, in mixed precision if that is asked for.

    >>> import torch
    >>> Linear(2, 3)(torch.ones(4, 5, 2)).shape
    torch.Size([4, 5, 3])
    """

    def forward(self, input: Tensor) -> Tensor:
        """(..., I) -> (..., O)."""
        return linear(input, self.weight, self.bias)
