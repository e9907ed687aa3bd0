"""torch's own LSTM, where it is taken, equals the cell's steps: outputs, last states and every gradient."""

import pytest
import torch

from windlass.nn import library
from windlass.nn.cells import GRU, LSTM
from windlass.nn.recurrence import run, stepwise

S, B, I = 18, 3, 5


def outcome(way, cell, given):
    torch.manual_seed(5)  # weights that are left out are drawn alike on both ways
    outputs, last = way(*given)
    weights = torch.linspace(-1, 2, outputs.numel(), dtype=outputs.dtype).view_as(outputs)
    loss = (outputs * weights).sum() + sum((part**3).sum() for part in last)
    return [outputs, *last, *torch.autograd.grad(loss, [*given, *cell.parameters()])]


def made(bias, size, dtype, drop=0.0):
    torch.manual_seed(3)
    cell = LSTM.Options(bias=bias, drop=drop).build(I, size).to(dtype)
    for parameter in cell.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    given = [torch.randn(S, B, I, dtype=dtype, requires_grad=True)]
    return cell, given + [torch.randn(B, size, dtype=dtype, requires_grad=True) for _ in range(2)]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("bias", "drop"), [(True, 0.0), (False, 0.0), (True, 0.5)])
def test_it_equals_step_by_step(bias, drop, reverse):
    cell, given = made(bias, 6, torch.float64, drop)
    library_ = outcome(lambda x, *state: library.whole(cell, x, state, reverse), cell, given)
    steps = outcome(lambda x, *state: stepwise(cell, cell.project(x), state, None, reverse), cell, given)
    for one, other in zip(library_, steps, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("reverse", [False, True])
def test_padding_at_the_end_equals_step_by_step(reverse):
    cell, (x, *state) = made(True, 6, torch.float64)
    given = [x] if reverse else [x, *state]
    real = torch.arange(S)[:, None, None] < torch.tensor([S, 7, 0])[:, None]
    begun = (torch.zeros(B, 6, dtype=torch.float64),) * 2

    def library_(x, *state):
        outputs, last = library.whole(cell, x, state or begun, reverse, real)
        return outputs * real, last

    def steps(x, *state):
        outputs, last = stepwise(cell, cell.project(x), state or begun, real, reverse)
        return outputs * real, last

    for one, other in zip(outcome(library_, cell, given), outcome(steps, cell, given), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


def test_a_mask_that_it_cannot_hold_goes_another_way():
    cell, x = LSTM.Options().build(I, 20), torch.zeros(B, S, I)
    end = (torch.arange(S)[:, None, None] < torch.tensor([S, 7, 0])[:, None]).expand(S, B, 1)
    hole = end.clone()
    hole[3, 0] = False
    assert library.fits(cell, x, end)
    assert not library.fits(cell, x, end, onward=False)
    assert not library.fits(cell, x, hole)
    assert not library.fits(cell, x, end.flip(0))


@pytest.mark.parametrize("reverse", [False, True])
def test_a_layer_takes_it_and_equals_its_steps(reverse):
    cell, given = made(True, 20, torch.float32)
    assert library.fits(cell, given[0].transpose(0, 1))
    x, *state = given
    with torch.no_grad():
        taken, last = run(cell, x.transpose(0, 1), None, tuple(state), reverse)
        steps, end = stepwise(cell, cell.project(x), tuple(state), None, reverse)
    torch.testing.assert_close(taken.transpose(0, 1), steps, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(last, end, rtol=1e-4, atol=1e-5)


def test_a_wide_layer_takes_it_for_long_texts_only():
    wide, x = LSTM.Options().build(I, library.NARROW + 1), torch.zeros(B, library.LONG, I)
    assert library.fits(wide, x)
    assert not library.fits(wide, x[:, 1:])
    assert not library.fits(wide, x, torch.ones(library.LONG, B, 1, dtype=torch.bool))


def test_what_it_cannot_do_goes_another_way():
    x = torch.zeros(B, S, I)
    cell = LSTM.Options().build(I, 20)
    assert library.fits(cell, x)
    assert not library.fits(cell.double(), x.double())
    assert not library.fits(LSTM.Options(peepholes=True).build(I, 20), x)
    assert not library.fits(GRU.Options().build(I, 20), x)
