"""Dropout: the right share, unbiased, one mask for values and gradients."""

from __future__ import annotations

import pytest
import torch

from windlass.nn.dropout import drop, drop_mask


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


def test_numbers_of_one_draw_are_independent() -> None:
    torch.manual_seed(1)
    kept = (drop(torch.ones(100_000, 4), 0.3) != 0).double()
    assert (kept.mean(0) - 0.7).abs().max() < 0.01
    assert (torch.corrcoef(kept.T) - torch.eye(4)).abs().max() < 0.015


@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (0,)])
def test_any_shape_has_its_mask_and_the_seed_decides(shape: tuple[int, ...]) -> None:
    masks = []
    for _ in range(2):
        torch.manual_seed(2)
        masks.append(drop_mask(torch.ones(1), shape, 0.5))
    assert masks[0].shape == shape
    assert torch.equal(*masks)


def test_very_small_and_very_large_shares_stay_shares() -> None:
    assert drop(torch.ones(1000), 1e-9).mean() == pytest.approx(1, abs=0.01)
    assert drop(torch.ones(1000), 1 - 1e-9).isfinite().all()
