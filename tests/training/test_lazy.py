"""Lazy Adam against hand arithmetic, the library's own, and dense Adam where they must agree."""

from __future__ import annotations

import math
import random

import pytest
import torch
from pydantic import ValidationError
from standin import Recorder, build, same_run, train
from torch import nn

from windlass.core.errors import TrainingError
from windlass.nn.embedding import Embedding
from windlass.recipe.train import Adam, TrainOptions
from windlass.training.lazy import clip_gradients
from windlass.training.optimiser import build_optimiser, optimiser_tensors, restore_optimiser

LAZY = {"kind": "adam", "lr": 0.01, "lazy": True}
TOUCHED = [[0, 1, 1], [1], [0, 2], [1, 2]]  # rows that each step looks up; one of them twice


class Table(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.embedding = Embedding(nn.Parameter(torch.randn(4, 2, dtype=torch.float64)))
        self.out = nn.Linear(2, 1, dtype=torch.float64)

    def forward(self, rows: list[int]) -> torch.Tensor:
        return self.out(self.embedding(torch.tensor(rows)).tanh()).square().sum()


def walk(options: Adam, touched: list[list[int]]) -> Table:
    model = Table()
    optimiser = build_optimiser(options, model)
    for rows in touched:
        optimiser.zero_grad()
        model(rows).backward()
        optimiser.step()
    return model


@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_rows_move_as_by_hand(decay):
    model = Table()
    optimiser = build_optimiser(Adam(lr=0.1, lazy=True, weight_decay=decay), model)
    table = model.embedding.table.detach().tolist()
    m, v = [[0.0] * 2 for _ in range(4)], [[0.0] * 2 for _ in range(4)]
    for t, rows in enumerate(TOUCHED, 1):
        optimiser.zero_grad()
        model(rows).backward()
        gradient = model.embedding.table.grad.to_dense().tolist()
        for row in set(rows):
            for i in range(2):
                g = gradient[row][i] + decay * table[row][i]
                m[row][i] = 0.9 * m[row][i] + 0.1 * g
                v[row][i] = 0.999 * v[row][i] + 0.001 * g * g
                moved = m[row][i] / (1 - 0.9**t) / (math.sqrt(v[row][i] / (1 - 0.999**t)) + 1e-8)
                table[row][i] -= 0.1 * moved
        optimiser.step()
        assert torch.allclose(model.embedding.table, torch.tensor(table, dtype=torch.float64), atol=1e-9)


def test_it_is_what_the_library_calls_sparse_adam():
    ours, theirs = walk(Adam(lr=0.1, eps=1e-14, lazy=True), TOUCHED), Table()
    theirs.embedding.sparse = True
    sparse = torch.optim.SparseAdam([theirs.embedding.table], lr=0.1, eps=1e-14)
    dense = torch.optim.Adam(theirs.out.parameters(), lr=0.1, eps=1e-14)
    for rows in TOUCHED:
        theirs.zero_grad()
        theirs(rows).backward()
        sparse.step()
        dense.step()
    assert torch.allclose(
        ours.embedding.table, theirs.embedding.table, atol=1e-6
    )  # where eps, which stands elsewhere, does not matter
    assert torch.allclose(ours.out.weight, theirs.out.weight, atol=1e-6)


def test_rows_that_are_not_looked_up_stay_as_they_were():
    start, lazy, dense = Table(), walk(Adam(lr=0.1, lazy=True), TOUCHED), walk(Adam(lr=0.1), TOUCHED)
    assert torch.equal(lazy.embedding.table[3], start.embedding.table[3])
    once, more = [[0, 1], [1], [1]], [[0, 1]]
    assert torch.equal(walk(Adam(lazy=True), once).embedding.table[0], walk(Adam(lazy=True), more).embedding.table[0])
    assert not torch.equal(walk(Adam(), once).embedding.table[0], walk(Adam(), more).embedding.table[0])
    assert not torch.allclose(lazy.embedding.table, dense.embedding.table)


def test_where_every_row_is_looked_up_it_is_adam():
    touched = [[0, 1, 2, 3], [3, 2, 1, 0, 0]] * 3
    lazy, dense = walk(Adam(lr=0.1, lazy=True), touched), walk(Adam(lr=0.1), touched)
    assert torch.allclose(lazy.embedding.table, dense.embedding.table)


def test_sparse_gradients_are_clipped_as_dense_ones():
    lengths, found = [], []
    for sparse in (False, True):
        model = Table()
        model.embedding.sparse = sparse
        model([0, 1, 1, 1]).backward()
        lengths.append(clip_gradients(list(model.parameters()), 0.1).item())
        found.append(model.embedding.table.grad.to_dense() if sparse else model.embedding.table.grad)
    assert lengths[0] == pytest.approx(lengths[1])
    assert lengths[0] > 0.1
    assert torch.allclose(*found)


def test_gradients_that_are_short_enough_are_left_alone():
    weight = torch.nn.Parameter(torch.zeros(2))
    weight.grad = torch.tensor([3.0, 4.0])
    before = weight.grad._version
    assert clip_gradients([weight], 5.5).item() == 5.0
    assert weight.grad._version == before
    assert clip_gradients([weight], 2.5).item() == 5.0
    torch.testing.assert_close(weight.grad, torch.tensor([1.5, 2.0]))


def test_it_resumes_exactly_from_its_tensors():
    a, b = walk(Adam(lazy=True), []), Table()
    first, second = build_optimiser(Adam(lazy=True), a), build_optimiser(Adam(lazy=True), b)

    def step(model, optimiser, rows):
        optimiser.zero_grad()
        model(rows).backward()
        optimiser.step()

    for rows in TOUCHED[:2]:
        step(a, first, rows)
    b.load_state_dict(a.state_dict())
    restore_optimiser(second, b, optimiser_tensors(first, a))
    for model, optimiser in ((a, first), (b, second)):
        step(model, optimiser, TOUCHED[2])
    assert torch.equal(a.embedding.table, b.embedding.table)


def test_a_run_resumed_equals_one_never_stopped(tmp_path):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    assert train(whole, optimiser=LAZY, epochs=2).reason == "epochs"
    train(stopped, Recorder(3), optimiser=LAZY, epochs=2)
    torch.manual_seed(99)
    random.seed(99)
    model = build(seed=8)
    train(stopped, model=model, optimiser=LAZY, epochs=2, resume=True)
    assert same_run(whole, stopped)
    assert not model.head.embedding.sparse  # after training, gradients are dense again


def test_a_table_that_is_the_output_layer_too_is_refused():
    model = nn.ModuleDict({"embedding": Embedding(nn.Parameter(torch.eye(3))), "output": nn.Linear(3, 3)})
    model["output"].weight = model["embedding"].table
    with pytest.raises(TrainingError, match="no trainable embedding that is not tied"):
        build_optimiser(Adam(lazy=True), model)


def test_lazy_adam_with_several_processes_is_refused():
    with pytest.raises(ValidationError, match="exchange dense gradients"):
        TrainOptions(optimiser=LAZY, processes=2)
