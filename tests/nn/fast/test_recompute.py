"""What is computed a second time is what was computed the first time."""

import torch
from torch.nn import functional as F

from windlass.nn.fast import disabled
from windlass.nn.fast.recompute import recompute


def test_dropout_is_the_same_both_times():
    torch.manual_seed(1)
    w = torch.ones(200, requires_grad=True)
    (dropped,) = recompute(lambda: (F.dropout(w, 0.5, True),), [w])
    torch.rand(7)  # whatever else is drawn before the way back
    state = torch.get_rng_state()
    dropped.sum().backward()
    assert torch.equal(w.grad != 0, dropped != 0)
    assert 50 < int((dropped != 0).sum()) < 150
    assert torch.equal(torch.get_rng_state(), state)  # the second time leaves no trace


def test_gradients_are_those_of_the_usual_way_for_several_outputs_of_which_some_are_not_used():
    a, b = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
    first, _, count = recompute(lambda: (a * b, a.exp(), torch.tensor([1.0])), [a, b])
    found = torch.autograd.grad((first**2).sum() + count.sum(), [a, b])
    assert torch.allclose(found[0], 2 * a * b * b)
    assert torch.allclose(found[1], 2 * a * a * b)


def test_no_graph_is_kept_in_between():
    made = []
    w = torch.ones(2, requires_grad=True)
    (out,) = recompute(lambda: (made.append(torch.is_grad_enabled()) or w * 2,), [w])
    assert made == [False]
    out.sum().backward()
    assert made == [False, True]


def test_while_fast_paths_are_disabled_the_graph_is_stored():
    graphs = []
    w = torch.ones(2, requires_grad=True)
    with disabled():
        (out,) = recompute(lambda: (graphs.append(torch.is_grad_enabled()) or w * 2,), [w])
    out.sum().backward()
    assert graphs == [True]


def test_without_gradients_it_is_the_thing_itself():
    w = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        (out,) = recompute(lambda: (w * 2,), [w])
    assert not out.requires_grad
