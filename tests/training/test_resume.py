from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from standin import OPTIONS, Recorder, build, data, dev_scores, newest, same_run, train

from windlass.core.errors import TrainingError
from windlass.core.weights import weights
from windlass.training.checkpoint import checkpoints


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory) -> Path:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("unbroken")
    assert train(folder).reason == "epochs"
    return folder


def test_the_unbroken_run_uses_everything_a_resume_could_lose(unbroken):
    tensors, saved = newest(unbroken)
    assert saved["state"]["plateau"]["scale"] < 1
    assert int(tensors["average/updates"]) == saved["state"]["step"] > 10
    assert any("exp_avg_sq" in name for name in tensors)
    assert tensors["random/torch"].dtype == torch.uint8


STEPS = sum(data().batches(epoch) for epoch in range(OPTIONS["epochs"]))
RANDOM = [tuple(sorted(random.Random(n).sample(range(1, STEPS), 3))) for n in range(3)]


@pytest.mark.parametrize("stops", [(1,), (data().batches(0), data().batches(0) + 1), *RANDOM])
def test_a_run_stopped_anywhere_and_resumed_equals_one_never_stopped(unbroken, tmp_path, stops):
    for n, stop in enumerate(stops):
        result = train(tmp_path, Recorder(stop), model=build(seed=3 + n), resume=n > 0)
        assert (result.reason, result.steps) == ("interrupted", stop)
    torch.manual_seed(99)  # a new process has other random numbers and other fresh weights
    random.seed(99)
    assert train(tmp_path, model=build(seed=8), resume=True).reason == "epochs"
    assert same_run(unbroken, tmp_path)


@pytest.mark.parametrize(
    "options",
    [
        {
            "optimiser": {"kind": "sgd", "lr": 0.1, "momentum": 0.9},
            "average": {"kind": "checkpoints", "count": 3},
        },
        {"optimiser": "adamw", "schedule": "cosine", "average": "none", "evaluate_steps": 3},
        {"optimiser": "sgd", "schedule": "exponential", "sampling": {"kind": "inverse_sigmoid", "k": 5}},
        {"schedule": {"kind": "inverse_sqrt", "warmup": 3}, "sampling": {"kind": "constant", "chance": 0.5}},
    ],
)
def test_every_kind_of_run_resumes_exactly(tmp_path, options):
    train(tmp_path / "whole", epochs=3, **options)
    train(tmp_path / "broken", Recorder(7), epochs=3, **options)
    train(tmp_path / "broken", model=build(seed=8), resume=True, epochs=3, **options)
    assert same_run(tmp_path / "whole", tmp_path / "broken")


def test_float64_resumes_exactly(tmp_path):
    train(tmp_path / "whole", model=build().double(), epochs=2)
    train(tmp_path / "broken", Recorder(5), model=build().double(), epochs=2)
    train(tmp_path / "broken", model=build(seed=8).double(), resume=True, epochs=2)
    assert newest(tmp_path / "whole")[0]["model/head.output.weight"].dtype == torch.float64
    assert same_run(tmp_path / "whole", tmp_path / "broken")


def test_an_evaluation_broken_off_is_made_after_the_resume(unbroken, tmp_path):
    calls = []

    def breaks_off(model):
        calls.append(1)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGINT)  # Ctrl-C while the dev set is decoded
        return dev_scores(model)

    result = train(tmp_path, evaluate=breaks_off)
    assert result.reason == "interrupted"
    assert len(newest(tmp_path)[1]["state"]["rows"]) == 1
    train(tmp_path, resume=True)
    assert same_run(unbroken, tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_after_the_step_with_a_checkpoint(unbroken, tmp_path, number):
    class Sends(Recorder):
        def step(self, step):
            super().step(step)
            if step.step == 6:
                os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    result = train(tmp_path, Sends())
    assert (result.reason, result.steps) == ("interrupted", 6)
    assert result.checkpoint is not None
    assert result.checkpoint.name == "checkpoint-000000006.safetensors"
    assert signal.getsignal(number) is before
    train(tmp_path, resume=True)
    assert same_run(unbroken, tmp_path)


def test_a_second_ctrl_c_quits_at_once(tmp_path):
    class Twice(Recorder):
        def step(self, step):
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, Twice())
    assert not checkpoints(tmp_path)


