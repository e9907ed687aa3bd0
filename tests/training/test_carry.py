"""Running text: what a batch ends with is what the next begins with, without its graph, also after a resume."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from standin import Recorder, newest
from torch import Tensor, nn

from windlass.core.records import Batch, Carry, Padded, Scored
from windlass.recipe.train import TrainOptions
from windlass.training.data_parallel import gather_carry, shard_batch
from windlass.training.loop import Trainer
from windlass.training.observe import Silent

TEXT = torch.randint(4, 9, (2, 12), generator=torch.Generator().manual_seed(1))


class Chunks:
    """Two rows of running text, three places at a time."""

    def batches(self, number: int) -> int:
        return TEXT.size(1) // 3

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        for n in range(start, self.batches(number)):
            part = TEXT[:, 3 * n : 3 * n + 3]
            target = Padded(part, torch.ones_like(part, dtype=torch.bool))
            yield Batch({}, target, torch.arange(2), continues=torch.full((2,), n > 0))


class Running(nn.Module):
    """h_t = tanh(a h_{t-1} + e(x_t)); the loss pulls every h to 1. Remembers what it was given."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.a, self.e = nn.Parameter(torch.tensor(0.5)), nn.Embedding(9, 1)
        self.given: list[tuple[Tensor | None, bool]] = []

    def forward(self, batch: Batch, carry: Carry | None = None, sampling_prob: float = 0.0) -> Scored:
        assert batch.target is not None
        assert batch.continues is not None
        h = torch.zeros(2, 1) if carry is None else carry.layers[0][0]
        self.given.append((None if carry is None else h.clone(), h.requires_grad))
        assert (carry is not None) == bool(batch.continues.all())
        loss = torch.zeros(())
        for token in batch.target.values.unbind(1):
            h = torch.tanh(self.a * h + self.e(token))
            loss = loss + ((h - 1) ** 2).sum()
        self.last = h.detach().clone()
        return Scored(loss, torch.tensor(6), carry=Carry(((h,),)))


def train(folder: Path, model: Running, observer: Silent | None = None, resume: bool = False) -> str:
    options = TrainOptions(epochs=3, optimiser={"kind": "sgd", "lr": 0.05}, threads=1)
    scores = lambda m: {"loss": float(m.a)}  # noqa: E731
    silent = observer or Silent()
    trainer = Trainer(model, Chunks(), scores, "loss", False, options, folder, silent, lambda m, s: None, seed=1)
    return trainer.fit(resume).reason


def test_a_batch_begins_where_the_one_before_ended_and_an_epoch_begins_anew(tmp_path):
    model = Running()
    train(tmp_path, model)
    assert [given is None for given, _ in model.given] == [True, False, False, False] * 3
    assert not any(graph for _, graph in model.given)  # truncated


def test_the_state_that_is_carried_on_is_the_one_that_was_left(tmp_path):
    model = Running()
    train(tmp_path, model, Recorder(2))
    assert torch.equal(newest(tmp_path)[0]["carry/0.0"], model.last)


@pytest.mark.parametrize("stop", [1, 3, 4, 6])
def test_running_text_that_is_stopped_and_resumed_equals_a_run_never_stopped(tmp_path, stop):
    whole, part = Running(), Running()
    train(tmp_path / "whole", whole)
    assert train(tmp_path / "part", part, Recorder(stop)) == "interrupted"
    later = Running()
    assert train(tmp_path / "part", later, resume=True) == "epochs"
    assert torch.equal(whole.a, later.a)
    assert torch.equal(whole.e.weight, later.e.weight)


def test_every_row_keeps_what_it_carries_on_when_rows_are_shared_out():
    rows = torch.arange(10.0).view(5, 2)
    carry, batch = Carry(((rows, -rows), (rows * 2,))), Batch({}, None, torch.arange(5))
    for members in (1, 2, 3, 5, 7):
        parts = shard_batch(batch, members, carry)
        assert len(parts) == min(members, 5)
        for part in parts:
            assert part.carry is not None
            assert torch.equal(part.carry.layers[0][0], rows[part.batch.keys])
        again = gather_carry([part.carry for part in parts if part.carry], members)
        assert all(torch.equal(a, b) for a, b in zip(again.tensors().values(), carry.tensors().values(), strict=True))
