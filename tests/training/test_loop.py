from __future__ import annotations

import json
import math

import pytest
import torch
from standin import Recorder, Vector, build, data, newest, train
from torch import nn

from windlass.core.errors import TrainingError
from windlass.core.records import Scored
from windlass.recipe.schedule import Cosine, InverseSigmoidSampling, LinearSampling, PlateauState
from windlass.training import loop
from windlass.training.checkpoint import checkpoints

PLAIN = {
    "schedule": "constant",
    "average": "none",
    "sampling": "none",
    "optimiser": {"kind": "sgd", "lr": 0.1},
}
EPOCH = data().batches(0)


def scores_in_turn(*scores):
    """An evaluation that gives the scores one after another, whatever the model."""
    left = iter(scores)
    return lambda model: {"loss": next(left)}


def weight_of(model):
    return {"loss": model.w[0, 0].item()}


# -- steps


def test_a_step_follows_the_gradient_of_the_mean_loss(tmp_path):
    model = Vector(0.0)
    train(tmp_path, model=model, evaluate=weight_of, higher_is_better=True, epochs=1, clip=None, **PLAIN)
    assert model.w[0, 0].item() == pytest.approx(1 - 0.9**EPOCH)


@pytest.mark.parametrize(("clip", "moved"), [(None, 0.1), (10.0, 0.1), (1.0, 0.05), (0.2, 0.01)])
def test_a_gradient_is_clipped_by_its_norm(tmp_path, clip, moved):
    model, watcher = Vector(0.0), Recorder(stop_at=1)  # four gradients of -1: a norm of 2
    train(tmp_path, watcher, model=model, clip=clip, **PLAIN)
    assert newest(tmp_path)[0]["model/w"][0, 0].item() == pytest.approx(moved, rel=1e-4)
    assert watcher.steps[0].grad_norm == pytest.approx(2.0)


def test_the_rate_of_every_step_is_the_schedules(tmp_path):
    watcher = Recorder()
    schedule = Cosine(warmup=3, minimum=0.01)
    options = {**PLAIN, "schedule": schedule.model_dump(), "epochs": 2, "clip": None}
    train(tmp_path, watcher, model=Vector(0.0), evaluate=weight_of, **options)
    total = 2 * EPOCH
    expected = [schedule.rate(0.1, s.step, 0, total, PlateauState()) for s in watcher.steps]
    assert [s.lr for s in watcher.steps] == expected
    assert len(set(expected)) > 5
    left = math.prod(1 - rate for rate in expected)  # every step goes `rate` of the way to 1
    assert newest(tmp_path)[0]["model/w"][0, 0].item() == pytest.approx(1 - left)


def test_the_plateau_lowers_the_rate_after_bad_evaluations(tmp_path):
    watcher = Recorder()
    options = {**PLAIN, "schedule": {"kind": "plateau", "patience": 2, "factor": 0.5}, "epochs": 5}
    train(tmp_path, watcher, evaluate=scores_in_turn(3, 4, 4, 2, 2), **options)
    rates = [next(s.lr for s in watcher.steps if s.epoch > e) for e in range(5)]
    assert rates == [0.1, 0.1, 0.1, 0.05, 0.05]


@pytest.mark.parametrize("sampling", [LinearSampling(first=0.1, last=0.9, epochs=1.5), InverseSigmoidSampling(k=4)])
def test_the_sampling_probability_reaches_the_model(tmp_path, sampling):
    model, watcher = Vector(), Recorder()
    options = {**PLAIN, "sampling": sampling.model_dump(), "epochs": 2}
    train(tmp_path, watcher, model=model, evaluate=weight_of, **options)
    places = [0.0] + [s.epoch for s in watcher.steps[:-1]]
    assert model.chances == [sampling.probability(n, place) for n, place in enumerate(places)]


def test_another_seed_is_another_run(tmp_path):
    for seed in (1, 2):
        train(tmp_path / str(seed), seed=seed, epochs=1)
    assert not torch.equal(
        newest(tmp_path / "1")[0]["model/embedding.weight"],
        newest(tmp_path / "2")[0]["model/embedding.weight"],
    )


def test_threads_are_set(tmp_path):
    train(tmp_path, model=Vector(), evaluate=weight_of, threads=2, epochs=1)
    assert torch.get_num_threads() == 2


# -- evaluation


