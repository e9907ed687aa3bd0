from __future__ import annotations

import struct
import sys

import pytest
from standin import Recorder, train

from windlass.core.errors import RecipeError
from windlass.training.track import TensorBoard


def read_scalars(folder):
    """(tag, step) to value of all events, read without TensorBoard: records of length, checksum, bytes, checksum."""
    from tensorboardX.proto.event_pb2 import Event

    found = {}
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        while content:
            (length,) = struct.unpack("<Q", content[:8])
            event = Event.FromString(content[12 : 12 + length])
            found |= {(value.tag, event.step): value.simple_value for value in event.summary.value}
            content = content[16 + length :]
    return found


def test_steps_and_evaluations_become_events(tmp_path):
    pytest.importorskip("tensorboardX", reason="needs the extra track")
    watcher = Recorder()
    train(tmp_path, TensorBoard(watcher, tmp_path / "events"), epochs=2, dev_loss=lambda model: 0.5, diagnostics=2)
    scalars = read_scalars(tmp_path / "events")
    for step in watcher.steps:
        for name in ("loss", "lr", "grad_norm", "tokens_per_second"):
            assert scalars[f"train/{name}", step.step] == pytest.approx(getattr(step, name))
    for row in watcher.rows:
        assert scalars["dev/tokens", row["step"]] == row["dev"]["tokens"]
    assert scalars["gradient/embedding", 2] > 0
    assert ("gradient/embedding", 3) not in scalars
    assert watcher.result is not None


def test_without_the_package_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(RecipeError, match=r"pip install 'windlass\[track\]'"):
        TensorBoard(Recorder(), tmp_path)
