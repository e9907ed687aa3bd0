from __future__ import annotations

import pytest
import torch
from standin import Vector
from torch import nn

from windlass.core.weights import clone_tensors, set_weights, temporary_weights, weights
from windlass.recipe.train import Checkpoints, Ema
from windlass.training.average import build_average


def set_to(model, value):
    nn.init.constant_(model.w, value)


def test_a_moving_average_starts_quickly_and_settles_at_its_decay():
    model = Vector(0.0)
    average = build_average(Ema(decay=0.2), model)
    expected = 0.0
    for n, value in enumerate([1.0, 5.0, 2.0, 4.0]):
        set_to(model, value)
        average.stepped(model)
        decay = min(0.2, (1 + n) / (10 + n))  # 0.1, 0.1818.., then 0.2
        expected = decay * expected + (1 - decay) * value
        assert average.now(model)["w"][0, 0].item() == pytest.approx(expected)


def test_another_decay_gives_another_average():
    means = []
    for decay in (0.15, 0.9):
        model = Vector(0.0)
        average = build_average(Ema(decay=decay), model)
        for value in (1.0, 5.0, 2.0):
            set_to(model, value)
            average.stepped(model)
        means.append(average.now(model)["w"][0, 0].item())
    assert means[0] != pytest.approx(means[1])


def test_the_mean_of_the_last_evaluations():
    model = Vector()
    average = build_average(Checkpoints(count=3), model)
    means = []
    for value in (1.0, 2.0, 6.0, 10.0):
        set_to(model, value + 100)
        average.stepped(model)  # steps between do not count
        set_to(model, value)
        means.append(average.now(model)["w"][0, 0].item())
        average.evaluated(model)
    assert means == pytest.approx([1, 1.5, 3, 6])


def test_an_interrupted_evaluation_does_not_change_the_mean():
    model = Vector(1.0)
    average = build_average(Checkpoints(count=3), model)
    average.now(model)
    set_to(model, 3.0)
    assert average.now(model)["w"][0, 0].item() == 3.0


@pytest.mark.parametrize("options", [Ema(decay=0.5), Checkpoints(count=3)])
def test_an_average_resumes_from_its_tensors(options):
    model, other = Vector(0.5), Vector(0.5)
    first, second = build_average(options, model), build_average(options, other)

    def go(average, values):
        for value in values:
            set_to(model, value)
            average.stepped(model)
            average.evaluated(model)

    go(first, (1.0, 2.0))
    second.restore(clone_tensors(first.tensors()))
    go(first, (7.0,))
    go(second, (7.0,))
    assert torch.equal(first.now(model)["w"], second.now(model)["w"])


def test_tied_weights_are_listed_once_and_restored():
    model = nn.ModuleDict({"a": nn.Linear(2, 2, bias=False), "b": nn.Linear(2, 2, bias=False)})
    model["b"].weight = model["a"].weight
    assert list(weights(model)) == ["a.weight"]
    before = model["a"].weight.clone()
    with temporary_weights(model, {"a.weight": torch.ones(2, 2)}):
        assert model["b"].weight.sum() == 4
    assert torch.equal(model["b"].weight, before)


def test_weights_are_restored_after_an_error():
    model = Vector(2.0)
    with pytest.raises(ZeroDivisionError), temporary_weights(model, {"w": torch.ones(2, 2)}):
        raise ZeroDivisionError
    assert model.w[0, 0].item() == 2.0


def test_weights_of_another_model_are_refused():
    with pytest.raises(Exception, match="belong to another model: w differ"):
        set_weights(Vector(), {"w": torch.ones(3, 3)})