def test_evaluation_uses_the_average_and_training_the_weights(tmp_path):
    seen, saved = [], []

    def evaluate(model):
        seen.append(model.w[0, 0].item())
        assert not model.training
        assert not torch.is_grad_enabled()
        return {"loss": model.w[0, 0].item()}

    options = {**PLAIN, "average": {"kind": "checkpoints", "count": 2}, "epochs": 2, "clip": None}
    model = Vector(0.0)
    train(
        tmp_path,
        model=model,
        evaluate=evaluate,
        higher_is_better=True,
        save_best=lambda m, s: saved.append(m.w[0, 0].item()),
        **options,
    )
    steps = EPOCH + data().batches(1)
    first, second = 1 - 0.9**EPOCH, 1 - 0.9**steps
    assert seen == pytest.approx([first, (first + second) / 2])
    assert saved == pytest.approx(seen)
    assert newest(tmp_path)[0]["model/w"][0, 0].item() == pytest.approx(second)
    assert model.w[0, 0].item() == pytest.approx(seen[-1])


def test_how_often_a_run_is_evaluated_does_not_change_its_steps(tmp_path):
    options = {**PLAIN, "epochs": 2}
    for every in (None, 1):
        train(tmp_path / str(every), evaluate_steps=every, **options)
    a, b = (newest(tmp_path / str(every))[0] for every in (None, 1))
    for name in (n for n in a if n.startswith(("model/", "random/"))):
        assert torch.equal(a[name], b[name])


def test_evaluations_come_every_epoch_or_every_n_steps_and_at_the_end(tmp_path):
    by_epoch, by_step = Recorder(), Recorder()
    train(tmp_path / "a", by_epoch, epochs=2)
    train(tmp_path / "b", by_step, epochs=1, evaluate_steps=EPOCH - 1)
    assert [row["epoch"] for row in by_epoch.rows] == [1, 2]
    assert [row["step"] for row in by_step.rows] == [EPOCH - 1, EPOCH]


@pytest.mark.parametrize(("higher", "best"), [(True, 3), (False, 1)])
def test_the_best_by_the_dev_metric_is_kept(tmp_path, higher, best):
    saved, watcher, model = [], Recorder(), Vector()
    evaluations = scores_in_turn(2, 1, 3, 1, 3)  # an equal score is not better
    result = train(
        tmp_path, watcher, model, evaluate=evaluations, higher_is_better=higher,
        save_best=lambda m, s: saved.append((s["loss"], m.w.clone())), **PLAIN,
    )  # fmt: skip
    assert [score for score, _ in saved] == ([2, 3] if higher else [2, 1])
    assert result.best == {"loss": best}
    assert result.best_step == watcher.rows[2 if higher else 1]["step"]
    assert torch.equal(model.w, saved[-1][1])  # what fit leaves in the model
    assert torch.equal(newest(tmp_path)[0]["best/w"], saved[-1][1])


def kept(tmp_path, scores, losses, **options):
    """The number of the evaluation that is kept, from 1; higher scores are better."""
    watcher, left = Recorder(), iter(losses)
    result = train(
        tmp_path, watcher, Vector(), evaluate=scores_in_turn(*scores), higher_is_better=True,
        dev_loss=lambda model: next(left), **{**PLAIN, "epochs": len(scores), **options},
    )  # fmt: skip
    assert [row["dev_loss"] for row in watcher.rows] == losses
    return 1 + [row["step"] for row in watcher.rows].index(result.best_step)


def test_ties_of_the_metric_are_broken_by_dev_loss(tmp_path):
    assert kept(tmp_path / "a", [0, 0, 0, 0], [3.0, 2.0, 1.0, 1.5]) == 3
    assert kept(tmp_path / "b", [0, 2, 2, 1], [3.0, 2.0, 2.0, 0.5]) == 2
    assert kept(tmp_path / "c", [1, 2, 3], [1.0, 2.0, 3.0]) == 3  # the metric comes first


def test_an_evaluation_in_the_warm_up_does_not_beat_a_later_one_with_lower_loss(tmp_path):
    warm = {"schedule": {"kind": "constant", "warmup": EPOCH}}
    assert kept(tmp_path / "a", [2.8, 0.1, 0.3], [3.0, 1.0, 2.0], **warm) == 3
    assert kept(tmp_path / "b", [2.8, 0.1, 0.3], [3.0, 4.0, 3.5], **warm) == 1
    assert kept(tmp_path / "c", [2.8, 0.1, 0.3], [3.0, 1.0, 2.0]) == 1