def child(folder: Path, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    here = Path(__file__).parent
    path = os.pathsep.join([str(here.parents[1] / "src"), *sys.path])
    return subprocess.Popen(
        [sys.executable, str(here / "standin.py"), str(folder), *arguments],
        env={**os.environ, "PYTHONPATH": path, **variables},
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the child finds the file it writes in /proc")
def test_kill_9_during_a_checkpoint_write_loses_nothing_that_a_resume_cannot_redo(unbroken, tmp_path):
    process = child(tmp_path, KILL_AT_WRITE="3")
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert len(list(tmp_path.glob("*.part"))) == 1
    assert len(checkpoints(tmp_path)) == 2
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 3  # one too many for the checkpoint
    train(tmp_path, model=build(seed=8), resume=True)
    assert not list(tmp_path.glob("*.part"))
    assert same_run(unbroken, tmp_path)


def test_a_damaged_newest_checkpoint_gives_way_to_the_one_before(unbroken, tmp_path):
    train(tmp_path, Recorder(12))
    newer, older = checkpoints(tmp_path)
    content = bytearray(newer.read_bytes())
    content[len(content) // 2] ^= 1
    newer.write_bytes(content)
    watcher = Recorder()
    train(tmp_path, watcher, resume=True)
    assert newer.name in watcher.notes[0]
    assert "damaged" in watcher.notes[0]
    assert older.name in watcher.notes[1]
    assert newer.with_name(newer.name + ".damaged").exists()
    assert same_run(unbroken, tmp_path)


def test_the_log_of_a_resumed_run_has_each_evaluation_once(unbroken, tmp_path):
    train(tmp_path, Recorder(12))
    with (tmp_path / "metrics.jsonl").open("a") as log:
        log.write('{"step": 999}\n{"torn')
    train(tmp_path, resume=True)
    for row, whole in zip(rows(tmp_path), rows(unbroken), strict=True):
        assert {k: v for k, v in row.items() if "second" not in k} == {
            k: v for k, v in whole.items() if "second" not in k
        }
    assert [row["epoch"] for row in rows(tmp_path)] == [1, 2, 3, 4, 5]


def rows(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_a_resume_saves_the_best_once_more(tmp_path):
    saved = []
    train(
        tmp_path,
        Recorder(12),
        save_best=lambda m, s: saved.append((s, weights(m)["embedding.weight"].clone())),
    )
    again = []
    train(
        tmp_path,
        Recorder(13),
        model=build(seed=8),
        resume=True,
        save_best=lambda m, s: again.append((s, weights(m)["embedding.weight"].clone())),
    )
    assert again[0][0] == saved[-1][0]
    assert torch.equal(again[0][1], saved[-1][1])


def test_a_finished_run_resumes_to_its_end_at_once(unbroken, tmp_path):
    first = train(tmp_path)
    watcher = Recorder()
    again = train(tmp_path, watcher, model=build(seed=8), resume=True)
    assert (again.best, again.steps, again.reason) == (first.best, first.steps, "epochs")
    assert watcher.steps == []


def test_a_run_is_never_overwritten(tmp_path):
    train(tmp_path, Recorder(2))
    with pytest.raises(TrainingError, match="resume it or choose another folder"):
        train(tmp_path)


def test_resume_without_a_checkpoint_begins(unbroken, tmp_path):
    train(tmp_path, resume=True)
    assert same_run(unbroken, tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 2}, "seed: 1 is now 2"),
        ({"optimiser": {"kind": "sgd", "lr": 0.01}}, "train.optimiser.kind: adam is now sgd"),
        ({"average": "none"}, "train.average"),
        ({"loader": data(count=40)}, "the data has changed"),
        ({"metric": "tokens"}, "metric: loss is now tokens"),
    ],
)
def test_a_resume_that_cannot_be_right_is_refused(tmp_path, change, message):
    train(tmp_path, Recorder(2))
    with pytest.raises(TrainingError, match=message):
        train(tmp_path, resume=True, **change)


def test_a_resume_with_another_length_is_reported(tmp_path):
    train(tmp_path, Recorder(2))
    watcher = Recorder()
    result = train(tmp_path, watcher, resume=True, epochs=2)
    assert any("train.epochs: 5 is now 2" in note for note in watcher.notes)
    assert result.epochs == 2
