"""Dropout: the right share, unbiased, one mask for values and gradients."""

from __future__ import annotations

import pytest
import torch

from windlass.nn.dropout import drop


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_a_share_of_p_is_zero_and_the_rest_scaled(p: float, dtype: torch.dtype) -> None:
    y = drop(torch.ones(200, 1000, dtype=dtype), p)
    assert y.dtype == dtype
    kept = y[y != 0]
    torch.testing.assert_close(kept, torch.full_like(kept, 1 / (1 - p)))
    assert abs(len(kept) / y.numel() - (1 - p)) < 0.005


def test_the_gradient_has_the_same_mask() -> None:
    x = torch.ones(50, requires_grad=True)
    y = drop(x, 0.5)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())


def test_nothing_and_everything() -> None:
    x = torch.ones(5)
    assert drop(x, 0.0) is x
    assert drop(x, 0.5, training=False) is x
    assert not drop(x, 1.0).any()
