from __future__ import annotations

import os
import random

import numpy as np
import pytest
import torch

from windlass.core.errors import TrainingError
from windlass.training import checkpoint
from windlass.training.checkpoint import checkpoints, load, load_newest, save
from windlass.training.rng import restore_rng, rng_state, seed_all

TENSORS = {
    "f32": torch.tensor([0.1, -0.0, float("inf"), 1e-45]),
    "f64": torch.tensor([0.1, 1 / 3], dtype=torch.float64),
    "bf16": torch.tensor([0.1], dtype=torch.bfloat16),
    "i64": torch.tensor(2**62),
    "bytes": torch.arange(256, dtype=torch.uint8),
    "bool": torch.tensor([[True], [False]]),
    "empty": torch.zeros(0, 3),
    "turned": torch.arange(6.0).view(2, 3).t(),
}


def test_everything_comes_back_bit_by_bit(tmp_path):
    path = save(tmp_path, 3, TENSORS, {"third": 1 / 3, "none": None, "inf": float("inf"), "text": "é"})
    tensors, data = load(path)
    assert tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert tensors[name].dtype == tensor.dtype
        assert tensors[name].shape == tensor.shape
        assert torch.equal(tensors[name], tensor)
    assert data == {"third": 1 / 3, "none": None, "inf": float("inf"), "text": "é"}


def test_tensors_that_share_memory_are_each_saved(tmp_path):
    whole = torch.arange(6.0)
    tensors, _ = load(save(tmp_path, 1, {"whole": whole, "again": whole, "part": whole[2:4]}, {}))
    assert tensors["again"].tolist() == whole.tolist()
    assert tensors["part"].tolist() == [2.0, 3.0]


def test_the_two_newest_are_kept(tmp_path):
    for step in (9, 10, 100):
        save(tmp_path, step, {}, {})
    assert [p.name for p in checkpoints(tmp_path)] == [
        "checkpoint-000000100.safetensors",
        "checkpoint-000000010.safetensors",
    ]
    assert len(list(tmp_path.iterdir())) == 2


def damage_byte(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 4
    path.write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [
        lambda p: damage_byte(p, -1),
        lambda p: damage_byte(p, 0),
        lambda p: damage_byte(p, p.read_bytes().index(b"epoch")),
        lambda p: p.write_bytes(p.read_bytes()[:-7]),
        lambda p: p.write_bytes(p.read_bytes()[:20]),
        lambda p: p.write_bytes(b""),
        lambda p: p.write_bytes(p.read_bytes() + b"more"),
        lambda p: p.write_bytes(b"\x80\x04}q\x00."),
    ],
    ids=["tensor", "length", "data", "short", "header", "empty", "long", "pickle"],
)
def test_a_damaged_checkpoint_is_reported_and_skipped(tmp_path, damage):
    save(tmp_path, 1, {"a": torch.ones(9)}, {"epoch": 1})
    newer = save(tmp_path, 2, {"a": torch.ones(9)}, {"epoch": 2})
    damage(newer)
    warnings: list[str] = []
    found = load_newest(tmp_path, warnings.append)
    assert found is not None
    assert found.data == {"epoch": 1}
    assert found.damaged == (newer,)
    assert len(warnings) == 1
    assert str(newer) in warnings[0]


def test_where_all_are_damaged_nothing_is_guessed(tmp_path):
    damage_byte(save(tmp_path, 1, {"a": torch.ones(9)}, {}), -1)
    with pytest.raises(TrainingError, match="none of its 1 checkpoints"):
        load_newest(tmp_path, lambda text: None)


def test_a_newer_format_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "VERSION", 99)
    path = save(tmp_path, 1, {}, {})
    monkeypatch.undo()
    with pytest.raises(TrainingError, match="checkpoint format 99"):
        load(path)


def test_a_write_that_fails_leaves_the_one_before_and_no_rubbish(tmp_path, monkeypatch):
    save(tmp_path, 1, {}, {})

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(TrainingError, match="No space left"):
        save(tmp_path, 2, {}, {})
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint-000000001.safetensors"]


def test_a_file_is_moved_into_place_only_when_it_is_on_the_disk(tmp_path, monkeypatch):
    events = []
    real_sync, real_move = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda h: (events.append("sync"), real_sync(h)))
    monkeypatch.setattr(os, "replace", lambda a, b: (events.append("move"), real_move(a, b)))
    save(tmp_path, 1, {}, {})
    assert events == ["sync", "move", "sync"]  # the file, then the folder


def test_every_generator_is_restored():
    seed_all(7)
    torch.randn(3)
    random.gauss(0, 1)  # leaves a second number in store
    np.random.randn()

    def draw():
        return torch.randn(2).tolist(), random.gauss(0, 1), random.random(), np.random.randn(2).tolist()

    state = rng_state()
    first = draw()
    seed_all(8)
    assert draw() != first
    restore_rng(state)
    assert draw() == first
