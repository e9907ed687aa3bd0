"""An encoder reads for a search what it reads in training."""

import pytest
import torch
from contract_parts import VARIANTS, batch, close, fresh, model

from windlass.core.records import Batch, Padded
from windlass.nn import fast
from windlass.nn.fast import int8

every = pytest.mark.parametrize("name", VARIANTS)


def tensors(memory):
    found = []
    memory.map(lambda t: found.append(t) or t)
    return [t.double() for t in found]


def many():
    rows = [[4 + (n + k) % 5 for k in range(1 + n % 6)] for n in range(13)]
    return Batch({"source": Padded.of(rows)}, None, torch.arange(len(rows)))


@every
def test_what_is_read_for_a_search_is_what_is_read_in_training(name):
    m = model(name)
    with torch.no_grad():
        for given in (batch(), batch((1,)), batch(wider=2), batch(blank=True), many()):
            inferred = tensors(m.infer(given))
            with fast.disabled():
                pairs = zip(tensors(m.encode(given)), inferred, strict=True)
            assert all(close(a, b) for a, b in pairs)


@pytest.mark.skipif(not int8.levels(), reason="no 8-bit products on this machine")
@pytest.mark.parametrize(
    "name",
    [
        "gru - attention",
        "lstm - none",
        "two layers",
        "residual",
        "one way",
        "gru bias=False - none",
        "attention encoder - summary",
    ],
)
def test_in_float32_it_is_the_same_within_a_tolerance_and_in_8_bits_nearly(name, monkeypatch):
    monkeypatch.setattr(int8, "SMALLEST", 1)
    m = fresh(name).float()
    with torch.no_grad():
        for given in (batch(), batch((1,)), many()):
            right = tensors(m.encode(given))
            for a, b, c in zip(right, tensors(m.infer(given)), tensors(m.infer(given, True)), strict=True):
                assert torch.allclose(a, b, atol=1e-5)
                assert (a - c).abs().max() < 0.15
        rows = tensors(m.infer(many(), True))[0]  # in 8 bits too, a row is the same in any company
        for row in range(13):
            one = many().select(torch.tensor([row]))
            assert torch.allclose(tensors(m.infer(one, True))[0][0], rows[row][: rows.size(1)], atol=1e-5)


def test_weights_that_changed_are_seen_by_the_next_reading():
    m = fresh("gru - attention")
    before = m.infer(batch()).states
    with torch.no_grad():
        m.encoder.stack.first.weight_h.mul_(2)
        assert not torch.allclose(before, m.infer(batch()).states)
        assert torch.allclose(m.encode(batch()).states, m.infer(batch()).states)
