"""The seam: one switch, and parts that offer no fast path run step by step."""

import threading

import pytest
import torch
from torch import nn

from windlass.core.options import members
from windlass.core.records import Batch, Member, Padded
from windlass.decoding.options import Beam
from windlass.decoding.search import SearchRequest, search
from windlass.model import LossOptions, ModelOptions, build
from windlass.nn import fast
from windlass.nn.attention import Attention, Score
from windlass.nn.cell import Cell
from windlass.nn.cells import CellOptions
from windlass.nn.recurrence import run


class Minimal(Cell):
    """h' = tanh(W x + U h), and nothing else."""

    def __init__(self, input_size, size):
        nn.Module.__init__(self)
        self.input_size, self.size, self.drop = input_size, size, 0.0
        self.weight_x = nn.Parameter(torch.randn(size, input_size) / 4)
        self.weight_h = nn.Parameter(torch.randn(size, size) / 4)
        self.bias = None

    def step(self, projected, state, products=None):
        (product,) = products or self.products()
        return (torch.tanh(projected + product(state[0])),)


class Distance(Score):
    """e = -|q - k|^2."""

    size = 8

    def prepare(self, keys):
        return keys

    def compare(self, query, keys):
        return -torch.cdist(query, keys).square()


def model(cell=None, score=None):
    torch.manual_seed(1)
    table = {"kind": "learned", "size": 5}
    options = ModelOptions.model_validate(
        {
            "encoder": {"kind": "recurrent", "cell": "gru", "size": 4, "embedding": table},
            "decoder": {"cell": "gru", "size": 8, "embedding": table, "context": "attention", "start": "summary"},
        }
    )
    network = build(options, LossOptions(), 12, 12).double()
    if cell is not None:
        for stack in (network.encoder.stack, network.head.stack):
            for cells in (stack.cells, stack.backward_cells):
                for number, old in enumerate(cells):
                    cells[number] = cell(old.input_size, old.size).double()
    if score is not None:
        network.head.attention.score = score()
    return network


def batch():
    return Batch({"source": Padded.of([[5, 6, 7, 3], [8, 3]])}, Padded.of([[9, 3], [10, 11, 3]]), torch.arange(2))


def outcome(network):
    network.train().zero_grad()
    loss = network(batch()).mean
    loss.backward()
    network.eval()
    with torch.no_grad():
        hypotheses = search([Member(network.head, network.infer(batch()), batch())], SearchRequest(Beam(size=3)))
    return loss, [p.grad for p in network.parameters()], [h[0].ids for h in hypotheses]


def held_to_plain(network):
    with fast.disabled():
        right = outcome(network)
    torch.testing.assert_close(outcome(network)[:2], right[:2])
    assert outcome(network)[2] == right[2]


def test_a_cell_without_a_fast_path_trains_and_decodes():
    network = model(cell=Minimal)
    assert fast.fused(network.head.stack.first, torch.zeros(3, 2, 13).double(), None, None, False) is None
    assert fast.inference(network.encoder.stack.eval()) is None
    held_to_plain(network)


def test_a_score_without_a_fast_path_trains_and_decodes():
    network = model(score=Distance)
    assert isinstance(network.head.attention, Attention)
    assert fast.fused(network.head.attention.score, torch.zeros(2, 3, 8), None) is None
    held_to_plain(network)


def test_the_switch_acts_inside_alone_and_in_its_own_thread():
    seen = []
    with fast.disabled():
        thread = threading.Thread(target=lambda: seen.append(fast.enabled()))
        thread.start()
        thread.join()
        with fast.disabled():
            pass
        seen.append(fast.enabled())
    assert [*seen, fast.enabled()] == [True, False, True]


def test_disabled_means_that_nothing_of_the_package_multiplies(monkeypatch):
    for name in ("decoder.decode", "recurrence.recurrence", "torch_lstm.run", "loss.output_loss", "onednn.multiply"):
        monkeypatch.setattr(f"windlass.nn.fast.{name}", None)
    monkeypatch.setattr("windlass.heads.recurrent.decode", None)
    monkeypatch.setattr("windlass.nn.cell.recurrence", None)
    monkeypatch.setattr("windlass.heads.fast.inference.InferenceDecoder.__init__", None)
    with fast.disabled():
        outcome(model().float())


@pytest.mark.parametrize("kind", sorted(set(members(CellOptions)) - {"slstm"}))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_gradient_of_a_gradient_is_that_of_plain_steps_or_refused(kind, dtype):
    torch.manual_seed(1)
    cell = members(CellOptions)[kind].tiny()[0].build(4, 4).to(dtype)
    x = torch.randn(2, 5, 4, dtype=dtype, requires_grad=True)

    def second() -> torch.Tensor:
        outputs, _ = run(cell, x)
        (first,) = torch.autograd.grad(outputs.square().sum(), x, create_graph=True)
        return torch.autograd.grad(first.square().sum(), x)[0]

    with fast.disabled():
        right = second()
    try:
        found = second()
    except RuntimeError as error:
        if "fast.disabled()" not in str(error):
            raise
        return
    assert torch.allclose(found, right, rtol=1e-3, atol=1e-5)
