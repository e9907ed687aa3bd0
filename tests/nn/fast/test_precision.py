"""Mixed precision: products in bfloat16 are close to those in float32, everywhere, and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import windlass
from toy import SMALL, strings
from windlass.bundle import Bundle
from windlass.core.errors import RecipeError
from windlass.experiment.data import as_data
from windlass.experiment.loaders import fit_sides
from windlass.nn.fast.loss import copy_loss, output_loss
from windlass.nn.fast.onednn import FixedWeight, linear, matmul, weight_gradient
from windlass.nn.fast.precision import mixed, pays, precision
from windlass.recipe import Recipe
from windlass.training.data_parallel import SingleProcess

PAIRS = [(word, word[::-1]) for word in strings("abc", 2, 5)]
TRANSFORMER = {"size": 16, "heads": 2, "hidden": 32, "embedding": {"kind": "learned", "size": 16}}
MODELS: dict[str, dict[str, Any]] = {
    "gru": {
        "encoder": {"kind": "recurrent", "cell": {"kind": "gru", "reset": "after"}},
        "decoder": {"cell": {"kind": "gru"}},
    },
    "lstm": {"encoder": {"kind": "recurrent", "size": 256}, "decoder": {"size": 24, "layers": 2}},
    "transformer": {
        "encoder": {"kind": "attention", **TRANSFORMER},
        "decoder": {"kind": "transformer", **TRANSFORMER},
        "tie": "all",
    },
}


def apart(a: Tensor, b: Tensor) -> float:
    return float((a - b).detach().norm() / b.detach().norm())


PRODUCTS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "matmul": lambda x, w, b: matmul(x, w, b),
    "without a bias": lambda x, w, b: matmul(x, w),
    "fixed weight": lambda x, w, b: FixedWeight(w, 64)(x, b),
    "transposed": lambda x, w, b: FixedWeight(w.t().contiguous().t(), 64)(x),
    "weight gradient": lambda x, w, b: weight_gradient(x, x[:, :3]),
    "linear": lambda x, w, b: linear(x.clone().requires_grad_(), w, b),
    "output loss": lambda x, w, b: output_loss(x, w, b, torch.arange(64) % 48)[0],
    "copy loss": lambda x, w, b: copy_loss(x, w, b, x[:, 0], torch.full((64,), 0.1), torch.arange(64) % 48)[0],
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_rounded_and_float32(name: str) -> None:
    torch.manual_seed(1)
    x, w, b = torch.randn(64, 32), torch.randn(48, 32), torch.randn(48)
    whole = PRODUCTS[name](x, w, b)
    with precision("bfloat16"):
        rounded = PRODUCTS[name](x, w, b)
    assert rounded.dtype == torch.float32
    assert 0 < apart(rounded, whole) < 0.01
    assert not mixed()


def gradients(model: torch.nn.Module, batch: Any, kind: Any) -> dict[str, Tensor]:
    torch.manual_seed(1)
    with precision(kind):
        SingleProcess(model)(batch, 0.0, 0)
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("name", MODELS)
def test_the_gradients_of_a_model_are_close(name: str) -> None:
    recipe = Recipe.model_validate({"task": "text", "model": MODELS[name], "vocabulary": "joint"})
    sides = fit_sides(recipe, as_data(PAIRS, PAIRS[:5], recipe).train)
    torch.manual_seed(1)
    model = Bundle.new(recipe, sides).model.train()
    batch = sides.collate([sides.encode(*pair) for pair in PAIRS[:40]], list(range(40)))
    whole, rounded = (gradients(model, batch, kind) for kind in ("float32", "bfloat16"))
    assert whole.keys() == rounded.keys()
    off = {key: apart(rounded[key], whole[key]) for key in whole if float(whole[key].norm()) > 1e-4}
    assert 0 < max(off.values()) < 0.05, off


@pytest.mark.skipif(not pays(), reason="this processor has no instructions for bfloat16")
def test_a_model_learns_in_bfloat16() -> None:
    settings = SMALL | {"train.precision": "bfloat16", "train.epochs": 15}
    model = windlass.fit(PAIRS[:300], PAIRS[300:], task="text", settings=settings, quiet=True)
    assert model.evaluate(PAIRS[300:]).metrics["accuracy"] > 80
    assert {p.dtype for p in model.bundle.model.parameters()} == {torch.float32}


def test_a_machine_without_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.experiment.run.pays", lambda device: False)
    with pytest.raises(RecipeError, match=r"train\.precision: bfloat16: this machine has no instructions .* float32"):
        windlass.fit(PAIRS[:20], PAIRS[20:30], task="text", settings={"train.precision": "bfloat16"}, quiet=True)
