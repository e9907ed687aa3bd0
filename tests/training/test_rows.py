"""Gradients as rows give what whole gradients give."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest
import torch
from standin import Recorder, build, same_run, train
from torch import nn

from windlass.nn.embedding import Embedding
from windlass.recipe.train import Adam, AdamW
from windlass.training import rows
from windlass.training.data_parallel import DataParallel
from windlass.training.lazy import clip_gradients
from windlass.training.optimiser import build_optimiser
from windlass.training.rows import give_rows, give_whole

TOUCHED = [[0, 1, 1], [6], [], [5, 2, 5], [1, 2]]  # rows that each step looks up; some of them twice, once none


class Table(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.embedding = Embedding(nn.Parameter(torch.randn(7, 3, dtype=torch.float64)))
        self.out = nn.Linear(3, 1, dtype=torch.float64)

    def forward(self, looked_up: list[int]) -> torch.Tensor:
        ids = torch.tensor(looked_up, dtype=torch.long)
        return self.out(self.embedding(ids).tanh()).square().sum() + self.out.bias.sum()


@pytest.fixture
def small(monkeypatch):
    """Every table counts as large, and is updated two rows at a time."""
    monkeypatch.setattr(give_rows, "__defaults__", (0,))
    monkeypatch.setattr(rows, "BLOCK", 6)


def walk(options: Adam | AdamW, whole: bool) -> tuple[Table, dict[str, torch.Tensor]]:
    model = Table()
    optimiser = build_optimiser(options, model)
    if whole:
        give_whole(model)
    for looked_up in TOUCHED:
        optimiser.zero_grad()
        model(looked_up).backward()
        assert model.embedding.table.grad.is_sparse != whole
        clip_gradients(list(model.parameters()), 0.5)
        optimiser.step()
    return model, optimiser.state[model.embedding.table]


@pytest.mark.parametrize("options", [Adam(lr=0.1), Adam(lr=0.1, weight_decay=0.3), AdamW(lr=0.1, weight_decay=0.3)])
def test_adam_by_rows_is_adam(options, small):
    (by_rows, remembered), (whole, expected) = (walk(options, whole) for whole in (False, True))
    torch.testing.assert_close(by_rows.state_dict(), whole.state_dict(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(dict(remembered), dict(expected), rtol=1e-12, atol=1e-12)


def test_rows_that_are_not_looked_up_move_on_too(small):
    """That is what tells it from lazy Adam."""
    once, _ = walk(Adam(lr=0.1), whole=False)
    lazy, _ = walk(Adam(lr=0.1, lazy=True), whole=False)
    assert not torch.allclose(once.embedding.table[6], lazy.embedding.table[6])


def test_only_large_tables_that_are_nothing_else_give_rows():
    small, large = (Embedding(nn.Parameter(torch.zeros(n, 512))) for n in (511, 512))
    tied = nn.ModuleDict({"embedding": Embedding(nn.Parameter(torch.zeros(512, 512))), "output": nn.Linear(512, 512)})
    tied["output"].weight = tied["embedding"].table
    assert [len(give_rows(model)) for model in (small, large, tied)] == [0, 1, 0]
    twice = nn.ModuleList([large, Embedding(large.table)])
    assert len(give_rows(twice)) == 2  # both look up, and nothing else does


def test_a_run_resumed_equals_one_never_stopped(tmp_path, small):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    assert train(whole, epochs=2).reason == "epochs"
    train(stopped, Recorder(3), epochs=2)
    torch.manual_seed(99)
    random.seed(99)
    model = build(seed=8)
    train(stopped, model=model, epochs=2, resume=True)
    assert same_run(whole, stopped)
    assert not model.head.embedding.sparse  # what comes after training gets whole gradients


def test_sparse_gradients_are_added_to_dense_ones_of_workers():
    model = Table()
    give_rows(model, least=0)
    model([0, 1, 1]).backward()
    mine = model.embedding.table.grad.to_dense()
    theirs = {name: torch.ones_like(p) for name, p in model.named_parameters()}
    DataParallel._reduce_gradients(SimpleNamespace(model=model, worker_gradients=[theirs]), [3.0, 1.0])
    assert torch.allclose(model.embedding.table.grad, 0.75 * mine + 0.25)
