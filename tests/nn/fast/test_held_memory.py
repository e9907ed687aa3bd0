"""What training does not need is not held."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from windlass.nn.fast.attention import FusedScore, TanhTape
from windlass.nn.fast.decoder import FusedDecoder, Layer, decode
from windlass.nn.fast.recurrence import GruTape, LstmTape, recurrence
from windlass.nn.loss import cross_entropy, output_loss


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize(("tape", "gates"), [(GruTape, 3), (LstmTape, 4)])
def test_a_recurrence_lets_go_of_its_tape_unless_the_graph_is_kept(tape, gates, kept):
    state = (torch.zeros(2, 3),) * (gates - 2)
    x = torch.randn(5, 2, gates * 3, requires_grad=True)
    outputs, _ = recurrence(tape, x, state, torch.randn(gates * 3, 3), None, None, reverse=False)
    node, total = outputs.grad_fn, outputs.sum()
    assert node.tape is not None
    total.backward(retain_graph=kept)
    assert (node.tape is not None) == kept
    if kept:
        total.backward()
        assert node.tape is None
    with pytest.raises(RuntimeError, match="second time"):
        total.backward()


@pytest.mark.parametrize(("tape", "gates"), [(GruTape, 3), (LstmTape, 4)])
def test_gradients_take_the_place_of_the_tape_unless_the_graph_is_kept(tape, gates):
    state = (torch.zeros(2, 3),) * (gates - 2)
    x, weight = torch.randn(5, 2, gates * 3, requires_grad=True), torch.randn(gates * 3, 3, requires_grad=True)
    outputs, _ = recurrence(tape, x, state, weight, None, None, reverse=False)
    held, total = outputs.grad_fn.tape, outputs.square().sum()
    first = torch.autograd.grad(total, (x, weight), retain_graph=True)
    assert held.dx is not held.gates
    again = torch.autograd.grad(total, (x, weight))
    assert held.dx is held.gates
    for one, other in zip(first, again, strict=True):
        assert torch.equal(one, other)


def test_a_decoder_lets_go_of_its_run_and_does_not_hold_its_tokens():
    B, S, H, A = 2, 4, 3, 5
    layer = Layer(LstmTape, torch.randn(4 * H, H, requires_grad=True), None, (torch.zeros(B, H), torch.zeros(B, H)))
    score = FusedScore(TanhTape, torch.randn(B, S, A), torch.randn(A, H), torch.randn(A))
    x = torch.randn(6, B, 4 * H, requires_grad=True)
    states, _, _ = decode(FusedDecoder(x, (layer,), False, score, torch.ones(B, S) > 0, False, None))
    node = states.grad_fn
    assert node.pass_ is not None
    assert node.pass_.decoder.x.numel() == 0
    states.sum().backward()
    assert node.pass_ is None
    assert x.grad is not None
    assert x.grad.abs().sum() > 0


@pytest.mark.parametrize("rows", [1, 31, 32, 45, 300])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_blocks_of_whole_units_give_the_loss_and_gradients_of_their_real_rows(rows, smoothing):
    torch.manual_seed(rows)
    o, w, b = (torch.randn(*shape, requires_grad=True) for shape in ((rows, 6), (50, 6), (50,)))
    gold = torch.randint(50, (rows,))
    found = []
    for loss, _ in (output_loss(o, w, b, gold, smoothing), cross_entropy(o @ w.t() + b, gold, smoothing)):
        found.append([loss.detach(), *torch.autograd.grad(loss, (o, w, b))])
    for one, two in zip(*found, strict=True):
        assert torch.allclose(one, two, atol=1e-4, rtol=1e-4)


def test_importing_what_trains_brings_in_nothing_that_draws_or_judges_and_sets_no_variable():
    """matplotlib, fontTools and sacreBLEU are 45 MB."""
    code = """
import os, sys
before = dict(os.environ)
import windlass.experiment.run
heavy = {"matplotlib", "fontTools", "sacrebleu", "PIL", "pyarrow", "pandas", "sklearn", "sympy"} & set(sys.modules)
print(sorted(heavy), dict(os.environ) == before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[0] == "[] True"
