"""torch's own LSTM, where it is taken, equals the cell's steps: outputs, last states and every gradient."""

import pytest
import torch

from windlass.nn import library
from windlass.nn.cells import GRU, LSTM
from windlass.nn.recurrence import run, stepwise

S, B, I = 18, 3, 5


def outcome(way, cell, given):
    outputs, last = way(*given)
    weights = torch.linspace(-1, 2, outputs.numel(), dtype=outputs.dtype).view_as(outputs)
    loss = (outputs * weights).sum() + sum((part**3).sum() for part in last)
    return [outputs, *last, *torch.autograd.grad(loss, [*given, *cell.parameters()])]


def made(bias, size, dtype):
    torch.manual_seed(3)
    cell = LSTM.Options(bias=bias).build(I, size).to(dtype)
    for parameter in cell.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    given = [torch.randn(S, B, I, dtype=dtype, requires_grad=True)]
    return cell, given + [torch.randn(B, size, dtype=dtype, requires_grad=True) for _ in range(2)]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("bias", [True, False])
def test_it_equals_step_by_step(bias, reverse):
    cell, given = made(bias, 6, torch.float64)
    library_ = outcome(lambda x, *state: library.whole(cell, x, state, reverse), cell, given)
    steps = outcome(lambda x, *state: stepwise(cell, cell.project(x), state, None, reverse), cell, given)
    for one, other in zip(library_, steps, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_layer_takes_it_and_equals_its_steps(reverse):
    cell, given = made(True, 20, torch.float32)
    assert library.fits(cell, given[0])
    x, *state = given
    with torch.no_grad():
        taken, last = run(cell, x.transpose(0, 1), None, tuple(state), reverse)
        steps, end = stepwise(cell, cell.project(x), tuple(state), None, reverse)
    torch.testing.assert_close(taken.transpose(0, 1), steps, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(last, end, rtol=1e-4, atol=1e-5)


def test_what_it_cannot_do_goes_another_way():
    x = torch.zeros(S, B, I)
    cell = LSTM.Options().build(I, 20)
    assert library.fits(cell, x)
    assert not library.fits(cell.double(), x.double())
    assert not library.fits(LSTM.Options(peepholes=True).build(I, 20), x)
    assert not library.fits(GRU.Options().build(I, 20), x)
