"""Fused equals step by step, in outputs, last states and every gradient."""

import pytest
import torch

from windlass.core.records import Batch, Padded
from windlass.heads.options import TextHeadOptions
from windlass.heads.text import TextHead
from windlass.model import LossOptions, ModelOptions, build
from windlass.nn.cells import GRU, LSTM
from windlass.nn.recurrence import stepwise

B, S, I, H = 4, 7, 5, 6
MASKS = {
    "all real": None,
    "padded": torch.arange(S) < torch.tensor([7, 3, 5, 1])[:, None],
    "an empty row": torch.arange(S) < torch.tensor([7, 0, 5, 1])[:, None],
}
FUSED = {
    "lstm": LSTM.Options(),
    "lstm without biases": LSTM.Options(bias=False),
    "gru": GRU.Options(reset="after"),
    "gru without biases": GRU.Options(reset="after", bias=False),
}


def outcome(way, cell, given, mask, reverse):
    x, *state = given
    real = None if mask is None else mask.t()[..., None]
    outputs, last = way(cell.project(x), tuple(state), real, reverse)
    weights = torch.linspace(-1, 2, outputs.numel(), dtype=x.dtype).view_as(outputs)
    loss = (outputs * weights).sum() + sum((part**3).sum() for part in last)
    return [outputs, *last, *torch.autograd.grad(loss, [*given, *cell.parameters()])]


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("mask", list(MASKS))
@pytest.mark.parametrize("kind", list(FUSED))
def test_fused_equals_step_by_step(kind, mask, reverse):
    torch.manual_seed(3)
    cell = FUSED[kind].build(I, H).double()
    given = [torch.randn(S, B, I, dtype=torch.float64, requires_grad=True)]
    given += [torch.randn(B, H, dtype=torch.float64, requires_grad=True) for _ in range(cell.parts)]
    for parameter in cell.parameters():  # biases start at zero: a fused way that drops them must be seen
        parameter.data += 0.3 * torch.randn_like(parameter)
    fused = outcome(cell.whole, cell, given, MASKS[mask], reverse)
    steps = outcome(lambda *a: stepwise(cell, *a), cell, given, MASKS[mask], reverse)
    for one, other in zip(fused, steps, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    "options", [LSTM.Options(peepholes=True), LSTM.Options(output="sigmoid"), GRU.Options(reset="before")]
)
def test_what_is_not_fused_says_so(options):
    cell = options.build(I, H)
    assert cell.whole(cell.project(torch.zeros(S, B, I)), cell.zeros(B, torch.zeros(1)), None, False) is None


def padded(rows):
    return Padded.of([[*row, 3] for row in rows])


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_a_fused_decoder_equals_its_steps_with_supervised_attention_too(cell, monkeypatch):
    torch.manual_seed(4)
    options = ModelOptions(
        encoder={"kind": "recurrent", "size": 4, "embedding": {"kind": "learned", "size": 3}},
        decoder=TextHeadOptions(size=H, cell=cell, start="summary", readout={"kind": "deep", "size": 5}),
    )
    model = build(options, LossOptions(alignment=0.7, label_smoothing=0.1), 12, 12).double()
    source, target = padded([[5, 6, 7], [8], []]), padded([[9, 10], [4, 5, 6, 7], [8]])
    gold = torch.rand(3, target.mask.size(1), source.mask.size(1), dtype=torch.float64) * source.mask[:, None]
    batch = Batch({"source": source}, target, torch.arange(3), gold)
    assert model.head.fused
    fused = model(batch)
    fused_gradients = torch.autograd.grad(fused.mean, list(model.parameters()))
    monkeypatch.setattr(TextHead, "fused", False)
    steps = model(batch)
    torch.testing.assert_close(fused.loss_sum, steps.loss_sum, rtol=1e-10, atol=1e-10)
    for one, other in zip(fused_gradients, torch.autograd.grad(steps.mean, list(model.parameters())), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


def test_locked_dropout_meets_a_fused_decoder_too(monkeypatch):
    options = ModelOptions(decoder=TextHeadOptions(size=H, dropout=0.5, locked=True))
    model = build(options, LossOptions(), 12, 12)
    batch = Batch({"source": padded([[5, 6, 7]])}, padded([[9, 10, 4]]), torch.arange(1))
    losses = []
    for fused in (True, False):
        monkeypatch.setattr(TextHead, "fused", fused)
        torch.manual_seed(6)  # the masks are drawn alike on both ways
        losses.append(model(batch).loss_sum.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
