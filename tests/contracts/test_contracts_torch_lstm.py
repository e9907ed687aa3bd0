"""torch's own LSTM equals the cell's steps: outputs, last states and every gradient."""

import pytest
import torch

from windlass.nn import fast
from windlass.nn.cells import GRU, LSTM
from windlass.nn.fast import torch_lstm
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
    kernel = outcome(lambda x, *state: torch_lstm.run(cell, x, state, None, reverse), cell, given)
    steps = outcome(lambda x, *state: stepwise(cell, x, state, None, reverse), cell, given)
    for one, other in zip(kernel, steps, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("reverse", [False, True])
def test_padding_at_the_end_equals_step_by_step(reverse):
    cell, (x, *state) = made(True, 6, torch.float64)
    given = [x] if reverse else [x, *state]
    real = torch.arange(S)[:, None, None] < torch.tensor([S, 7, 0])[:, None]
    begun = (torch.zeros(B, 6, dtype=torch.float64),) * 2

    def kernel(x, *state):
        outputs, last = torch_lstm.run(cell, x, state or begun, real, reverse)
        return outputs * real, last

    def steps(x, *state):
        outputs, last = stepwise(cell, x, state or None, real, reverse)
        return outputs * real, last

    for one, other in zip(outcome(kernel, cell, given), outcome(steps, cell, given), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


def test_a_mask_that_it_does_not_know_is_run_by_our_loop():
    cell, x = LSTM.Options().build(I, 20), torch.zeros(S, B, I)
    end = (torch.arange(S)[:, None, None] < torch.tensor([S, 7, 0])[:, None]).expand(S, B, 1)
    hole = end.clone()
    hole[3, 0] = False
    assert torch_lstm.suits(cell, x, end)
    assert not torch_lstm.suits(cell, x, end, reverse_from_state=True)
    assert not torch_lstm.suits(cell, x, hole)
    assert not torch_lstm.suits(cell, x, end.flip(0))


@pytest.mark.parametrize("reverse", [False, True])
def test_a_layer_takes_it_and_equals_its_steps(reverse):
    cell, given = made(True, 20, torch.float32)
    assert torch_lstm.suits(cell, given[0])
    x, *state = given
    with torch.no_grad():
        taken, last = run(cell, x.transpose(0, 1), None, tuple(state), reverse)
        steps, end = stepwise(cell, x, tuple(state), None, reverse)
    torch.testing.assert_close(taken.transpose(0, 1), steps, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(last, end, rtol=1e-4, atol=1e-5)


def test_a_wide_layer_takes_it_for_long_texts_only():
    wide, x = LSTM.Options().build(I, torch_lstm.NARROW + 1), torch.zeros(torch_lstm.LONG, B, I)
    assert torch_lstm.suits(wide, x)
    assert not torch_lstm.suits(wide, x[1:])
    assert not torch_lstm.suits(wide, x, torch.ones(torch_lstm.LONG, B, 1, dtype=torch.bool))


def test_what_it_cannot_do_is_run_by_our_loop():
    x = torch.zeros(S, B, I)
    cell = LSTM.Options().build(I, 20)
    assert torch_lstm.suits(cell, x)
    with fast.disabled():
        assert not torch_lstm.suits(cell, x)
    assert not torch_lstm.suits(cell.double(), x.double())
    assert not torch_lstm.suits(LSTM.Options(peepholes=True).build(I, 20), x)
    assert not torch_lstm.suits(GRU.Options().build(I, 20), x)