def test_a_score_that_is_not_a_number_is_never_better(tmp_path):
    result = train(tmp_path, evaluate=scores_in_turn(math.nan, 5, math.nan), epochs=3)
    assert result.best == {"loss": 5}


def test_a_metric_that_the_evaluation_does_not_give_is_an_error(tmp_path):
    with pytest.raises(TrainingError, match="no metric wer, only loss, tokens"):
        train(tmp_path, metric="wer")


def test_a_row_holds_what_an_epoch_was_like(tmp_path):
    watcher, model = Recorder(), build()
    train(tmp_path, watcher, model=model, epochs=1)
    row = json.loads((tmp_path / "metrics.jsonl").read_text())
    steps = watcher.steps
    tokens = sum(s.tokens for s in steps)
    assert row["loss"] == pytest.approx(sum(s.loss * s.tokens for s in steps) / tokens)
    assert row["nll"] == pytest.approx(row["loss"])
    assert row["grad_norm"] == pytest.approx(sum(s.grad_norm for s in steps) / len(steps))
    assert row["lr"] == steps[-1].lr
    assert row["dev"]["loss"] > 0
    assert row["tokens_per_second"] > 0
    assert (row["epoch"], row["step"]) == (1, EPOCH)
    assert tokens == sum(int(b.target.mask.sum()) for b in data().epoch(0))


# -- ends


def test_patience_counts_evaluations_since_the_best(tmp_path):
    for patience, rows in ((1, 3), (2, 6), (0, 7)):
        watcher = Recorder()
        evaluations = scores_in_turn(5, 4, 4, 3, 3.5, 3, 2)
        options = {**PLAIN, "epochs": 7, "patience": patience}
        result = train(tmp_path / str(patience), watcher, evaluate=evaluations, **options)
        assert len(watcher.rows) == rows
        assert result.reason == ("patience" if patience else "epochs")


