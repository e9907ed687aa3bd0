"""Losses, by hand."""

import math

import pytest
import torch

from windlass.nn.loss import alignment_loss, coverage_loss, cross_entropy, doubly_stochastic_loss, output_loss

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
    weights = torch.tensor([[[0.7, 0.3], [0.6, 0.4], [0.1, 0.9]]])
    assert torch.allclose(coverage_loss(weights), torch.tensor([[0.0, 0.6 + 0.3, 0.1 + 0.7]]))


def test_doubly_stochastic_loss_is_the_squared_distance_from_1_of_what_each_real_place_received():
    weights = torch.tensor([[[0.7, 0.3, 0.0], [0.6, 0.4, 0.0]], [[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]]])
    places = torch.tensor([[True, True, False], [True, True, True]])
    right = (1 - 1.3) ** 2 + (1 - 0.7) ** 2 + (1 - 0.3) ** 2 + (1 - 0.4) ** 2 + (1 - 1.3) ** 2
    assert doubly_stochastic_loss(weights, places).item() == pytest.approx(right)


def test_doubly_stochastic_loss_has_the_gradient_of_its_formula_and_none_on_padding():
    places = torch.tensor([[True, True, False], [True, True, True]])
    weights = torch.rand(2, 4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a: doubly_stochastic_loss(a, places), (weights,))
    (found,) = torch.autograd.grad(doubly_stochastic_loss(weights, places), weights)
    assert torch.allclose(found, (-2 * (1 - weights.sum(1, keepdim=True)) * places[:, None]).expand_as(weights))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("rows", [1, 5, 7, 100])
def test_an_output_layer_in_blocks_is_the_same_loss_with_the_same_gradients(rows, kind, smoothing, monkeypatch):
    torch.manual_seed(1)
    monkeypatch.setattr("windlass.nn.fast.loss.BLOCK", 11 * rows)
    monkeypatch.setattr("windlass.nn.fast.loss.FEWEST_ROWS", 1)
    given = [torch.randn(size, dtype=kind, requires_grad=True) for size in ((14, 6), (11, 6), (11,))]
    gold = torch.randint(11, (14,))
    loss, nll = output_loss(*given, gold, smoothing)
    expected, plain = cross_entropy(torch.nn.functional.linear(*given), gold, smoothing)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(nll, plain)
    assert not nll.requires_grad
    for share in (3, 14, 1):  # 14 is the mean, for which the gradients are made; each asks for them anew
        right = torch.autograd.grad(expected / share, given, retain_graph=True)
        for one, other in zip(torch.autograd.grad(loss / share, given, retain_graph=True), right, strict=True):
            torch.testing.assert_close(one, other)
    fresh, _ = output_loss(*given, gold, smoothing)
    right = torch.autograd.grad(expected / 14, given)
    for one, other in zip(torch.autograd.grad(fresh / 14, given), right, strict=True):
        torch.testing.assert_close(one, other)


def test_an_output_layer_without_rows_loses_nothing():
    weight = torch.randn(4, 3, requires_grad=True)
    loss, _ = output_loss(torch.zeros(0, 3), weight, torch.zeros(4), torch.zeros(0, dtype=torch.long))
    loss.backward()
    assert loss.item() == 0
    assert not weight.grad.any()


def test_a_hopeless_token_has_a_finite_loss_in_blocks_too():
    loss, _ = output_loss(torch.tensor([[1.0]]), torch.tensor([[500.0], [0.0]]), torch.zeros(2), torch.tensor([1]))
    assert loss.item() == pytest.approx(500.0)


def test_a_table_that_is_embedding_and_output_layer_gets_both_gradients():
    table = torch.randn(5, 3, requires_grad=True)
    ids, gold = torch.tensor([1, 4]), torch.tensor([0, 4])
    (one,) = torch.autograd.grad(output_loss(torch.tanh(table[ids]), table, torch.zeros(5), gold)[0], table)
    (other,) = torch.autograd.grad(cross_entropy(torch.tanh(table[ids]) @ table.t(), gold)[0], table)
    torch.testing.assert_close(one, other)
