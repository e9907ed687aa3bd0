from __future__ import annotations

import json
import math

import pytest
import torch
from standin import Recorder, Vector, same_run, train
from torch import nn

from windlass.bundle import Bundle
from windlass.data import Sides
from windlass.recipe import Recipe
from windlass.training.diagnostics import Diagnosis, Diagnostics, relative_entropy


def rows(folder):
    return [json.loads(line) for line in (folder / "diagnostics.jsonl").read_text().splitlines()]


def test_norms_and_ratios_are_those_of_plain_gradient_descent(tmp_path):
    options = {"optimiser": {"kind": "sgd", "lr": 0.1}, "schedule": "constant", "average": "none", "sampling": "none"}
    train(tmp_path, model=Vector(3.0), epochs=1, diagnostics=1, clip=1.0, **options)
    first = rows(tmp_path)[0]
    assert first["gradients"]["model"] == pytest.approx(4.0)  # w - 1 = 2 in four places, before clipping
    assert first["updates"]["model"] == pytest.approx(0.1 * 1.0 / 6.0, rel=1e-4)  # after clipping; |w| = 6


def test_measuring_changes_nothing_of_a_run(tmp_path):
    train(tmp_path / "with", epochs=2, diagnostics=1)
    train(tmp_path / "without", epochs=2, diagnostics=None)
    assert same_run(tmp_path / "with", tmp_path / "without")
    assert not (tmp_path / "without" / "diagnostics.jsonl").exists()


def test_a_resumed_run_has_the_log_of_an_uninterrupted_one(tmp_path):
    train(tmp_path / "whole", epochs=3, diagnostics=2)
    train(tmp_path / "parts", Recorder(stop_at=5), epochs=3, diagnostics=2)
    with (tmp_path / "parts" / "diagnostics.jsonl").open("a") as log:
        log.write('{"step": 6, "gradients": {}, "updates": {}}\n{"ste')  # as a kill leaves it
    train(tmp_path / "parts", epochs=3, diagnostics=2, resume=True)
    assert rows(tmp_path / "parts") == rows(tmp_path / "whole")


def test_attention_entropy_of_a_model_that_attends_evenly_is_one():
    torch.manual_seed(1)
    sides = Sides.tiny()
    model = Bundle.new(Recipe(), sides).model.train()
    batch = next(iter(sides.loader([sides.encode("a b a", "b a"), sides.encode("b", "a")], 32).epoch(0)))
    model(batch).mean.backward()
    diagnostics, before = Diagnostics(model), torch.get_rng_state()
    diagnostics.before()
    diagnosis = diagnostics.after(1, batch)
    some = diagnosis.attention_entropy
    assert some is not None
    assert diagnosis.saturated
    assert all(share < 0.5 for share in diagnosis.saturated.values())  # of a fresh model
    assert 0 < some < 1
    assert model.training
    assert torch.equal(before, torch.get_rng_state())
    for parameter in model.head.attention.parameters():
        nn.init.zeros_(parameter)
    diagnostics.before()
    assert diagnostics.after(1, batch).attention_entropy == pytest.approx(1.0)
    assert relative_entropy([torch.tensor([[1.0]])]) is None


@pytest.mark.parametrize(
    ("diagnosis", "said"),
    [
        (Diagnosis(1, {"low": 1e-9, "high": 1.0}, {}), "the gradient vanishes in low"),
        (Diagnosis(1, {}, {"head": 0.5}), "lower train.optimiser.lr"),
        (Diagnosis(1, {}, {"head": 1e-9}), "raise train.optimiser.lr"),
        (Diagnosis(1, {}, {"head": 1e-3}, 0.999), "attention is uniform"),
        (Diagnosis(1, {}, {"head": 1e-3}, saturated={"forget": 0.99}), "99% of the values of the forget gate"),
    ],
)
def test_what_persists_is_said_once(diagnosis, said):
    diagnostics = Diagnostics(nn.Linear(1, 1))
    told = [diagnostics.findings(diagnosis, warm=True) for _ in range(5)]
    assert [len(each) for each in told] == [0, 0, 1, 0, 0]
    assert said in told[2][0]


def test_a_healthy_step_is_not_reported():
    diagnostics = Diagnostics(nn.Linear(1, 1))
    healthy = Diagnosis(1, {"low": 0.1, "high": 1.0}, {"head": 1e-3}, 0.6)
    assert not any(diagnostics.findings(healthy, warm=True) for _ in range(5))
    assert math.isfinite(sum(healthy.scalars().values()))


def test_a_layer_that_no_output_depends_on_does_not_vanish():
    diagnostics = Diagnostics(nn.Linear(1, 1))
    assert not any(diagnostics.findings(Diagnosis(1, {"pool": 0.0, "high": 1.0}, {}), warm=True) for _ in range(5))