class Clock:
    """A clock that a test moves by hand."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now


class Ticks(Recorder):
    """Every step takes ten seconds."""

    def __init__(self, clock, stop_at=None):
        super().__init__(stop_at)
        self.clock = clock

    def step(self, step):
        self.clock.now += 10
        super().step(step)


def test_minutes_leave_time_for_the_last_evaluation(tmp_path, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(loop, "time", clock)

    def evaluate(model):
        clock.now += 15
        return {"loss": 1.0}

    watcher = Ticks(clock)
    result = train(tmp_path, watcher, evaluate=evaluate, minutes=2, epochs=100, evaluate_steps=3)
    # 3 steps 30 s, evaluation 45 s, 3 steps 75 s, evaluation 90 s, 2 steps 110 s + 15 s is over 2 minutes
    assert (result.reason, result.steps) == ("minutes", 8)
    assert [row["step"] for row in watcher.rows] == [3, 6, 8]
    assert watcher.notes == ["time limit reached after 8 steps: evaluating"]
    assert result.seconds == pytest.approx(125)


def test_time_before_a_resume_counts(tmp_path, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(loop, "time", clock)
    options = {"minutes": 1, "epochs": 100, "evaluate_steps": 1000}
    train(tmp_path, Ticks(clock, stop_at=4), **options)
    clock.now += 5000  # the time between does not
    result = train(tmp_path, Ticks(clock), resume=True, **options)
    assert (result.reason, result.steps) == ("minutes", 6)


def test_checkpoints_come_by_the_clock_too(tmp_path, monkeypatch):
    clock, written = Clock(), []
    real = loop.save
    monkeypatch.setattr(loop, "time", clock)
    monkeypatch.setattr(loop, "save", lambda f, step, t, d: (written.append(step), real(f, step, t, d))[1])
    for minutes, expected in ((0.5, [3, 6, 9, 11]), (1, [6, 11])):
        written.clear()
        options = {"checkpoint_minutes": minutes, "evaluate_steps": 1000, "epochs": 100}
        train(tmp_path / str(minutes), Ticks(clock, stop_at=11), **options)
        assert written == expected


# -- trouble


class Breaks(Vector):
    """Its loss, or its gradient, goes wrong at a step."""

    def __init__(self, at, factor):
        super().__init__()
        self.at, self.factor, self.calls = at, factor, 0

    def forward(self, batch, carry=None, sampling_prob=0.0):
        self.calls += 1
        scored = super().forward(batch)
        return Scored(scored.loss_sum * self.factor, scored.count) if self.calls > self.at else scored


@pytest.mark.parametrize(
    ("factor", "message", "at"),
    [
        (math.nan, "the loss is nan", EPOCH + 2),
        (math.inf, "the loss is inf", EPOCH + 2),
        (1e5, "the loss has diverged", 1),
    ],
)
def test_divergence_stops_the_run_and_keeps_the_last_checkpoint(tmp_path, factor, message, at):
    model = Breaks(at, factor)
    options = {**PLAIN, "clip": None, "optimiser": {"kind": "sgd", "lr": 1e-9}, "epochs": 3}
    with pytest.raises(TrainingError) as error:
        train(tmp_path, model=model, evaluate=lambda m: {"loss": 1.0}, **options)
    for part in (
        message,
        f"step {at + 1} ",
        "learning rate 1e-09",
        "lower train.optimiser.lr",
        "train.clip: 1",
    ):
        assert part in str(error.value)
    assert torch.isfinite(model.w).all()
    if at > EPOCH:
        assert str(checkpoints(tmp_path)[0]) in str(error.value)
        assert newest(tmp_path)[1]["state"]["step"] == EPOCH


def test_a_gradient_that_is_not_finite_stops_the_run(tmp_path):
    class Root(Vector):
        def forward(self, batch, carry=None, sampling_prob=0.0):
            return Scored(self.w.sqrt().sum(), torch.tensor(1))  # its slope at 0 is infinite

    with pytest.raises(TrainingError, match="gradient norm is inf"):
        train(tmp_path, model=Root(0.0), **PLAIN)


def test_one_bad_batch_is_no_divergence(tmp_path):
    model = Vector()
    model.register_forward_hook(lambda m, i, o: Scored(o.loss_sum * (100 if len(m.chances) == 3 else 1), o.count))
    assert train(tmp_path, model=model, evaluate=weight_of, **PLAIN).reason == "epochs"


def test_no_data_and_nothing_to_train_are_errors(tmp_path):
    with pytest.raises(TrainingError, match="no training data"):
        train(tmp_path, loader=data(count=0))
    with pytest.raises(TrainingError, match="no parameters to train"):
        train(tmp_path, model=nn.Identity())


def test_a_warmup_longer_than_the_run_is_reported(tmp_path):
    watcher = Recorder()
    train(tmp_path, watcher, epochs=1, schedule={"kind": "constant", "warmup": 500})
    assert "train.schedule.warmup: 500" in watcher.notes[0]


def test_a_warmup_of_one_step_is_none(tmp_path):
    watcher = Recorder()
    one = {"epochs": 1, "schedule": {"kind": "constant", "warmup": 1}}
    train(tmp_path, watcher, loader=data(count=1), **one)
    assert watcher.notes == []


def test_every_evaluation_is_logged_with_the_best_step_so_far(tmp_path):
    scores = iter([3.0, 1.0, 5.0, 2.0])
    train(tmp_path, evaluate=lambda model: {"loss": next(scores, 9.0)}, **PLAIN | {"epochs": 4})
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    steps = [row["step"] for row in rows]
    assert [row["best_step"] for row in rows][:4] == [steps[0], steps[1], steps[1], steps[1]]


def test_an_interrupt_before_any_evaluation_leaves_no_best(tmp_path):
    watcher = Recorder(stop_at=1)
    result = train(tmp_path, watcher)
    assert result.best is None
    assert watcher.result == result
    assert not [name for name in newest(tmp_path)[0] if name.startswith("best/")]


def test_the_observer_hears_the_plan(tmp_path):
    watcher = Recorder(stop_at=3)
    train(tmp_path, watcher, minutes=5, epochs=4)
    assert (watcher.plan.steps, watcher.plan.done, watcher.plan.minutes) == (4 * EPOCH, 0, 5)
    again = Recorder(stop_at=4)
    train(tmp_path, again, minutes=5, epochs=4, resume=True)
    assert again.plan.done == 3


def test_a_step_bumps_the_version_of_the_weights(tmp_path):
    model = build()
    before = {name: (p._version, p.detach().clone()) for name, p in model.named_parameters()}
    train(tmp_path, Recorder(1), model=model)
    changed = [n for n, p in model.named_parameters() if not torch.equal(p, before[n][1])]
    assert changed
    assert all(dict(model.named_parameters())[n]._version > before[n][0] for n in changed)
