"""The optimisers against hand arithmetic; g is the gradient, w - 1."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
import torch
from standin import Vector
from torch import nn

from windlass.recipe.train import SGD, Adam, AdamW
from windlass.training.optimiser import build_optimiser, optimiser_tensors, restore_optimiser, set_rate


def walk(options, steps=2, start=3.0, size=(2, 2)):
    model = Vector(start, size)
    optimiser = build_optimiser(options, model)
    path = []
    for _ in range(steps):
        optimiser.zero_grad()
        ((model.w - 1) ** 2).sum().div(2).backward()
        optimiser.step()
        path.append(model.w.flatten()[0].item())
    return path


def adam(lr, b1, b2, eps, l2=0.0, decoupled=0.0, w=3.0, steps=2):
    m = v = 0.0
    path = []
    for t in range(1, steps + 1):
        g = w - 1 + l2 * w
        w -= lr * decoupled * w
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        w -= lr * (m / (1 - b1**t)) / (math.sqrt(v / (1 - b2**t)) + eps)
        path.append(w)
    return path


def test_adam():
    assert walk(Adam(lr=0.1)) == pytest.approx(adam(0.1, 0.9, 0.999, 1e-8))


def test_adam_with_other_betas_and_eps():
    expected = adam(0.1, 0.5, 0.7, 0.3, steps=3)
    assert walk(Adam(lr=0.1, betas=(0.5, 0.7), eps=0.3), steps=3) == pytest.approx(expected)
    assert expected != pytest.approx(adam(0.1, 0.7, 0.5, 0.3, steps=3))


def test_weight_decay_of_adam_is_part_of_the_gradient():
    assert walk(Adam(lr=0.1, eps=1.0, weight_decay=0.5)) == pytest.approx(adam(0.1, 0.9, 0.999, 1.0, l2=0.5))


def test_weight_decay_of_adamw_is_not():
    expected = adam(0.1, 0.8, 0.99, 1.0, decoupled=0.5)
    assert walk(AdamW(lr=0.1, betas=(0.8, 0.99), eps=1.0, weight_decay=0.5)) == pytest.approx(expected)


def sgd(lr, momentum=0.0, nesterov=False, l2=0.0, w=3.0):
    b, path = None, []
    for _ in range(2):
        g = w - 1 + l2 * w
        b = g if b is None else momentum * b + g
        w -= lr * (g + momentum * b if nesterov else b if momentum else g)
        path.append(w)
    return path


@pytest.mark.parametrize("given", [{}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}, {"weight_decay": 0.5}])
def test_sgd(given):
    expected = sgd(0.1, given.get("momentum", 0), given.get("nesterov", False), given.get("weight_decay", 0))
    assert walk(SGD(lr=0.1, **given)) == pytest.approx(expected)


@pytest.mark.parametrize("kind", [Adam, AdamW, SGD])
def test_vectors_do_not_decay(kind):
    with_decay = walk(kind(lr=0.1, weight_decay=0.5), size=(3,))
    assert with_decay == pytest.approx(sgd(0.1) if kind is SGD else adam(0.1, 0.9, 0.999, 1e-8))


def test_the_rate_is_set_for_all_parameters():
    optimiser = build_optimiser(Adam(), nn.Linear(2, 2))
    set_rate(optimiser, 0.25)
    assert [group["lr"] for group in optimiser.param_groups] == [0.25, 0.25]


def test_what_is_frozen_is_not_trained():
    layer = nn.Linear(2, 2)
    layer.weight.requires_grad_(False)
    (group,) = build_optimiser(Adam(), layer).param_groups
    assert [id(p) for p in group["params"]] == [id(layer.bias)]


@pytest.mark.parametrize("options", [Adam(), AdamW(), SGD(), SGD(momentum=0.5)])
def test_an_optimiser_resumes_exactly_from_its_tensors(options):
    torch.manual_seed(1)
    a, b = nn.Linear(3, 2), nn.Linear(3, 2)
    first, second = build_optimiser(options, a), build_optimiser(options, b)

    def step(model, optimiser, x):
        optimiser.zero_grad()
        model(x).square().sum().backward()
        optimiser.step()

    x = torch.randn(4, 3)
    step(a, first, x)
    b.load_state_dict(a.state_dict())
    restore_optimiser(second, b, optimiser_tensors(first, a))
    step(a, first, x)
    step(b, second, x)
    assert all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))


@pytest.mark.parametrize("kind", ["Adam", "AdamW", "SGD"])
def test_training_does_not_bring_in_the_compiler(kind):
    """Which would cost 70 MB and a second and a half."""
    code = f"""
import sys, torch
from windlass.training.optimiser import build_optimiser
from windlass.recipe.train import {kind}
layer = torch.nn.Linear(2, 2)
optimiser = build_optimiser({kind}(), layer)
layer(torch.ones(2)).sum().backward()
before = layer.weight.clone()
torch.nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
optimiser.step()
optimiser.zero_grad(set_to_none=True)
assert not torch.equal(before, layer.weight)
optimiser.load_state_dict(optimiser.state_dict())
base = torch.optim.Optimizer
assert type(optimiser) is not torch.optim.{kind}
assert not any(hasattr(getattr(method, "__wrapped__", method), "__dynamo_disable") for method in vars(base).values())
sys.exit("torch._dynamo" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_baselines_do_without_the_compiler_too():
    code = """
import sys
from windlass.baseline.bag import BagOfWords
from windlass.baseline.window import WindowModel
assert BagOfWords.fit([("good", "yes"), ("bad", "no")]).predict(["bad"]) == ["no"]
WindowModel.fit([[4, 5, 6] * 9], vocabulary=7, length=2, size=2, hidden=2)
sys.exit("torch._dynamo" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
