"""Progress, estimate and environment of a run."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
import torch
from rich.console import Console
from standin import Vector, build, data, train

from windlass.core.errors import TrainingError
from windlass.core.records import Carry, Scored
from windlass.data.running import Running
from windlass.recipe.train import TrainOptions
from windlass.training.environment import environment
from windlass.training.estimate import estimate
from windlass.training.observe import RunPlan, Step
from windlass.training.progress import RichProgress
from windlass.training.rng import rng_state


def test_without_a_terminal_work_before_training_is_a_line_now_and_then(monkeypatch):
    shown = io.StringIO()
    progress = RichProgress(Console(file=shown))
    assert list(progress.track(range(0, 40, 10), 4, "reading pictures")) == [0, 10, 20, 30]
    assert shown.getvalue() == ""
    monkeypatch.setattr("windlass.training.progress.LINE_SECONDS", 0.0)
    assert list(progress.track(range(0, 40, 10), 4, "reading pictures")) == [0, 10, 20, 30]
    told = [line.split(",")[0] for line in shown.getvalue().splitlines()]
    assert told == [f"reading pictures: {share}%" for share in (25, 50, 75)]


def test_without_a_terminal_an_evaluation_is_a_plain_line(tmp_path):
    shown = io.StringIO()
    train(tmp_path, RichProgress(Console(file=shown, width=40)), epochs=3)
    lines = shown.getvalue().splitlines()
    assert len(lines) == 4
    assert lines[1].startswith("epoch 2  step ")
    assert "tokens/s" in lines[1]
    assert lines[3].startswith("all epochs done: ")
    assert "best dev loss" in lines[3]
    assert "\x1b" not in shown.getvalue()


def test_on_a_terminal_there_is_a_live_line_and_it_is_closed(tmp_path):
    shown = io.StringIO()
    progress = RichProgress(Console(file=shown, force_terminal=True, width=120))
    train(tmp_path, progress, epochs=3)
    assert progress.live is None
    text = shown.getvalue()
    assert "all epochs done" in text
    assert "\x1b[?25h" in text  # the cursor is back


def test_the_live_line_is_closed_when_a_run_fails(tmp_path):
    progress = RichProgress(Console(file=io.StringIO(), force_terminal=True))
    with pytest.raises(TrainingError):
        train(tmp_path, progress, metric="wer")
    assert progress.live is None


def step(number, seconds):
    return Step(number, epoch=1, loss=1, lr=1, grad_norm=1, tokens=1, tokens_per_second=1, seconds=seconds)


def test_time_left_is_by_pace_and_never_over_the_limit():
    plan = RunPlan(steps=100, done=20, epochs=1, minutes=None, seconds=50.0, metric="loss")
    assert plan.seconds_left(step(40, 60.0)) == pytest.approx(30)  # 10 s for 20 steps, 60 to go
    plan = RunPlan(steps=100, done=20, epochs=1, minutes=1.25, seconds=50.0, metric="loss")
    assert plan.seconds_left(step(40, 60.0)) == pytest.approx(15)
    assert plan.fraction_done(step(40, 60.0)) == pytest.approx(0.8)
    assert plan.fraction_done(step(90, 60.0)) == pytest.approx(0.9)


def test_an_estimate_leaves_no_trace():
    model = build().eval()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    generators = rng_state()
    estimate(model, data(), TrainOptions(sampling={"kind": "constant", "chance": 0.5}))
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    assert all(torch.equal(state, rng_state()[name]) for name, state in generators.items())
    assert not model.training


def test_an_estimate_counts_what_it_should():
    model = build()
    found = estimate(model, data(), TrainOptions(epochs=7))
    assert found.parameters == sum(p.numel() for p in model.parameters())
    assert (found.batches, found.epochs) == (data().batches(0), 7)
    assert found.seconds > 0
    assert found.total == pytest.approx(7 * found.seconds)
    limited = estimate(model, data(), TrainOptions(epochs=10**6, minutes=1))
    assert limited.total == 60
    assert "so the limit of 1m00s allows about " in limited.render()
    assert " of 1,000,000 epochs, without evaluation" in limited.render()


def test_an_estimate_trains_with_sampling_where_the_run_does():
    model = Vector()
    estimate(model, data(), TrainOptions(sampling={"kind": "constant", "chance": 0.5}))
    assert set(model.chances) == {0.5}


def test_an_estimate_of_running_text_starts_from_a_full_window():
    class Window(Vector):
        """Carries on two tokens more after every chunk, up to six."""

        def __init__(self):
            super().__init__()
            self.lengths = []

        def forward(self, batch, carry=None, sampling_prob=0.0):
            self.lengths.append(0 if carry is None else carry.layers[0][0].shape[1])
            after = Carry(((torch.zeros(batch.size, min(6, self.lengths[-1] + 2)),),))
            return replace(super().forward(batch, None, sampling_prob), carry=after)

    model = Window()
    estimate(model, Running(list(range(4, 84)), rows=2, chunk=5, seed=1, shuffle=False), TrainOptions())
    assert model.lengths[:4] == [0, 2, 4, 6]
    assert set(model.lengths[4:]) == {6}


def test_more_state_and_larger_batches_are_more_memory():
    class Large(Vector):
        def forward(self, batch, carry=None, sampling_prob=0.0):
            wide = (self.w.sum() * torch.ones(1024, 1024)).exp()  # 4 MB kept for the way back
            return Scored(wide.sum(), torch.tensor(1))

    small = estimate(Vector(), data(), TrainOptions()).megabytes
    large = estimate(Large(), data(), TrainOptions()).megabytes
    assert 4 < large - small < 16
    wide = Vector(size=(512, 512))  # 1 MB
    by = {
        kind: estimate(wide, data(), TrainOptions.model_validate(options)).megabytes
        for kind, options in {
            "sgd": {"optimiser": "sgd"},
            "adam": {},
            "ema": {"average": "ema"},
            "five": {"average": {"kind": "checkpoints", "count": 5}},
        }.items()
    }
    assert by["sgd"] < by["adam"] < by["ema"] < by["five"]
    assert by["adam"] - by["sgd"] == pytest.approx(2.0, abs=0.01)


def test_the_environment_is_json():
    found = json.loads(json.dumps(environment()))
    assert found["packages"]["torch"] == torch.__version__
    assert found["threads"] == torch.get_num_threads() == 1
