"""Cells that train in parallel: their equations in plain numpy, and the scan in log space against the recurrence."""

import numpy as np
import pytest
import torch
from numpy import exp
from pydantic import TypeAdapter

from windlass.nn.cells import CellOptions
from windlass.nn.fast.scan import gated_average, log_average, log_positive, log_scan, positive
from windlass.nn.recurrence import run

B, S, I, H = 2, 6, 3, 4


def sigmoid(x):
    return 1 / (1 + exp(-x))


def g(x):
    return np.where(x >= 0, x + 0.5, sigmoid(x))


def made(**options):
    cell = TypeAdapter(CellOptions).validate_python(options).build(I, H).double()
    for number, (_, parameter) in enumerate(sorted(cell.named_parameters())):
        parameter.data = torch.from_numpy(np.random.default_rng(number).normal(size=parameter.shape))
    return cell


X = np.random.default_rng(7).normal(size=(B, S, I))
START = np.random.default_rng(8).normal(size=(B, H))


def gates(cell, x, number):
    weight, bias = cell.weight_x.detach().numpy(), cell.bias.detach().numpy()
    return np.split(x @ weight.T + bias, number, axis=-1)


def min_gru(cell, x, h):
    z, n = gates(cell, x, 2)
    return (1 - sigmoid(z)) * h + sigmoid(z) * g(n)


def min_lstm(cell, x, h):
    f, i, n = gates(cell, x, 3)
    f, i = sigmoid(f), sigmoid(i)
    return f / (f + i) * h + i / (f + i) * g(n)


@pytest.mark.parametrize(("kind", "equation"), [("min_gru", min_gru), ("min_lstm", min_lstm)])
def test_a_minimal_cell_is_a_running_average_whose_gate_sees_the_input_alone(kind, equation):
    cell = made(kind=kind)
    outputs, (last,) = run(cell, torch.from_numpy(X), state=(torch.from_numpy(START),))
    h = START
    for t in range(S):
        h = equation(cell, X[:, t], h)
        assert np.allclose(outputs[:, t].detach(), h)
    assert np.allclose(last.detach(), h)


def test_the_forget_bias_of_a_min_lstm_is_where_its_forget_gate_starts():
    cell = TypeAdapter(CellOptions).validate_python({"kind": "min_lstm", "forget_bias": 2.5}).build(I, H)
    assert cell.bias.tolist() == [2.5] * H + [0.0] * 2 * H


@pytest.mark.parametrize("peepholes", [True, False])
def test_sru_forgets_and_skips_by_gates_that_see_the_cell(peepholes):
    cell = made(kind="sru", peepholes=peepholes)
    vf, vr = cell.peepholes.detach().numpy()
    assert bool(vf.any()) == peepholes
    outputs, (h, c) = run(cell, torch.from_numpy(X), state=(torch.zeros(B, H).double(), torch.from_numpy(START)))
    right = START
    for t in range(S):
        x_f, x_r, new, skip = gates(cell, X[:, t], 4)
        f, r = sigmoid(x_f + vf * right), sigmoid(x_r + vr * right)
        right = f * right + (1 - f) * new
        assert np.allclose(outputs[:, t].detach(), r * right + (1 - r) * skip)
    assert np.allclose(c.detach(), right)
    assert torch.equal(h, outputs[:, -1])


def test_the_candidate_is_positive_and_its_logarithm_holds_where_it_underflows():
    x = torch.tensor([-300.0, -2.0, 0.0, 0.5, 40.0], dtype=torch.float64)
    assert np.allclose(positive(x), g(x.numpy()))
    assert torch.allclose(log_positive(x[1:]).exp(), positive(x[1:]))
    assert log_positive(x[0]).item() == -300.0


def test_a_scan_in_log_space_is_the_recurrence_in_values_and_gradients_from_any_start():
    torch.manual_seed(1)
    logit, new = (torch.randn(200, B, H, dtype=torch.float64, requires_grad=True) for _ in range(2))
    start = torch.randn(B, H, dtype=torch.float64, requires_grad=True)
    real = torch.rand(200, B, 1) < 0.8
    ways = log_average(logit, new, start, real), gated_average(logit, new, start, real)
    torch.testing.assert_close(*ways, rtol=1e-10, atol=1e-12)
    gradients = (torch.autograd.grad((way**2).sum(), [logit, new, start]) for way in ways)
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


def test_a_scan_in_log_space_forgets_over_thousands_of_steps_without_overflow():
    keep = torch.full((5000, 1), 1e-3).log()  # their sum is -34,539: exp of it is 0 in any precision
    states = log_scan(keep, torch.zeros(5000, 1), torch.ones(1))
    assert torch.allclose(states[-1], torch.tensor(1 / (1 - 1e-3)), rtol=0.01)  # float32 has 0.004 of such a sum
