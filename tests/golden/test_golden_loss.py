"""Losses, by hand."""

import math

import pytest
import torch

from windlass.nn.loss import alignment_loss, coverage_loss, cross_entropy

LOGITS = torch.tensor([[1.0, 2.0, 0.0, -1.0], [0.5, 0.5, 3.0, 0.0]], dtype=torch.float64)
GOLD = torch.tensor([1, 3])


def log_softmax(row):
    total = math.log(sum(math.exp(v) for v in row))
    return [v - total for v in row]


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_smoothing_mixes_in_the_mean_over_all_outputs_and_the_likelihood_stays(smoothing):
    logp = [log_softmax(row) for row in LOGITS.tolist()]
    nll = -sum(row[g] for row, g in zip(logp, GOLD.tolist(), strict=True))
    uniform = -sum(sum(row) / 4 for row in logp)
    loss, plain = cross_entropy(LOGITS, GOLD, smoothing)
    assert loss.item() == pytest.approx((1 - smoothing) * nll + smoothing * uniform)
    assert plain.item() == pytest.approx(nll)
    peer = torch.nn.functional.cross_entropy(LOGITS, GOLD, label_smoothing=smoothing, reduction="sum")
    assert loss.item() == pytest.approx(peer.item())
    assert not plain.requires_grad


def test_alignment_loss_counts_gold_places_only():
    weights = torch.tensor([[[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]]])
    gold = torch.tensor([[[1.0, 0, 0], [0, 0, 0], [0, 0.5, 0.5]]])
    right = -(math.log(0.7) + 0.5 * math.log(0.3) + 0.5 * math.log(0.4))
    assert alignment_loss(weights, gold).item() == pytest.approx(right, rel=1e-6)


def test_alignment_loss_survives_a_gold_place_that_gets_nothing():
    weights = torch.tensor([[[0.0, 1.0]]], requires_grad=True)
    loss = alignment_loss(weights, torch.tensor([[[1.0, 0.0]]]))
    loss.backward()
    assert loss.isfinite()
    assert weights.grad.isfinite().all()


def test_coverage_loss_is_the_smaller_of_weight_and_what_came_before_summed_over_places():
    weights = torch.tensor([[[0.7, 0.3], [0.6, 0.4]]])
    coverage = torch.tensor([[[0.0, 0.0], [0.7, 0.3]]])
    assert torch.allclose(coverage_loss(weights, coverage), torch.tensor([[0.0, 0.9]]))
