"""Products by oneDNN, and what happens without it: training and decoding take torch's own product."""

import os
import subprocess
import sys

import pytest
import torch

from windlass.core.records import Batch, Member, Padded
from windlass.decoding.options import Beam
from windlass.decoding.search import SearchRequest, search
from windlass.model import LossOptions, ModelOptions, build
from windlass.nn import fast
from windlass.nn.fast import onednn
from windlass.nn.fast.onednn import FixedWeight, linear, matmul, usable


@pytest.mark.parametrize("kind", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("bias", [False, True])
def test_a_product_by_the_fastest_kernel_is_the_same_product(kind, bias):
    torch.manual_seed(2)
    wide = torch.randn(7, 9, dtype=kind)
    b = torch.randn(7, dtype=kind) if bias else None
    for weight in (wide, wide[:, 2:8], wide.t().contiguous().t()):  # with gaps, and transposed
        for x in (torch.randn(4, weight.size(1), dtype=kind), torch.randn(weight.size(1), 4, dtype=kind).t()):
            right = torch.nn.functional.linear(x, weight, b)
            torch.testing.assert_close(matmul(x, weight, b), right)
            torch.testing.assert_close(FixedWeight(weight, rows=4)(x, b), right)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64], ids=str)
def test_linear_has_the_gradients_of_torch(kind):
    torch.manual_seed(2)
    given = [torch.randn(size, dtype=kind, requires_grad=True) for size in ((2, 3, 5), (4, 5), (4,))]
    weights = torch.randn(2, 3, 4, dtype=kind)
    ways = [(way(*given) * weights).sum() for way in (linear, torch.nn.functional.linear)]
    for one, other in zip(*(torch.autograd.grad(loss, given) for loss in ways), strict=True):
        torch.testing.assert_close(one, other)


def test_linear_of_nothing_is_the_bias():
    assert linear(torch.zeros(2, 0), torch.zeros(3, 0, requires_grad=True), torch.ones(3)).tolist() == [[1.0] * 3] * 2


def missing(*_):
    raise AttributeError("no such operation in this build")


def wrong(x, weight, bias):
    return x.new_zeros(len(x), weight.size(0))


BROKEN = {
    "a build without oneDNN": ("torch.backends.mkldnn.is_available", lambda: False),
    "operations that are gone": ("windlass.nn.fast.onednn.reorder", missing),
    "operations that are wrong": ("windlass.nn.fast.onednn.multiply", wrong),
    "switched off by the user": ("torch._C._get_mkldnn_enabled", lambda: False),
}


@pytest.fixture(params=BROKEN)
def without(request, monkeypatch):
    onednn.works.cache_clear()
    monkeypatch.setattr(*BROKEN[request.param])
    yield
    monkeypatch.undo()
    onednn.works.cache_clear()


def model(cell):
    torch.manual_seed(1)
    table = {"kind": "learned", "size": 5}
    options = ModelOptions.model_validate(
        {
            "encoder": {"kind": "recurrent", "cell": cell, "size": 6, "embedding": table},
            "decoder": {"cell": cell, "size": 8, "embedding": table, "context": "attention", "start": "summary"},
        }
    )
    return build(options, LossOptions(), 12, 12)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_without_onednn_training_and_decoding_take_torchs_own_product(cell, without):
    assert not usable(torch.zeros(2, 2))
    network = model(cell)
    batch = Batch({"source": Padded.of([[5, 6, 7, 3], [8, 3]])}, Padded.of([[9, 3], [10, 11, 3]]), torch.arange(2))
    results = {}
    for enabled in (True, False):
        with torch.enable_grad() if enabled else fast.disabled():
            network.train().zero_grad()
            loss = network(batch).mean
            loss.backward()
            gradients = [p.grad for p in network.parameters()]
            with torch.no_grad():
                network.eval()
                member = Member(network.head, network.infer(batch), batch)
                (best, *_) = zip(*search([member], SearchRequest(Beam(size=3))), strict=False)
            results[enabled] = loss, gradients, best
    assert [h.ids for h in results[True][2]] == [h.ids for h in results[False][2]]
    torch.testing.assert_close(results[True][:2], results[False][:2], rtol=1e-4, atol=1e-5)


def test_the_probe_leaves_the_environment_and_the_random_numbers_alone():
    state, environment = torch.get_rng_state(), dict(os.environ)
    onednn.works.cache_clear()
    onednn.works()
    assert torch.equal(torch.get_rng_state(), state)
    assert dict(os.environ) == environment


GROWTH = """
import resource, sys
import torch
from windlass.nn.fast import onednn
if sys.argv[1] == "bounded":
    onednn.works()
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
weight = torch.randn(64, 64)
def meet(shapes):
    for rows in shapes:
        onednn.multiply(torch.ones(rows, 64), weight, None)
meet(range(2, 82))
before = resident()
meet(range(82, 482))
print(resident() - before)
"""


@pytest.mark.skipif(not (sys.platform == "linux" and onednn.works()), reason="needs oneDNN and /proc")
def test_few_kernels_are_kept():
    grown = [
        int(subprocess.run([sys.executable, "-c", GROWTH, how], capture_output=True, check=True, text=True).stdout)
        for how in ("bounded", "free")
    ]
    assert grown[0] < 0.8 * grown[1]  # some of what a kernel takes is never given back
